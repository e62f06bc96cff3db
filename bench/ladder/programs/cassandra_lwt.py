"""One row for each content under a lock: a lightweight transaction reads it, compares and sets, and tries again.

Contents go side by side, and the taps of one content one after the other, so that a process does not contend with
itself. Loses truth as `redis_incr` does, and by transactions that time out: they may have happened, and are tried
again.
"""

from __future__ import annotations

import socket
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cassandra import ConsistencyLevel, OperationTimedOut, WriteTimeout
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import FallthroughRetryPolicy
from cassandra.protocol import ErrorMessage
from cassandra.query import dict_factory

from bench.ladder.programs.consumer import arguments, opened
from bench.ladder.taps import STEPS

_BATCH = 100
_TOGETHER = 32
_REQUEST_S = 10.0
_READ = "SELECT likes, dislikes FROM counts WHERE content_id = ?"
_CREATE = "INSERT INTO counts (content_id, likes, dislikes) VALUES (?, ?, ?) IF NOT EXISTS"
_SWAP = "UPDATE counts SET likes = ?, dislikes = ? WHERE content_id = ? IF likes = ? AND dislikes = ?"
# The last is what the driver makes of codes that it has no class for, among them CAS_WRITE_UNKNOWN.
_UNDECIDED = (WriteTimeout, OperationTimedOut, ErrorMessage)


class Rows:
    """The table of counts.

    Args:
        session: Of the driver, in the keyspace.
    """

    def __init__(self, session: Any) -> None:  # noqa: ANN401  untyped driver
        self._session = session
        self._read, self._create, self._swap = map(session.prepare, (_READ, _CREATE, _SWAP))

    def add(self, content_id: str, kind: str, step: int) -> None:
        """Change one counter; returns when it has happened."""
        while True:
            held = self._session.execute(self._read, (content_id,)).one()
            before = held or {"likes": 0, "dislikes": 0}
            after = {**before, kind: before[kind] + step}
            new = after["likes"], after["dislikes"]
            try:
                if held:
                    done = self._session.execute(self._swap, (*new, content_id, before["likes"], before["dislikes"]))
                else:
                    done = self._session.execute(self._create, (content_id, *new))
            except _UNDECIDED as error:
                print(f"undecided: {error!r}", flush=True)
                continue
            if done.was_applied:
                return


def main() -> None:
    """Run until SIGTERM."""
    options = arguments()
    profile = ExecutionProfile(
        consistency_level=ConsistencyLevel.LOCAL_QUORUM,
        serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL,
        request_timeout=_REQUEST_S,
        retry_policy=FallthroughRetryPolicy(),
        row_factory=dict_factory,
    )
    cluster = Cluster(
        options.cassandra_hosts.split(","),
        port=options.cassandra_port,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        sockopts=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
    )
    rows = Rows(cluster.connect(options.keyspace))

    def chain(taps: list[tuple[str, str, int]]) -> None:
        for content_id, kind, step in taps:
            rows.add(content_id, kind, step)

    with ThreadPoolExecutor(_TOGETHER) as pool, opened(options) as taps:
        while True:
            by_content: defaultdict[str, list[tuple[str, str, int]]] = defaultdict(list)
            for tap in taps.read(_BATCH):
                by_content[tap.content_id].append((tap.content_id, *STEPS[tap.action]))
            # The longest first, for a batch takes as long as its hottest content.
            for _ in pool.map(chain, sorted(by_content.values(), key=len, reverse=True)):
                pass
            taps.commit()


if __name__ == "__main__":
    main()

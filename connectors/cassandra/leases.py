"""Leases: one live job per name, kept by renewing a row that expires."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pipelines.errors import Refused

if TYPE_CHECKING:
    from connectors.cassandra.session import CassandraSession

_READ = "SELECT name, owner, host, pid, job, toUnixTimestamp(since) FROM {keyspace}.leases WHERE name = ?"
_ACQUIRE = (
    "INSERT INTO {keyspace}.leases (name, owner, host, pid, job, since) VALUES (?, ?, ?, ?, ?, ?)"
    " IF NOT EXISTS USING TTL ?"
)
# Every column is written again, for each has a life of its own.
_RENEW = (
    "UPDATE {keyspace}.leases USING TTL ? SET owner = ?, host = ?, pid = ?, job = ?, since = ? WHERE name = ?"
    " IF owner = ?"
)
_RELEASE = "DELETE FROM {keyspace}.leases WHERE name = ? IF owner = ?"
_ATTEMPTS = 20  # of one whose answer is lost; each is followed by a serial read with retries of its own


@dataclass(frozen=True, slots=True)
class Lease:
    """Who holds a name.

    Fields:
        name: 'like-counts/<generation>' or 'user-likes'.
        owner: Unique to one start of a job.
        host: Where the owner runs.
        pid: The owner's process there.
        job: The job's name or id, for people.
        since_ms: When the owner got it, milliseconds since the epoch.
    """

    name: str
    owner: str
    host: str
    pid: int
    job: str
    since_ms: int


class Leases:
    """Leases by lightweight transactions.

    Guarantee: at most one owner at a time by Cassandra's clocks, to the second. An owner that was paused may still
    believe in a lease that ran out: a lease keeps people from starting two jobs, epochs keep the counts right.
    """

    def __init__(self, session: CassandraSession) -> None:
        self._session = session

    def acquire(self, lease: Lease, ttl_s: int) -> Lease:
        """Take the name, or renew it where the owner holds it already.

        Returns:
            The lease in force: `lease`, or the same owner's older one.

        Raises:
            Refused: Another owner holds it.
            ServiceUnavailable: Cassandra does not answer, after retries.
        """
        row = (lease.name, lease.owner, lease.host, lease.pid, lease.job, lease.since_ms, ttl_s)
        for _ in range(_ATTEMPTS):
            if self._session.compare_and_set(_ACQUIRE, row):
                return lease
            held = self.read(lease.name)
            if held is None:
                continue  # it ran out just now, or the answer was lost and nothing happened
            if held.owner != lease.owner:
                raise Refused(_held(held), "stop that job first, or wait for its lease to run out")
            if self.renew(held, ttl_s):
                return held
        raise _undecided(self._session, lease)

    def renew(self, lease: Lease, ttl_s: int) -> bool:
        """Keep the name for another `ttl_s` seconds.

        Returns:
            False when it ran out or has another owner.

        Raises:
            ServiceUnavailable: Cassandra does not answer, after retries.
        """
        row = (ttl_s, lease.owner, lease.host, lease.pid, lease.job, lease.since_ms, lease.name, lease.owner)
        return self._decide(_RENEW, row, lease)

    def release(self, lease: Lease) -> None:
        """Give the name up; nothing happens if it has another owner by now.

        Raises:
            ServiceUnavailable: Cassandra does not answer, after retries.
        """
        self._decide(_RELEASE, (lease.name, lease.owner), lease)

    def read(self, name: str) -> Lease | None:
        """Who holds the name, None if nobody does.

        Raises:
            ServiceUnavailable: Cassandra does not answer, after retries.
        """
        row = self._session.serial_row(_READ, (name,))
        # A row may outlive its columns by a moment.
        return Lease(*row) if row and row[1] is not None else None

    def _decide(self, query: str, row: tuple[object, ...], lease: Lease) -> bool:
        for _ in range(_ATTEMPTS):
            applied = self._session.compare_and_set(query, row)
            if applied is not None:
                return applied
            held = self.read(lease.name)
            if held is None or held.owner != lease.owner:
                return False
        raise _undecided(self._session, lease)


def _held(lease: Lease) -> str:
    since = datetime.fromtimestamp(lease.since_ms / 1000, UTC).isoformat(timespec="seconds")
    return f"{lease.name} is held by {lease.job or lease.owner} (pid {lease.pid} on {lease.host}, since {since})"


def _undecided(session: CassandraSession, lease: Lease) -> Exception:
    return session.service.unavailable(TimeoutError(f"the lease {lease.name} was not decided in {_ATTEMPTS} attempts"))

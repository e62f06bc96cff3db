"""The store step of the counting job: Cassandra first, then Redis, both done when a call returns."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from connectors.cassandra.control import Fences
from connectors.cassandra.leases import Lease
from connectors.cassandra.session import CassandraSession, connect
from connectors.cassandra.stats import PARTS, ContentStats
from connectors.lease_keeper import LeaseKeeper
from connectors.redis import RedisCounts
from pipelines.domain.counter import PnCount, RegionTotal
from pipelines.domain.fence import superseded
from pipelines.domain.version import Version
from pipelines.errors import Superseded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pipelines.settings import Settings

# Each round reads Cassandra again for the hashes that another loader took over meanwhile.
_FILL_ROUNDS = 3
_FENCE_LIFE_S = 1.0


def lease_name(generation: int) -> str:
    """The lease of the job that counts a generation."""
    return f"like-counts/{generation}"


@dataclass(frozen=True, slots=True)
class _Stores:
    session: CassandraSession
    stats: ContentStats
    counts: RedisCounts
    fences: Fences

    @classmethod
    def connect(cls, settings: Settings) -> Self:
        counts = RedisCounts(settings)  # connects later, so it is the one that cannot be left open
        session = connect(settings)
        return cls(session, ContentStats(session), counts, Fences(session))

    def close(self) -> None:
        self.session.cluster.shutdown()
        self.counts.close()


class TotalsWriter:
    """Writes absolute totals to both stores, under the epoch of its attempt.

    Guarantee: when `write` returns, every total is in Cassandra at the configured consistency, and in Redis wherever
    its hash is not a miss. Writing again, after a crash or by a zombie, changes nothing: the newest version wins in
    both. So under Flink's at-least-once replays the effect is exactly once.

    Args:
        settings: Of the job.
        generation: Which counting.
        lease: Of the job, as its starter acquired it; its owner has claimed the generation's fence.
        attempt: Flink's number of this attempt of the job, the same for all its subtasks.
        clock: Monotonic seconds that go on while the process is stopped.
        now_ms: Milliseconds since the epoch.
    """

    def __init__(
        self,
        settings: Settings,
        generation: int,
        lease: Lease,
        attempt: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._settings = settings
        self._generation = generation
        self._held = lease
        self._attempt = attempt
        self._clock = clock
        self._now_ms = now_ms
        self._opened: _Stores | None = None
        self._lease: LeaseKeeper | None = None
        self._checked_at = float("-inf")
        self.epoch = 0

    def open(self) -> None:
        """Connect, take the attempt's epoch and start to renew the lease.

        Raises:
            ServiceUnavailable: A store does not answer, after retries.
            Superseded: The lease or the fence has another owner, or a newer attempt has begun.
        """
        self._opened = _Stores.connect(self._settings)
        try:
            self._lease = LeaseKeeper(self._opened.session, self._held)
            self._lease.start()
            self.epoch = self._stores.fences.take(self._generation, self._held.owner, self._attempt)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop renewing and disconnect. The lease stays: it belongs to the job, not to one writer."""
        if self._lease is not None:
            self._lease.close()
            self._lease = None
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _stores(self) -> _Stores:
        if self._opened is None:
            raise RuntimeError("the writer is not open")
        return self._opened

    def write(
        self,
        content_ids: Iterable[str],
        regions: Iterable[str],
        likes_p: Iterable[int],
        likes_n: Iterable[int],
        dislikes_p: Iterable[int],
        dislikes_n: Iterable[int],
        changes: Iterable[int],
        as_of_ms: Iterable[int],
    ) -> list[int]:
        """Store a batch of totals, given as columns of equal length (sequences, arrays or series).

        Of several totals of one content and region, the one with most changes is stored. `as_of_ms` is capped at now.

        Returns:
            The version of each total, in order.

        Raises:
            PartOverflow: `changes` does not fit its 33 bits.
            ServiceUnavailable: A store does not answer, after retries; parts of the batch may be stored.
            Superseded: A newer attempt or another job has taken over; nothing that it wrote has been changed.
        """
        self.check()
        now = self._now_ms()
        versions: list[int] = []
        newest: dict[tuple[str, str], RegionTotal] = {}
        columns = (content_ids, regions, likes_p, likes_n, dislikes_p, dislikes_n, changes, as_of_ms)
        for content_id, region, lp, ln, dp, dn, count, as_of in zip(*columns, strict=True):
            version = Version(self._generation, self.epoch, int(count)).pack()
            versions.append(version)
            held = newest.get((content_id, region))
            if held is None or held.version < version:
                pn = PnCount(int(lp), int(ln), int(dp), int(dn))
                newest[content_id, region] = RegionTotal(content_id, region, pn, version, min(int(as_of), now))
        totals = list(newest.values())
        stores = self._stores
        stores.stats.write(totals)
        outranked = publish(stores.stats, stores.counts, self._generation, totals)
        if outranked:
            raise Superseded(
                f"epoch {self.epoch} of generation {self._generation} is outranked: Redis holds a newer total of"
                f" {outranked[0]!r}",
                "stop this job; if Cassandra was restored from a backup, empty Redis and run `likes cache rebuild`",
            )
        return versions

    def check(self) -> None:
        """Make sure that nobody has taken over, by knowledge that is at most a second old.

        Raises:
            ServiceUnavailable: Cassandra does not answer, after retries.
            Superseded: Somebody has.
        """
        if self._lease is not None:
            self._lease.check()
        asked_at = self._clock()
        if asked_at - self._checked_at < _FENCE_LIFE_S:
            return
        fence = self._stores.fences.read(self._generation)
        if superseded(fence, self._held.owner, self.epoch):
            raise Superseded(
                f"epoch {self.epoch} of generation {self._generation} is superseded by {fence.latest}",
                "nothing to do if the job was restarted; else stop one of the two jobs",
            )
        self._checked_at = asked_at


def publish(
    stats: ContentStats, counts: RedisCounts, generation: int, totals: Sequence[RegionTotal]
) -> tuple[str, ...]:
    """Bring totals that Cassandra has into Redis, loading whole contents where their hash is incomplete.

    A content that other loaders keep taking over is left to them: the last of them read what was written before.

    Returns:
        Contents for which Redis holds a total of a newer epoch.

    Raises:
        ServiceUnavailable: A store does not answer, after retries.
    """
    outranked: dict[str, None] = {}
    pending = totals
    for _ in range(_FILL_ROUNDS):
        applied = counts.apply(generation, pending)
        outranked.update(dict.fromkeys(applied.outranked))
        # Always the whole partition, even where one region is configured: this writer's row need not be the newest.
        refused = set(counts.load(generation, stats.read(generation, applied.incomplete), applied.token))
        if not refused:
            break
        pending = [total for total in pending if total.content_id in refused]
    return tuple(outranked)


def rebuild(stats: ContentStats, counts: RedisCounts, generation: int) -> Iterator[int]:
    """Load every content of a generation from Cassandra into Redis, over whatever is there, while jobs may write.

    Each part of the ring is scanned twice, because hashes may only be filled with what was read after their token.

    Yields:
        How many contents have been dealt with, after each of the ring's parts.

    Raises:
        ServiceUnavailable: A store does not answer, after retries.
    """
    done = 0
    for part in PARTS:
        ids = list(dict.fromkeys(total.content_id for total in stats.scan(generation, [part])))
        token = counts.forget(generation, ids)
        contents: defaultdict[str, list[RegionTotal]] = defaultdict(list)
        for total in stats.scan(generation, [part] if ids else []):
            contents[total.content_id].append(total)
        counts.load(generation, contents, token)
        done += len(ids)
        yield done

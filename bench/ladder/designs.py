"""The designs of the ladder, the simplest first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from bench.ladder.bloom import size_for
from bench.ladder.log import HOT, SPREAD
from bench.ladder.programs.bloom_incr import ERROR
from bench.ladder.programs.redis_sharded_incr import SHARDS
from bench.ladder.reference import Filtered, Increments, Members, Reference


@dataclass(frozen=True, slots=True)
class Design:
    """One way to count.

    Fields:
        name: In the report; also of its program, but for this project's job.
        events: In one run by workload, for about 5 s on 2 cores.
        store: Which kind has its counts.
        notes: What a reader of its figures should know.
        reference: Makes its rules from the capacity of a filter; None: it is to be exact.
        reads_per_count: Rows or keys that a reader fetches for one number.
        processes: How many run.
        probe_s: How long staleness is probed.
        kill_after: Committed share of a log, 0 to 1, after which the next write brings the kill.
    """

    name: str
    events: Mapping[str, int]
    store: Literal["redis", "shards", "cassandra", "both"]
    notes: str
    reference: Callable[[int], Reference] | None
    reads_per_count: int = 1
    processes: int = 2
    probe_s: float = 3.0
    kill_after: float = 0.3

    @property
    def is_job(self) -> bool:
        """Whether it is this project's job and not a program."""
        return self.store == "both"

    @property
    def has_filter(self) -> bool:
        """Whether it may have false positives."""
        return self.name == "bloom_incr"


def _events(hot: int, spread: int) -> Mapping[str, int]:
    return {HOT.name: hot, SPREAD.name: spread}


DESIGNS = (
    Design(
        name="cassandra_lwt",
        events=_events(800, 6_000),
        store="cassandra",
        notes="Paxos v1, commit log synced before each answer, 32 requests at a time for each process",
        reference=lambda _: Increments(),
    ),
    Design(
        name="redis_incr",
        events=_events(200_000, 200_000),
        store="redis",
        notes="pipelines of 2,000",
        reference=lambda _: Increments(),
    ),
    Design(
        name="redis_sharded_incr",
        events=_events(200_000, 200_000),
        store="shards",
        notes=f"{SHARDS} keys for each counter, on one server",
        reference=lambda _: Increments(),
        reads_per_count=SHARDS,
    ),
    Design(
        name="write_behind",
        events=_events(400_000, 400_000),
        store="redis",
        notes="flushed every second, committed after the flush; killed while it writes, which few kills would meet",
        reference=lambda _: Increments(),
    ),
    Design(
        name="bloom_incr",
        events=_events(100_000, 100_000),
        store="redis",
        notes=f"a filter for each partition, sized for {ERROR:.0%} when it holds its share of the runs' taps",
        reference=lambda capacity: Filtered(size_for(capacity, ERROR)),
    ),
    Design(
        name="set_incr",
        events=_events(100_000, 100_000),
        store="redis",
        notes="sets first, counters in a second round trip",
        reference=lambda _: Members(),
    ),
    Design(
        name="likes_counter",
        events=_events(300_000, 300_000),
        store="both",
        notes="this job: 2 subtasks, RocksDB, checkpoints and totals every 5 s, both stores written",
        reference=None,
        processes=1,
        probe_s=10.0,
        kill_after=0.0,
    ),
)

"""The whole ladder on a stack: one row for each design and workload."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from cassandra import DriverException
from confluent_kafka import KafkaException
from redis.exceptions import RedisError

from bench.counting import Bench
from bench.difference import Difference, difference
from bench.ladder.designs import DESIGNS, Design
from bench.ladder.log import LOADS, Load
from bench.ladder.report import Row
from bench.ladder.trial import Trial, prepared
from bench.latency import Latencies
from bench.processes import PeerFailed
from deploy.flink.local_stack import Stack
from pipelines.errors import LikesError

Tell = Callable[[str], None]

# What one design meets is no reason to leave out the others.
_TROUBLE = (PeerFailed, LikesError, KafkaException, RedisError, DriverException, AssertionError, TimeoutError)


def run_ladder(
    bench: Bench,
    runs: int,
    *,
    names: Sequence[str] | None = None,
    events: int | None = None,
    kill: bool = True,
) -> Iterator[Row]:
    """Run designs under both workloads, one after the other.

    Args:
        bench: On a stack that is up; what is made there is removed again. Redis is emptied.
        runs: Of each.
        names: Of designs; None: all.
        events: In each run; None: as the design says.
        kill: Whether each is killed once, after its runs.
    """
    for design in DESIGNS:
        if names is None or design.name in names:
            for load in LOADS:
                amount = events or design.events[load.name]
                yield row_of(bench.stack, design, load, events=amount, runs=runs, kill=kill, tell=bench.tell)


def row_of(stack: Stack, design: Design, load: Load, *, events: int, runs: int, kill: bool, tell: Tell) -> Row:
    """Run one design under one workload; what fails is said in the row's notes."""
    found = _Found()
    began = time.monotonic()
    try:
        with prepared(stack, design, load, events=events, runs=runs, tell=tell) as trial:
            found.collect(trial, events=events, runs=runs, kill=kill, tell=tell)
    except _TROUBLE as error:
        tell(f"{design.name}, {load.name}: {error}")
        found.notes.append(str(error) or type(error).__name__)
    tell(f"{design.name}, {load.name}: took {time.monotonic() - began:.0f} s")
    return found.row(design, load)


@dataclass(slots=True)
class _Found:
    """What has been found of one design under one workload, as far as it came."""

    rates: list[float] = field(default_factory=list)
    latencies: Latencies | None = None
    events: int = 0
    off: int | None = None
    unexplained: int | None = None
    false_positives: int | None = None
    killed: Difference | None = None
    writes: float | None = None
    bytes: float | None = None
    notes: list[str] = field(default_factory=list)

    def collect(self, trial: Trial, *, events: int, runs: int, kill: bool, tell: Tell) -> None:
        """Run everything, keeping what is found on the way."""
        name = f"{trial.design.name}, {trial.load.name}"
        trial.start()
        self.latencies = trial.staleness()
        tell(f"{name}: stale by {self.latencies.quantile(0.5):.2f} s, at most {self.latencies.seconds[-1]:.2f} s")
        written, length = trial.store.writes(), trial.store.file_bytes()
        for number in range(runs):
            self.rates.append(events / trial.measure())
            tell(f"{name}: run {number + 1} of {runs}: {self.rates[-1]:,.0f} events/s")
        self.writes = (trial.store.writes() - written) / (runs * events)
        if length is not None:
            self.bytes = ((trial.store.file_bytes() or 0) - length) / (runs * events)
        counted = trial.store.counts()
        self.events = trial.published
        self.off = difference(counted, trial.truth()).total
        self.unexplained = difference(counted, trial.expected()).total
        if trial.reference and trial.design.has_filter:
            self.false_positives = trial.reference.false_positives
        tell(f"{name}: off by {self.off:,} of {self.events:,}, of which its rules do not explain {self.unexplained:,}")
        if kill:
            self.killed, reached = trial.crash()
            self.notes.append(f"killed at {reached:.0%}")
            tell(f"{name}: killed at {reached:.0%}: lost {self.killed.lost:,}, gained {self.killed.gained:,}")

    def row(self, design: Design, load: Load) -> Row:
        """As the report has it."""
        return Row(
            name=design.name,
            workload=load.name,
            rates=tuple(self.rates),
            events=self.events,
            off_by=self.off,
            unexplained=self.unexplained,
            false_positives=self.false_positives,
            lost_on_kill=self.killed.lost if self.killed else None,
            gained_on_kill=self.killed.gained if self.killed else None,
            writes_per_event=self.writes,
            redis_bytes_per_event=self.bytes,
            reads_per_count=design.reads_per_count,
            staleness_median_s=self.latencies.quantile(0.5) if self.latencies else None,
            staleness_max_s=self.latencies.seconds[-1] if self.latencies else None,
            notes="; ".join([design.notes, *self.notes]),
        )

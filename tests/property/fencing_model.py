"""A model of how totals reach the stores: attempts of the job, zombies, readers, and two fake stores.

The domain is the real one; only the stores and the schedule are made up. Everything that can stop half-way is an
iterator which yields wherever the process may be paused or killed.
"""

from __future__ import annotations

import contextlib
import itertools
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from pipelines.domain.counter import RegionTotal
from pipelines.domain.counting import Reactions, RegionCount, State, apply, recount_exact, stamp
from pipelines.domain.events import LikeEvent
from pipelines.domain.register import EMPTY
from pipelines.domain.version import superseded
from pipelines.errors import Superseded
from tests.property.fencing_stores import Cassandra, Protocol, Redis
from tests.property.strategies import FIRST_MS, RULES

Steps = Iterator[None]
PARTITIONS = 2
NOW_MS = FIRST_MS + 1_000_000


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """State and the next offset of every partition; the default is a start from offset 0 without state."""

    state: State = field(default_factory=State)
    offsets: tuple[int, ...] = (0,) * PARTITIONS


def owner(key: tuple[str, str], parallelism: int) -> int:
    return zlib.crc32(":".join(key).encode()) % parallelism


class Attempt:
    """One attempt of the job: subtasks that keep registers and counts, and write, each at its own pace."""

    def __init__(self, world: World, start: Checkpoint, parallelism: int) -> None:
        self.world, self.generation, self.parallelism = world, world.generation, parallelism
        self.state, self.offsets = start.state, list(start.offsets)
        self.epochs = [world.cassandra.take_epoch(self.generation) for _ in range(parallelism)]
        self.arrived: list[list[LikeEvent]] = [[] for _ in range(parallelism)]
        self.changed: dict[tuple[str, str], RegionCount] = {}
        self.writing: list[Steps] = [iter(()) for _ in range(parallelism)]

    def read(self, partition: int, number: int) -> None:
        at = self.offsets[partition]
        for event in self.world.log[partition][at : at + number]:
            self.arrived[owner((event.content_id, event.user_id), self.parallelism)].append(event)
            self.offsets[partition] += 1

    def count(self, subtask: int) -> None:
        """The registers of one subtask end a bundle."""
        bundle, self.arrived[subtask] = self.arrived[subtask], []
        self.state, changed = apply(self.state, bundle, RULES)
        self.changed.update(changed)

    def flush(self, subtask: int) -> None:
        """The counts of one subtask end a bundle, after the one before has been written."""
        for _ in self.writing[subtask]:
            pass
        mine = [row for row in self.changed if owner(row, self.parallelism) == subtask]
        totals = [self._stamp(subtask, row, self.changed.pop(row)) for row in mine]
        self.writing[subtask] = self._write(subtask, totals)

    def write_out(self, subtask: int) -> None:
        self.flush(subtask)
        for _ in self.writing[subtask]:
            pass

    def step(self, subtask: int, number: int = 1) -> None:
        for _ in itertools.islice(self.writing[subtask], number):
            pass

    def drain(self) -> None:
        """Catch up with the log, write everything, and let every writer look whether it is still current."""
        for partition in range(PARTITIONS):
            self.read(partition, len(self.world.log[partition]))
        self.finish()

    def finish(self) -> None:
        """Write everything that has been read, as a checkpoint's barrier makes the job do."""
        for subtask in range(self.parallelism):
            self.count(subtask)
        for subtask in range(self.parallelism):
            self.write_out(subtask)
        if self.world.protocol.idle_writer_checks_too:
            for subtask in range(self.parallelism):
                self.check(subtask)

    def check(self, subtask: int) -> None:
        latest = self.world.cassandra.latest[self.generation]
        if self.world.protocol.superseded_writer_stops and superseded(self.epochs[subtask], latest, self.parallelism):
            raise Superseded(f"epoch {self.epochs[subtask]} is outranked by {latest}")

    def _stamp(self, subtask: int, row: tuple[str, str], region_count: RegionCount) -> RegionTotal:
        epoch = self.epochs[subtask] if self.world.protocol.version_holds_epoch else 0
        return stamp(row, region_count, generation=self.generation, epoch=epoch, now_ms=NOW_MS)

    def _write(self, subtask: int, totals: list[RegionTotal]) -> Steps:
        if not totals:
            return
        self.check(subtask)
        yield
        for total in totals:
            self.world.cassandra.write(total)
            yield
        for key, token in self.world.redis.store(totals).items():
            yield
            rows = self.world.cassandra.partition(key)
            yield
            self.world.redis.load(key, token, rows)


class World:
    """The log, the stores, the newest attempt, the zombies of older ones, and readers that fill the cache."""

    def __init__(self, protocol: Protocol | None = None, parallelism: int = 1) -> None:
        self.protocol = protocol or Protocol()
        self.log: list[list[LikeEvent]] = [[] for _ in range(PARTITIONS)]
        self.cassandra, self.redis = Cassandra(), Redis(self.protocol)
        self.generation = 1
        self.checkpoint = Checkpoint()
        self.current = Attempt(self, self.checkpoint, parallelism)
        self.zombies: list[Attempt] = []
        self.readers: list[Steps] = []

    def take_checkpoint(self) -> None:
        """Complete a checkpoint or a savepoint: only after both stores hold what it covers."""
        self.current.finish()
        self.checkpoint = Checkpoint(self.current.state, tuple(self.current.offsets))

    def restart(self, parallelism: int, *, zombie: bool = False) -> None:
        """Go on from the checkpoint; the attempt before is dead, or only paused and taken for dead."""
        if zombie:
            self.zombies.append(self.current)
        self.current = Attempt(self, self.checkpoint, parallelism)

    def restart_from_zero(self, parallelism: int, *, zombie: bool = False) -> None:
        """Count the log from offset 0 without state in the same generation."""
        before, self.checkpoint = self.checkpoint, Checkpoint()
        self.restart(parallelism, zombie=zombie)
        if not self.protocol.abandoned_checkpoints_are_forgotten:
            self.checkpoint = before

    def new_generation(self, parallelism: int, *, zombie: bool = False) -> None:
        self.generation += 1
        self.checkpoint = Checkpoint()
        self.restart(parallelism, zombie=zombie)

    def take_late_epoch(self, zombie: Attempt, subtask: int) -> None:
        """A writer opens only after its attempt has been given up, and takes the newest epoch."""
        if not self.protocol.epochs_are_taken_at_the_start:
            zombie.epochs[subtask] = self.cassandra.take_epoch(zombie.generation)

    def superseded(self) -> None:
        """A stranger took an epoch after the newest attempt and may have stored any of its rows anew."""
        if self.protocol.superseded_job_replays_all:
            self.restart_from_zero(self.current.parallelism)
        else:
            self.restart(self.current.parallelism)

    def reader(self, content_id: str) -> Steps:
        """What serves a miss: read the system of record and fill the cache."""
        key = (self.generation, content_id)
        token = self.redis.miss(key)
        if token is not None:
            yield
            rows = self.cassandra.partition(key)
            yield
            self.redis.load(key, token, rows)

    def settle(self) -> None:
        """Let the newest attempt catch up; if it finds itself superseded, its successor."""
        for _ in range(10):
            try:
                self.current.drain()
            except Superseded:
                self.superseded()
            else:
                return
        raise AssertionError("the job is superseded again and again though nobody takes an epoch")

    def wake_all(self) -> None:
        """Let every zombie write what it has read, each subtask for itself, and every reader come to its end."""
        for zombie in self.zombies:
            for subtask in range(zombie.parallelism):
                zombie.count(subtask)
            for subtask in range(zombie.parallelism):
                with contextlib.suppress(Superseded):
                    zombie.write_out(subtask)
        for reader in self.readers:
            list(reader)
        self.zombies, self.readers = [], []

    def wrong(self) -> list[str]:
        """Where a store differs from the truth: Cassandra in any row, Redis in any complete hash."""
        registers: dict[str, dict[str, int]] = {}
        for event in itertools.chain(*self.log):
            users = registers.setdefault(event.content_id, {})
            users[event.user_id] = max(users.get(event.user_id, EMPTY), event.register)
        truth = recount_exact(registers, RULES)
        stored = {
            (key[1], region): total for (key, region), total in self.cassandra.rows.items() if key[0] == self.generation
        }
        problems = _differences("Cassandra", truth, stored)
        for (generation, content_id), entry in self.redis.hashes.items():
            if entry.complete and generation == self.generation:
                expected = {row: total for row, total in truth.items() if row[0] == content_id}
                cached = {(content_id, region): total for region, total in entry.fields.items()}
                problems += _differences("Redis", expected, cached)
        return problems


def _differences(
    store: str, truth: dict[tuple[str, str], Reactions], stored: dict[tuple[str, str], RegionTotal]
) -> list[str]:
    problems = []
    for row in sorted(truth.keys() | stored.keys()):
        expected = truth.get(row, Reactions())
        found = Reactions(stored[row].pn.likes, stored[row].pn.dislikes) if row in stored else Reactions()
        if found != expected:
            problems.append(f"{store} says {found} of {row}, truth is {expected}")
    return problems

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
from pipelines.domain.counting import RegionCount, State, apply, recount_exact, stamp
from pipelines.domain.events import LikeEvent
from pipelines.domain.fence import Outranked, superseded
from pipelines.domain.register import EMPTY
from tests.property.fencing_stores import Cassandra, Protocol, Redis, differences
from tests.property.strategies import FIRST_MS, RULES

Steps = Iterator[None]
PARTITIONS = 2
NOW_MS = FIRST_MS + 1_000_000


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """State and the next offset of every partition; the default is a start from offset 0 without state."""

    state: State = field(default_factory=State)
    offsets: tuple[int, ...] = (0,) * PARTITIONS


@dataclass(slots=True)
class Run:
    """One start of a job by a launcher.

    Fields:
        owner: Its name at the fence.
        generation: What it counts.
        newest: Name of the state that its next attempt starts from, "" for offset 0.
        attempts: How many its JobManager has started.
        saved: How many states it has saved.
    """

    owner: str
    generation: int
    newest: str = ""
    attempts: int = 0
    saved: int = 0


def writer_of(key: tuple[str, str], parallelism: int) -> int:
    return zlib.crc32(":".join(key).encode()) % parallelism


class Attempt:
    """One attempt of a run: subtasks that keep registers and counts, open late, and write, each at its own pace."""

    def __init__(self, world: World, run: Run, parallelism: int) -> None:
        self.world, self.run, self.parallelism = world, run, parallelism
        self.number = run.attempts
        run.attempts += 1
        start = world.saved[run.newest]
        self.state, self.offsets = start.state, list(start.offsets)
        self.epochs = [0] * parallelism  # 0 until the subtask opens
        self.arrived: list[list[LikeEvent]] = [[] for _ in range(parallelism)]
        self.changed: dict[tuple[str, str], RegionCount] = {}
        self.writing: list[Steps] = [iter(()) for _ in range(parallelism)]

    def read(self, partition: int, number: int) -> None:
        at = self.offsets[partition]
        for event in self.world.log[partition][at : at + number]:
            self.arrived[writer_of((event.content_id, event.user_id), self.parallelism)].append(event)
            self.offsets[partition] += 1

    def count(self, subtask: int) -> None:
        """The registers of one subtask end a bundle."""
        bundle, self.arrived[subtask] = self.arrived[subtask], []
        self.state, changed = apply(self.state, bundle, RULES)
        self.changed.update(changed)

    def open(self, subtask: int) -> None:
        """Take the epoch; at any time before the first write, so also long after the attempt was given up."""
        if not self.epochs[subtask]:
            self.epochs[subtask] = self.world.cassandra.take(self.run.generation, self.run.owner, self.number)

    def flush(self, subtask: int) -> None:
        """The counts of one subtask end a bundle, after the one before has been written."""
        self.open(subtask)
        for _ in self.writing[subtask]:
            pass
        mine = [row for row in self.changed if writer_of(row, self.parallelism) == subtask]
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
        """Catch up with the log and write everything."""
        for partition in range(PARTITIONS):
            self.read(partition, len(self.world.log[partition]))
        self.finish()

    def finish(self) -> None:
        """Write everything that has been read, as a checkpoint's barrier makes the job do."""
        for subtask in range(self.parallelism):
            self.count(subtask)
        for subtask in range(self.parallelism):
            self.write_out(subtask)

    def checkpoint(self) -> None:
        """Complete a checkpoint or a savepoint: only after both stores hold what it covers."""
        self.finish()
        self.run.saved += 1
        self.run.newest = f"{self.run.owner}/chk-{self.run.saved}"
        self.world.saved[self.run.newest] = Checkpoint(self.state, tuple(self.offsets))

    def _stamp(self, subtask: int, row: tuple[str, str], region_count: RegionCount) -> RegionTotal:
        epoch = self.epochs[subtask] if self.world.protocol.version_holds_epoch else 0
        return stamp(row, region_count, generation=self.run.generation, epoch=epoch, now_ms=NOW_MS)

    def _write(self, subtask: int, totals: list[RegionTotal]) -> Steps:
        if not totals:
            return
        fence = self.world.cassandra.fences[self.run.generation]
        if self.world.courteous and superseded(fence, self.run.owner, self.epochs[subtask]):
            raise Outranked(f"epoch {self.epochs[subtask]} of {self.run.owner} is superseded: {fence}")
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
    """The log, the stores, the newest attempt, zombies of older ones, slow launchers, and readers that fill the cache.

    Args:
        protocol: The rules.
        parallelism: Of the first attempt.
        courteous: Whether writers look at the fence before they write. Totals must end right either way.
    """

    def __init__(self, protocol: Protocol | None = None, parallelism: int = 1, *, courteous: bool = False) -> None:
        self.protocol, self.courteous = protocol or Protocol(), courteous
        self.log: list[list[LikeEvent]] = [[] for _ in range(PARTITIONS)]
        self.cassandra, self.redis = Cassandra(self.protocol), Redis(self.protocol)
        self.names = map("run {}".format, itertools.count(1))
        self.saved: dict[str, Checkpoint] = {"": Checkpoint()}
        self.run = self._started(1, "")
        self.current = Attempt(self, self.run, parallelism)
        self.zombies: list[Attempt] = []
        self.launchers: list[Steps] = []
        self.readers: list[Steps] = []

    def restart(self, parallelism: int, *, zombie: bool = False) -> None:
        """Flink restarts the job; the attempt before is dead, or only paused and taken for dead."""
        if zombie:
            self.zombies.append(self.current)
        self.current = Attempt(self, self.run, parallelism)

    def new_run(self, parallelism: int, *, zombie: bool = False) -> None:
        """A launcher resumes the job from its newest checkpoint."""
        self._submit(self._started(self.run.generation), parallelism, zombie=zombie)

    def run_from_zero(self, parallelism: int, *, zombie: bool = False) -> None:
        """A launcher that finds no state counts the log from offset 0 in the same generation; then it is back."""
        self._submit(self._started(self.run.generation, ""), parallelism, zombie=zombie)

    def new_generation(self, parallelism: int, *, zombie: bool = False) -> None:
        self._submit(self._started(self.run.generation + 1, ""), parallelism, zombie=zombie)

    def recover(self, parallelism: int, *, zombie: bool = False) -> None:
        """A new JobManager takes the job over and counts its attempts from 0."""
        if self.protocol.recovered_job_is_claimed_anew:
            self.new_run(parallelism, zombie=zombie)
        else:
            self.run.attempts = 0
            self.restart(parallelism, zombie=zombie)

    def launcher(self, parallelism: int) -> Steps:
        """A launcher that may be paused at every step, while others start runs."""
        run = Run(next(self.names), self.run.generation)
        if not self.protocol.claim_precedes_choice:
            run.newest = self._resumable(run.generation)
            yield
        self.cassandra.claim(run.generation, run.owner)
        yield
        if self.protocol.claim_precedes_choice:
            run.newest = self._resumable(run.generation)
            yield
        try:
            self._begin(run)
        except Outranked:
            return
        yield
        if self.run.generation == run.generation and self.cassandra.fences[run.generation].owner == run.owner:
            self._submit(run, parallelism, zombie=True)
        else:  # it submits its job all the same
            self.zombies.append(Attempt(self, run, parallelism))

    def advance(self, which: int, steps: int) -> None:
        """Let one of the launchers that wait go on."""
        launcher = self.launchers.pop(which % len(self.launchers))
        if len(list(itertools.islice(launcher, steps))) == steps:
            self.launchers.append(launcher)

    def zombie_restarts(self, zombie: Attempt) -> None:
        """The JobManager of an older run still lives and restarts its job."""
        if zombie.run is not self.run:
            self.zombies.append(Attempt(self, zombie.run, zombie.parallelism))

    def zombie_checkpoints(self, zombie: Attempt) -> None:
        """The JobManager of an older run still lives and completes a checkpoint."""
        if zombie.run is not self.run and zombie.number == zombie.run.attempts - 1:
            zombie.checkpoint()

    def superseded(self) -> None:
        """The newest attempt was refused: Flink restarts it, or if its run was replaced, somebody starts another."""
        if self.cassandra.fences[self.run.generation].owner == self.run.owner:
            self.restart(self.current.parallelism)
        else:
            self.new_run(self.current.parallelism)

    def reader(self, content_id: str) -> Steps:
        """What serves a miss: read the system of record and fill the cache."""
        key = (self.run.generation, content_id)
        token = self.redis.miss(key)
        if token is not None:
            yield
            rows = self.cassandra.partition(key)
            yield
            self.redis.load(key, token, rows)

    def settle(self) -> None:
        """Let the newest attempt catch up; if it is refused, its successor."""
        for _ in range(100):
            try:
                self.current.drain()
            except Outranked:
                self.superseded()
            else:
                return
        raise AssertionError("the job is refused again and again though nobody else starts one")

    def wake_all(self) -> None:
        """Let launchers and readers come to their ends, and every zombie open and write what it has read."""
        for waiting in [*self.launchers, *self.readers]:
            list(waiting)
        for zombie in self.zombies:
            for subtask in range(zombie.parallelism):
                zombie.count(subtask)
            for subtask in range(zombie.parallelism):
                with contextlib.suppress(Outranked):
                    zombie.write_out(subtask)
        self.zombies, self.launchers, self.readers = [], [], []

    def _started(self, generation: int, state: str | None = None) -> Run:
        """A launcher that nobody disturbs; it resumes what it may, or the given state."""
        run = Run(next(self.names), generation)
        self.cassandra.claim(generation, run.owner)
        run.newest = self._resumable(generation) if state is None else state
        self._begin(run)
        return run

    def _begin(self, run: Run) -> None:
        is_first = not self.cassandra.fences[run.generation].saver
        if run.newest or is_first or self.protocol.every_begin_is_on_record:
            self.cassandra.begin(run.generation, run.owner, run.newest)

    def _submit(self, run: Run, parallelism: int, *, zombie: bool) -> None:
        self.run = run
        self.restart(parallelism, zombie=zombie)

    def _resumable(self, generation: int) -> str:
        fence = self.cassandra.fences[generation]
        if not self.protocol.only_the_newest_run_is_resumed:
            return list(self.saved)[-1]
        own = [name for name in self.saved if name.startswith(f"{fence.saver}/")]
        return own[-1] if own else fence.base

    def wrong(self) -> list[str]:
        """Where a store differs from the truth: Cassandra in any row, Redis in any complete hash."""
        registers: dict[str, dict[str, int]] = {}
        for event in itertools.chain(*self.log):
            users = registers.setdefault(event.content_id, {})
            users[event.user_id] = max(users.get(event.user_id, EMPTY), event.register)
        return differences(recount_exact(registers, RULES), self.cassandra, self.redis, self.run.generation)

"""Versions, epochs, generations and the cache under crashes, zombies and replays: never stuck wrong.

Law: once the newest attempt has caught up with the log and written, Cassandra equals the truth and so does every
complete Redis hash; and no version of a (generation, content, region) in Cassandra ever moves backwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pipelines.domain.events import LikeEvent
from pipelines.domain.fence import Outranked
from tests.property.fencing_model import PARTITIONS, Attempt, World
from tests.property.strategies import events

if TYPE_CHECKING:
    from collections.abc import Callable

NEWEST_OR_ZOMBIE = st.sampled_from((0, 0, 0, 1, 2))
SUBTASK = st.integers(0, 2)
PARTITION = st.integers(0, PARTITIONS - 1)
PARALLELISM = st.integers(1, 3)
CONTENTS = 4
CONTENT = st.integers(1, CONTENTS).map("v{}".format)
RESTART = st.sampled_from(
    ("crash", "crash", "crash", "new run", "savepoint", "recovery", "offset 0", "offset 0", "new generation")
)


class Fencing(RuleBasedStateMachine):
    """Random schedules of everything that can happen to the job and its stores."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.seen: dict[object, int] = {}

    @initialize(courteous=st.booleans())
    def manners(self, *, courteous: bool) -> None:
        self.world.courteous = courteous

    def at(self, who: int, act: Callable[[Attempt], None]) -> None:
        """Let the newest attempt or a zombie act; whoever is refused or finds itself superseded stops."""
        world = self.world
        actor = world.zombies[who % len(world.zombies)] if who and world.zombies else world.current
        try:
            act(actor)
        except Outranked:
            if actor is world.current:
                world.superseded()
            else:
                world.zombies.remove(actor)

    @rule(new=st.lists(events(times=50, contents=CONTENTS), min_size=1, max_size=4), partition=PARTITION)
    def append(self, new: list[LikeEvent], partition: int) -> None:
        self.world.log[partition].extend(new)

    @rule(who=NEWEST_OR_ZOMBIE, partition=PARTITION, number=st.integers(1, 4))
    def read(self, who: int, partition: int, number: int) -> None:
        self.at(who, lambda attempt: attempt.read(partition, number))

    @rule(who=NEWEST_OR_ZOMBIE, subtask=SUBTASK)
    def count(self, who: int, subtask: int) -> None:
        self.at(who, lambda attempt: attempt.count(subtask % attempt.parallelism))

    @rule(who=NEWEST_OR_ZOMBIE, subtask=SUBTASK)
    def flush(self, who: int, subtask: int) -> None:
        self.at(who, lambda attempt: attempt.flush(subtask % attempt.parallelism))

    @rule(who=NEWEST_OR_ZOMBIE, subtask=SUBTASK, number=st.integers(1, 6))
    def write(self, who: int, subtask: int, number: int) -> None:
        self.at(who, lambda attempt: attempt.step(subtask % attempt.parallelism, number))

    @rule(who=NEWEST_OR_ZOMBIE, partition=PARTITION, number=st.integers(1, 4))
    def read_and_write(self, who: int, partition: int, number: int) -> None:
        self.read(who, partition, number)
        self.at(who, Attempt.finish)

    @rule()
    def catch_up(self) -> None:
        self.at(0, Attempt.drain)

    @rule(who=NEWEST_OR_ZOMBIE, subtask=SUBTASK)
    def open(self, who: int, subtask: int) -> None:
        self.at(who, lambda attempt: attempt.open(subtask % attempt.parallelism))

    @rule()
    def checkpoint(self) -> None:
        self.at(0, Attempt.checkpoint)

    @rule(how=RESTART, parallelism=PARALLELISM, zombie=st.booleans())
    def restart(self, how: str, parallelism: int, *, zombie: bool) -> None:
        world = self.world
        if how == "savepoint":
            self.checkpoint()
        begin = {
            "crash": world.restart,
            "new run": world.new_run,
            "savepoint": world.new_run,
            "recovery": world.recover,
            "offset 0": world.run_from_zero,
            "new generation": world.new_generation,
        }
        begin[how](parallelism, zombie=zombie)

    @rule(parallelism=PARALLELISM)
    def launcher_comes(self, parallelism: int) -> None:
        self.world.launchers.append(self.world.launcher(parallelism))
        next(self.world.launchers[-1])

    @precondition(lambda self: self.world.launchers)
    @rule(which=st.integers(0, 1), steps=st.sampled_from((1, 2, 9)))
    def launcher_goes_on(self, which: int, steps: int) -> None:
        self.world.advance(which, steps)

    @precondition(lambda self: self.world.zombies)
    @rule(who=st.integers(1, 2), act=st.sampled_from((World.zombie_restarts, World.zombie_checkpoints)))
    def old_job_manager(self, who: int, act: Callable[[World, Attempt], None]) -> None:
        self.at(who, lambda zombie: act(self.world, zombie))

    @rule(content_id=CONTENT | st.just(""), only_incomplete=st.booleans())
    def redis_loses(self, content_id: str, *, only_incomplete: bool) -> None:
        self.world.redis.lose(content_id=content_id, only_incomplete=only_incomplete)

    @rule(content_id=CONTENT)
    def reader_comes(self, content_id: str) -> None:
        self.world.readers.append(self.world.reader(content_id))

    @precondition(lambda self: self.world.readers)
    @rule(which=st.integers(0, 3))
    def reader_goes_on(self, which: int) -> None:
        next(self.world.readers[which % len(self.world.readers)], None)

    @rule()
    def settle(self) -> None:
        self.world.settle()
        assert not self.world.wrong()

    @invariant()
    def versions_never_move_backwards(self) -> None:
        for row, total in self.world.cassandra.rows.items():
            assert total.version >= self.seen.get(row, 0)
            self.seen[row] = total.version

    @invariant()
    def one_version_is_one_total(self) -> None:
        assert not self.world.cassandra.ties

    def teardown(self) -> None:
        self.settle()
        self.world.wake_all()
        self.settle()


Fencing.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestNeverStuckWrong = Fencing.TestCase

"""Versions, epochs, generations and the cache under crashes, zombies and replays: never stuck wrong.

Law: once the newest attempt has caught up with the log and written, Cassandra equals the truth and so does every
complete Redis hash; and no version of a (generation, content, region) in Cassandra ever moves backwards.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pipelines.domain.events import LikeEvent
from pipelines.domain.register import Reaction, pack
from pipelines.errors import Superseded
from tests.property.fencing_model import PARTITIONS, Attempt, World, owner
from tests.property.fencing_stores import Protocol
from tests.property.strategies import FIRST_MS, RULES, events

if TYPE_CHECKING:
    from collections.abc import Callable

NEWEST_OR_ZOMBIE = st.sampled_from((0, 0, 0, 1, 2))
SUBTASK = st.integers(0, 2)
PARTITION = st.integers(0, PARTITIONS - 1)
PARALLELISM = st.integers(1, 3)
CONTENTS = 4
CONTENT = st.integers(1, CONTENTS).map("v{}".format)
RESTART = st.sampled_from(("crash", "crash", "crash", "savepoint", "offset 0", "offset 0", "new generation"))


class Fencing(RuleBasedStateMachine):
    """Random schedules of everything that can happen to the job and its stores."""

    protocol = Protocol()

    def __init__(self) -> None:
        super().__init__()
        self.world = World(self.protocol)
        self.seen: dict[object, int] = {}

    def at(self, who: int, act: Callable[[Attempt], None]) -> None:
        """Let the newest attempt or a zombie act; whoever finds itself superseded stops."""
        world = self.world
        actor = world.zombies[who % len(world.zombies)] if who and world.zombies else world.current
        try:
            act(actor)
        except Superseded:
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

    @rule()
    def checkpoint(self) -> None:
        self.at(0, lambda _: self.world.take_checkpoint())

    @rule(how=RESTART, parallelism=PARALLELISM, zombie=st.booleans())
    def restart(self, how: str, parallelism: int, *, zombie: bool) -> None:
        world = self.world
        if how == "savepoint":
            self.checkpoint()
        if how == "offset 0":
            world.restart_from_zero(parallelism, zombie=zombie)
        elif how == "new generation":
            world.new_generation(parallelism, zombie=zombie)
        else:
            world.restart(parallelism, zombie=zombie)

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


def like(user: str, time: int = 0, region: str = "us", reaction: Reaction = Reaction.LIKE) -> LikeEvent:
    return LikeEvent("v1", user, pack(FIRST_MS + time, reaction, RULES.codes[region]))


def replay_merges_taps(protocol: Protocol) -> World:
    """A run counts three changes one by one; its replay merges them into fewer, and then one like more."""
    world = World(protocol)
    for event in (like("u1"), like("u1", 1, reaction=Reaction.NONE)):
        world.log[0].append(event)
        world.current.drain()
    world.restart(1)
    world.log[0].append(like("u2"))
    return world


def replay_merges_a_visit_away(protocol: Protocol) -> World:
    """A run stores a like at home; its replay meets it in one bundle with the user's move abroad."""
    world = World(protocol)
    world.log[0].append(like("u1"))
    world.current.drain()
    world.restart(1)
    world.log[0].append(like("u1", 1, "eu"))
    return world


def late_epoch(protocol: Protocol, *, checkpoint: bool = False, parallelism: int = 1) -> World:
    """A paused writer with one of two likes wakes, takes the newest epoch, and stores what it has."""
    world = World(protocol, parallelism)
    world.log[0].append(like("u1"))
    world.current.read(0, 1)
    world.restart(parallelism, zombie=True)
    world.log[0].append(like("u2"))
    world.current.drain()
    if checkpoint:
        world.take_checkpoint()
    world.take_late_epoch(world.zombies[0], owner(("v1", "us"), parallelism))
    world.wake_all()
    return world


def late_epoch_between_attempts(protocol: Protocol) -> World:
    """The same, and the newest attempt crashes before it looks; its successor is current and counts nothing again."""
    world = late_epoch(protocol, checkpoint=True)
    world.restart(1)
    return world


def late_epoch_after_checkpoint(protocol: Protocol) -> World:
    """The same, and a checkpoint already covers both likes, so that nothing would be counted again."""
    return late_epoch(protocol, checkpoint=True)


def late_epoch_beside_an_idle_writer(protocol: Protocol) -> World:
    """The same with two writers: only the one that has nothing to write is behind by as many epochs as writers."""
    assert owner(("v1", "us"), 2) == 1
    return late_epoch(protocol, parallelism=2)


def crash_in_a_replay_from_zero(protocol: Protocol) -> World:
    """A replay from offset 0 stores one of two likes and crashes; a checkpoint from before it covers both."""
    world = World(protocol)
    world.log[0].extend([like("u1"), like("u2")])
    world.current.drain()
    world.take_checkpoint()
    world.restart_from_zero(1)
    world.current.read(0, 1)
    world.current.finish()
    world.restart(1)
    return world


def zombie_reaches_the_cache(protocol: Protocol) -> World:
    """A writer is paused after its Cassandra write, and goes on to Redis when its successor has stored more."""
    world = World(protocol)
    world.log[0].append(like("u1"))
    world.current.drain()
    world.restart(1)
    world.current.read(0, 1)
    world.current.count(0)
    world.current.flush(0)
    world.current.step(0, 2)
    world.restart(1, zombie=True)
    world.log[0].append(like("u2"))
    world.current.drain()
    world.zombies[0].step(0, 9)
    return world


def slow_reader(protocol: Protocol) -> World:
    """A reader reads Cassandra, the writer stores more in both stores, the cache evicts it, and the reader loads."""
    world = World(protocol)
    world.log[0].append(like("u1"))
    world.current.drain()
    world.redis.lose()
    reader = world.reader("v1")
    next(reader)
    next(reader)
    world.log[0].append(like("u2"))
    world.current.drain()
    world.redis.lose()
    list(reader)
    return world


WHOLE = Protocol()
LATE = replace(WHOLE, epochs_are_taken_at_the_start=False)
# For each rule: a protocol that needs it, and the trace that shows so.
TRACES: dict[str, tuple[Protocol, Callable[[Protocol], World]]] = {
    "version_holds_epoch": (WHOLE, replay_merges_taps),
    "epochs_are_taken_at_the_start": (WHOLE, late_epoch_between_attempts),
    "superseded_writer_stops": (LATE, late_epoch),
    "idle_writer_checks_too": (LATE, late_epoch_beside_an_idle_writer),
    "superseded_job_replays_all": (LATE, late_epoch_after_checkpoint),
    "abandoned_checkpoints_are_forgotten": (WHOLE, crash_in_a_replay_from_zero),
    "redis_compares_versions": (WHOLE, zombie_reaches_the_cache),
    "redis_load_needs_its_token": (WHOLE, slow_reader),
}


def test_every_rule_has_a_trace() -> None:
    assert TRACES.keys() == {rule.name for rule in fields(Protocol)}


@pytest.mark.parametrize(
    ("protocol", "trace"),
    [*TRACES.values(), (WHOLE, replay_merges_a_visit_away)],
    ids=lambda of: getattr(of, "__name__", ""),
)
def test_traces_end_right_with_every_rule(protocol: Protocol, trace: Callable[[Protocol], World]) -> None:
    world = trace(protocol)
    world.settle()
    assert not world.wrong()


@pytest.mark.parametrize("missing", TRACES)
def test_without_one_rule_a_total_is_stuck_wrong(missing: str) -> None:
    """The model has teeth: take one rule away, and a short trace ends wrong and stays so."""
    protocol, trace = TRACES[missing]
    world = trace(replace(protocol, **{missing: False}))
    for _ in range(3):
        world.settle()
        assert world.wrong()


def test_without_touches_a_total_is_stuck_wrong() -> None:
    """An event that moves a user abroad must make its replay store home again."""
    with mock.patch("pipelines.domain.counting.touches", return_value=()):
        world = replay_merges_a_visit_away(Protocol())
        for _ in range(3):
            world.settle()
            assert world.wrong()

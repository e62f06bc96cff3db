"""For each rule of the fencing model a short trace that ends wrong, and stays so, without that rule."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from pipelines.domain.events import LikeEvent
from pipelines.domain.fence import Outranked
from pipelines.domain.register import Reaction, pack
from tests.property.fencing_model import World
from tests.property.fencing_stores import Protocol
from tests.property.strategies import FIRST_MS, RULES

if TYPE_CHECKING:
    from collections.abc import Callable


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


def late_opening(protocol: Protocol, *, new_run: bool = False) -> World:
    """A writer that has read one of two likes opens after a checkpoint of its successor, and stores what it has."""
    world = World(protocol)
    world.restart(1)
    world.log[0].append(like("u1"))
    world.current.read(0, 1)
    (world.new_run if new_run else world.restart)(1, zombie=True)
    world.log[0].append(like("u2"))
    world.current.drain()
    world.current.checkpoint()
    world.wake_all()
    world.restart(1)
    return world


def late_opening_of_an_older_run(protocol: Protocol) -> World:
    """The same, and the successor is an attempt of a later run, with a smaller number."""
    return late_opening(protocol, new_run=True)


def recovery(protocol: Protocol) -> World:
    """A run counts three changes; its JobManager recovers it as attempt 0 once more, which merges them into one."""
    world = World(protocol)
    for event in (like("u1"), like("u1", 1, reaction=Reaction.NONE)):
        world.log[0].append(event)
        world.current.drain()
    world.recover(1)
    world.log[0].append(like("u2"))
    return world


def slow_launcher(protocol: Protocol) -> World:
    """A launcher pauses before it begins; a run from offset 0 stores one of two likes; the first submits its job."""
    world = World(protocol)
    world.log[0].extend([like("u1"), like("u2")])
    world.current.drain()
    world.current.checkpoint()
    launcher = world.launcher(1)
    next(launcher)
    world.run_from_zero(1)
    world.current.read(0, 1)
    world.current.finish()
    list(launcher)
    return world


def old_run_completes_a_checkpoint(protocol: Protocol) -> World:
    """Two likes are stored, a new run stores one of them anew, and only then the old run's checkpoint completes."""
    world = World(protocol)
    world.log[0].extend([like("u1"), like("u2")])
    world.current.drain()
    world.new_run(1, zombie=True)
    world.current.read(0, 1)
    world.current.finish()
    world.zombie_checkpoints(world.zombies[0])
    world.new_run(1)
    return world


def end_of_a_replay_from_zero(protocol: Protocol) -> World:
    """A replay from offset 0 stores one of two likes and ends; a checkpoint from before it covers both."""
    world = World(protocol)
    world.log[0].extend([like("u1"), like("u2")])
    world.current.drain()
    world.current.checkpoint()
    world.run_from_zero(1)
    world.current.read(0, 1)
    world.current.finish()
    world.new_run(1)
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


# For each rule the trace that needs it.
TRACES: dict[str, Callable[[Protocol], World]] = {
    "version_holds_epoch": replay_merges_taps,
    "epochs_are_fenced": late_opening,
    "take_heeds_attempt": late_opening,
    "take_heeds_owner": late_opening_of_an_older_run,
    "recovered_job_is_claimed_anew": recovery,
    "claim_precedes_choice": slow_launcher,
    "only_the_newest_run_is_resumed": old_run_completes_a_checkpoint,
    "every_begin_is_on_record": end_of_a_replay_from_zero,
    "redis_compares_versions": zombie_reaches_the_cache,
    "redis_load_needs_its_token": slow_reader,
}


def test_every_rule_has_a_trace() -> None:
    assert list(TRACES) == [rule.name for rule in fields(Protocol)]


@pytest.mark.parametrize(
    "trace", dict.fromkeys([*TRACES.values(), replay_merges_a_visit_away]), ids=lambda trace: trace.__name__
)
def test_traces_end_right_with_every_rule(trace: Callable[[Protocol], World]) -> None:
    world = trace(Protocol())
    world.settle()
    assert not world.wrong()


@pytest.mark.parametrize("missing", TRACES)
def test_without_one_rule_a_total_is_stuck_wrong(missing: str) -> None:
    """The model has teeth: take one rule away, and a short trace ends wrong and stays so."""
    world = TRACES[missing](replace(Protocol(), **{missing: False}))
    for courteous in (False, True, True):
        world.courteous = courteous
        world.settle()
        assert world.wrong()


def test_without_touches_a_total_is_stuck_wrong() -> None:
    """An event that moves a user abroad must make its replay store home again."""
    with mock.patch("pipelines.domain.counting.touches", return_value=()):
        world = replay_merges_a_visit_away(Protocol())
        for _ in range(3):
            world.settle()
            assert world.wrong()


def test_attempts_that_are_counted_anew_are_refused_until_they_are_newer() -> None:
    """What the fence alone does for a job that recovers without a claim: it refuses all but the equal attempt."""
    world = World(replace(Protocol(), recovered_job_is_claimed_anew=False))
    for _ in range(3):
        world.restart(1)
    world.current.open(0)
    world.recover(1)
    for _ in range(3):
        with pytest.raises(Outranked):
            world.current.open(0)
        world.superseded()
    assert world.current.number == 3

"""Long random schedules over the fencing model, thousands of them, with fixed seeds.

The state machine beside this file shrinks what it finds, but it is slow; walks are plain and fast, and that they find
every missing rule by themselves is what makes their silence about the whole protocol worth something.
"""

from __future__ import annotations

import random
from dataclasses import fields, replace
from unittest import mock

import pytest

from pipelines.domain.events import LikeEvent
from pipelines.domain.fence import Outranked
from pipelines.domain.register import Reaction, pack
from tests.property.fencing_model import PARTITIONS, Attempt, World
from tests.property.fencing_stores import Protocol
from tests.property.strategies import FIRST_MS

WALKS = 4_000  # each missing rule is found within so many, so that finding nothing says something
STEPS = 45
# How often each thing happens, relative to the others.
WEIGHTS = {
    "append": 1,
    "read": 8,
    "count": 3,
    "open": 2,
    "flush": 3,
    "write": 5,
    "finish": 8,
    "checkpoint": 5,
    "crash": 4,
    "new run": 2,
    "recovery": 1,
    "offset 0": 3,
    "new generation": 0.1,
    "launcher comes": 2,
    "launcher goes on": 2,
    "zombie restarts": 1,
    "zombie checkpoints": 3,
    "redis": 4,
    "reader comes": 2,
    "reader goes on": 4,
}


def act(attempt: Attempt, rng: random.Random, what: str) -> None:
    """Something that the newest attempt or a zombie does."""
    subtask = rng.randrange(attempt.parallelism)
    match what:
        case "read":
            attempt.read(rng.randrange(PARTITIONS), rng.randint(1, 4))
        case "count":
            attempt.count(subtask)
        case "open":
            attempt.open(subtask)
        case "flush":
            attempt.flush(subtask)
        case "write":
            attempt.step(subtask, rng.randint(1, 6))
        case "finish":
            attempt.finish()
        case "zombie restarts":
            attempt.world.zombie_restarts(attempt)
        case "zombie checkpoints":
            attempt.world.zombie_checkpoints(attempt)


def restart(world: World, rng: random.Random, what: str) -> None:
    """Something that ends an attempt or a run, or saves it from its end."""
    parallelism, zombie = rng.randint(1, 3), rng.random() < 0.5
    match what:
        case "checkpoint":
            world.current.checkpoint()
        case "crash":
            world.restart(parallelism, zombie=zombie)
        case "new run":
            world.new_run(parallelism, zombie=zombie)
            begin(world.current, rng)
        case "recovery":
            world.recover(parallelism, zombie=zombie)
        case "offset 0":
            world.run_from_zero(parallelism, zombie=zombie)
            begin(world.current, rng)
        case "new generation":
            world.new_generation(parallelism, zombie=zombie)
        case "launcher comes":
            world.launchers.append(world.launcher(parallelism))
            next(world.launchers[-1])
        case "launcher goes on" if world.launchers:
            world.advance(rng.randrange(len(world.launchers)), rng.choice((1, 2, 9, 9)))


def begin(attempt: Attempt, rng: random.Random) -> None:
    """Write something, often less than an older run has written."""
    if rng.random() < 0.5:
        attempt.read(rng.randrange(PARTITIONS), rng.randint(1, 4))
        attempt.finish()


def happen(world: World, rng: random.Random, what: str) -> None:
    """Something outside the job."""
    content_id = f"v{rng.randint(1, 5)}"
    match what:
        case "append":
            register = pack(FIRST_MS + rng.randrange(50), rng.choice(list(Reaction)), rng.choice((0, 0, 1, 2)))
            world.log[rng.randrange(PARTITIONS)].append(LikeEvent(content_id, f"u{rng.randint(1, 3)}", register))
        case "redis":
            world.redis.lose(content_id=rng.choice((content_id, content_id, "")), only_incomplete=rng.random() < 0.2)
        case "reader comes":
            world.readers.append(world.reader(content_id))
        case "reader goes on" if world.readers:
            next(rng.choice(world.readers[-3:]), None)


def walk(seed: int, protocol: Protocol) -> list[str]:
    """One schedule; returns what is wrong after the newest attempt has caught up."""
    rng = random.Random(seed)
    world = World(protocol, rng.randint(1, 3), courteous=rng.random() < 0.5)
    seen: dict[object, int] = {}
    # Swarm testing (Groce et al., 2012): a walk in which something is rare or missing reaches what others heal.
    weights = [weight * rng.choice((0, 0.5, 1, 2)) for weight in WEIGHTS.values()]
    for what in ["append"] * 10 + rng.choices(list(WEIGHTS), [*weights[:-1], 1], k=STEPS):
        attempt = rng.choice([world.current, world.current, *world.zombies[-2:]])
        happen(world, rng, what)
        try:
            act(attempt, rng, what)
            attempt = world.current
            restart(world, rng, what)
        except Outranked:
            if attempt in world.zombies:
                world.zombies.remove(attempt)
            else:
                world.superseded()
        for row, total in world.cassandra.rows.items():
            assert total.version >= seen.get(row, 0)
            seen[row] = total.version
    if rng.random() < 0.5:
        world.wake_all()
    world.settle()
    problems = world.wrong()
    if rng.random() < 0.5:
        world.redis.lose()
    world.wake_all()
    world.settle()
    return problems + world.wrong()


def test_every_walk_ends_right() -> None:
    """Cassandra and every complete hash equal the truth, and no version moves backwards, whatever happens."""
    for seed in range(WALKS):
        assert not walk(seed, Protocol()), f"seed {seed}"


def found(protocol: Protocol) -> bool:
    return any(walk(seed, protocol) for seed in range(WALKS))


@pytest.mark.parametrize("missing", [rule.name for rule in fields(Protocol)])
def test_walks_find_every_missing_rule(missing: str) -> None:
    assert found(replace(Protocol(), **{missing: False}))


def test_walks_find_missing_touches() -> None:
    with mock.patch("pipelines.domain.counting.touches", return_value=()):
        assert found(Protocol())

"""Long random schedules over the fencing model, thousands of them, with fixed seeds.

The state machine beside this file shrinks what it finds, but it is slow; walks are plain and fast, and that they find
every missing rule by themselves is what makes their silence about the whole protocol worth something.
"""

from __future__ import annotations

import random
from dataclasses import replace
from unittest import mock

import pytest

from pipelines.domain.events import LikeEvent
from pipelines.domain.register import Reaction, pack
from pipelines.errors import Superseded
from tests.property.fencing_model import PARTITIONS, Attempt, World
from tests.property.fencing_stores import Protocol
from tests.property.strategies import FIRST_MS

WALKS = 4_000  # each missing rule is found within so many, so that finding nothing says something
STEPS = 45
# How often each thing happens, relative to the others.
WEIGHTS = {
    "append": 3,
    "read": 8,
    "count": 3,
    "flush": 3,
    "write": 5,
    "finish": 8,
    "checkpoint": 5,
    "crash": 4,
    "offset 0": 2,
    "new generation": 0.1,
    "late epoch": 1,
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
        case "flush":
            attempt.flush(subtask)
        case "write":
            attempt.step(subtask, rng.randint(1, 6))
        case "finish":
            attempt.finish()


def restart(world: World, rng: random.Random, what: str) -> None:
    """Something that ends an attempt, or saves it from its end."""
    parallelism, zombie = rng.randint(1, 3), rng.random() < 0.5
    match what:
        case "checkpoint":
            world.take_checkpoint()
        case "crash":
            world.restart(parallelism, zombie=zombie)
        case "offset 0":
            world.restart_from_zero(parallelism, zombie=zombie)
        case "new generation":
            world.new_generation(parallelism, zombie=zombie)
        case "late epoch" if world.zombies:
            late = rng.choice(world.zombies)
            world.take_late_epoch(late, rng.randrange(late.parallelism))


def happen(world: World, rng: random.Random, what: str) -> None:
    """Something outside the job."""
    content_id = f"v{rng.randint(1, 3)}"
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
    world = World(protocol, rng.randint(1, 3))
    seen: dict[object, int] = {}
    # Swarm testing (Groce et al., 2012): a walk in which something is rare or missing reaches what others heal.
    weights = [weight * rng.choice((0, 0.5, 1, 2)) for weight in WEIGHTS.values()]
    for what in ["append"] * 6 + rng.choices(list(WEIGHTS), [*weights[:-1], 1], k=STEPS):
        attempt = rng.choice([world.current, world.current, *world.zombies[-2:]])
        happen(world, rng, what)
        try:
            act(attempt, rng, what)
            attempt = world.current
            restart(world, rng, what)
        except Superseded:
            if attempt in world.zombies:
                world.zombies.remove(attempt)
            else:
                world.superseded()
        for row, total in world.cassandra.rows.items():
            assert total.version >= seen.get(row, 0)
            seen[row] = total.version
    world.settle()
    problems = world.wrong()
    world.wake_all()
    world.settle()
    return problems + world.wrong()


def test_every_walk_ends_right() -> None:
    """Cassandra and every complete hash equal the truth, and no version moves backwards, whatever happens."""
    for seed in range(WALKS):
        assert not walk(seed, Protocol()), f"seed {seed}"


def found(protocol: Protocol) -> bool:
    return any(walk(seed, protocol) for seed in range(WALKS))


@pytest.mark.parametrize(
    "missing",
    [
        "version_holds_epoch",
        "epochs_are_taken_at_the_start",
        "abandoned_checkpoints_are_forgotten",
        "redis_compares_versions",
        "redis_load_needs_its_token",
    ],
)
def test_walks_find_every_missing_rule(missing: str) -> None:
    assert found(replace(Protocol(), **{missing: False}))


def test_walks_find_missing_touches() -> None:
    with mock.patch("pipelines.domain.counting.touches", return_value=()):
        assert found(Protocol())

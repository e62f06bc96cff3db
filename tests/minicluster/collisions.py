"""Random logs in which everything that matters collides: users, times, regions, repetitions and bad records."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence

from pipelines.domain.counting import Record
from pipelines.domain.events import LikeEvent
from pipelines.domain.register import Reaction, pack
from schemas import golden_events
from tests.property.strategies import FIRST_MS, RULES

_ACTIONS = {Reaction.LIKE: ("LIKE",), Reaction.DISLIKE: ("DISLIKE",), Reaction.NONE: ("UNLIKE", "UNDISLIKE")}
_BAD = [event.value for event in golden_events("invalid")]


def some_events(rng: random.Random, size: int, contents: int = 40) -> list[LikeEvent]:
    """Taps of few users at few times on each content, a fifth of them repeated, in no order."""
    taps = [
        LikeEvent(
            f"v{rng.randrange(contents)}",
            f"u{rng.randrange(4)}",
            pack(FIRST_MS + rng.randrange(6), rng.choice(list(Reaction)), rng.randrange(len(RULES.regions))),
        )
        for _ in range(size)
    ]
    taps += rng.choices(taps, k=size // 5)
    rng.shuffle(taps)
    return taps


def some_log(rng: random.Random, size: int, partitions: int) -> list[list[Record]]:
    """The same as records, some of them bad, spread over partitions."""
    values = [value_of(event, rng) for event in some_events(rng, size)] + rng.choices(_BAD, k=size // 20)
    rng.shuffle(values)
    return [records(values[partition::partitions], partition) for partition in range(partitions)]


def records(values: Iterable[bytes | None], partition: int = 0, first: int = 0) -> list[Record]:
    """Values as they lie in a partition from an offset on."""
    return [Record("like-events", partition, offset, FIRST_MS, value) for offset, value in enumerate(values, first)]


def value_of(event: LikeEvent, rng: random.Random) -> bytes:
    """One of the ways in which a producer may write an event."""
    fields = {
        rng.choice(("content_id", "video_id")): event.content_id,
        "user_id": event.user_id,
        "action": rng.choice(_ACTIONS[event.reaction]),
    }
    members: dict[str, str | int] = dict(fields)
    if event.event_time_ms != FIRST_MS or rng.random() < 0.5:
        members["event_time"] = event.event_time_ms
    if event.region != RULES.home or rng.random() < 0.5:
        members["region"] = RULES.regions[event.region]
    names: Sequence[str] = rng.sample(list(members), len(members))
    return json.dumps({name: members[name] for name in names}).encode()

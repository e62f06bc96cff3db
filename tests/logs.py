"""Logs to count: hostile on purpose, small enough to be counted often, and the same for the same seed."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Sequence

from schemas import golden_events

ACTIONS = ("LIKE", "UNLIKE", "DISLIKE", "UNDISLIKE")
# A handful of times, so that many events of one user and content have equal ones.
_MOMENTS = 40


def taps(
    seed: int,
    events: int,
    *,
    contents: int = 25,
    users: int = 40,
    regions: Sequence[str | None] = ("us", "eu", None),
) -> Iterator[bytes]:
    """Valid events in no order of time, with toggles, ties, resends and users who move between regions."""
    dice = random.Random(seed)
    newest_ms = time.time_ns() // 1_000_000
    sent: list[bytes] = []
    for _ in range(events):
        if sent and dice.random() < 0.1:
            yield dice.choice(sent[-500:])
            continue
        event: dict[str, object] = {
            dice.choice(("content_id", "video_id")): f"c{min(int(dice.expovariate(0.2)), contents - 1)}",
            "user_id": f"u{dice.randrange(users)}",
            "action": dice.choice(ACTIONS),
        }
        region = dice.choice(regions)
        if region is not None:
            event["region"] = region
        if dice.random() < 0.95:
            event["event_time"] = newest_ms - dice.randrange(_MOMENTS) * 1_000
        sent.append(json.dumps(event).encode())
        yield sent[-1]


def hostile(seed: int, events: int) -> list[bytes | None]:
    """Taps with every golden record, good and bad, among them, and some larger than any that a client should send."""
    dice = random.Random(seed)
    golden = [event.value for kind in ("valid", "invalid") for event in golden_events(kind)]
    huge = [b"\0" * 1_000_000, b'{"content_id":"c1","padding":"' + b"x" * 900_000 + b'"}', b"\xff" * 70_000]
    log: list[bytes | None] = [*taps(seed, events), *golden, *golden, *huge]
    dice.shuffle(log)
    return log

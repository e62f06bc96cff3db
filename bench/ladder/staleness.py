"""From a tap to a count that readers see, beside steady traffic at a modest rate."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from itertools import chain

from confluent_kafka import Producer

from bench.ladder.log import Key
from bench.ladder.stores import Store
from bench.latency import Latencies

BACKGROUND_PER_S = 200
PROBES_PER_S = 10
_LOOK_S = 0.01
_GIVE_UP_S = 60.0


def probe_lines(probe_s: float) -> list[bytes]:
    """Likes of contents that nothing else taps, one for each probe."""
    ids = (f"probe{number}" for number in range(int(probe_s * PROBES_PER_S)))
    return [json.dumps({"content_id": id_, "user_id": "prober", "action": "LIKE"}).encode() for id_ in ids]


def schedule(background: Iterable[bytes], probes: Iterable[bytes]) -> list[tuple[float, bytes, bool]]:
    """When to publish what, in seconds from the start, and whether it is a probe. Pure."""
    traffic = ((number / BACKGROUND_PER_S, line, False) for number, line in enumerate(background))
    likes = ((number / PROBES_PER_S, line, True) for number, line in enumerate(probes))
    return sorted(chain(traffic, likes), key=lambda due: due[0])


def staleness(
    bootstrap: str, topic: str, due: Iterable[tuple[float, bytes, bool]], key: Key, store: Store
) -> Latencies:
    """Publish lines when they are due, in this order, and look for the probes in the store.

    Args:
        bootstrap: Of the broker.
        topic: Gets the lines.
        due: From `schedule`.
        key: Of a line.
        store: Where the probes' likes become visible.

    Raises:
        AssertionError: A probe was not seen in a minute.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "all", "enable.idempotence": True})
    waiting: dict[str, float] = {}
    found: list[float] = []
    left = list(reversed(list(due)))
    begun = time.monotonic()
    while left or waiting:
        while left and left[-1][0] <= (now := time.monotonic()) - begun:
            _, line, is_probe = left.pop()
            producer.produce(topic, line, key=key(line))
            if is_probe:
                waiting[json.loads(line)["content_id"]] = now
        producer.poll(0)
        seen = store.likes(list(waiting))
        now = time.monotonic()
        found += [now - waiting.pop(content_id) for content_id in list(waiting) if seen.get(content_id)]
        assert all(now - since < _GIVE_UP_S for since in waiting.values()), "a probe was not seen in a minute"
        time.sleep(_LOOK_S)
    producer.flush()
    return Latencies(tuple(sorted(found)), float(BACKGROUND_PER_S))

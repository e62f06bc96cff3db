"""From event to readable count, in both stores, while other traffic runs at a given rate."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from connectors.cassandra import ContentStats, open_session
from connectors.redis import RedisCounts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipelines.settings import Settings

_PROBE_EVERY_S = 0.1
_POLL_S = 0.05
_GIVE_UP_S = 60.0


@dataclass(frozen=True, slots=True)
class Latencies:
    """Seconds from handing an event to the producer until both stores answer its count, sorted.

    Fields:
        seconds: One for each probe.
    """

    seconds: tuple[float, ...]

    def quantile(self, share: float) -> float:
        """The smallest value that so many of the probes do not exceed."""
        return self.seconds[min(len(self.seconds) - 1, int(share * len(self.seconds)))]


def measure(settings: Settings, lines: Iterator[bytes], *, events_per_s: int, probes: int) -> Latencies:
    """Publish background traffic at a rate and probes beside it; every probe likes a content of its own.

    Raises:
        AssertionError: A probe was not counted exactly once, or not within a minute.
    """
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap, "linger.ms": 5, "acks": "all"})
    topic = settings.kafka.events_topic
    stop = threading.Event()
    background = threading.Thread(target=_background, args=(producer, topic, lines, events_per_s, stop), daemon=True)
    background.start()
    waiting: dict[str, float] = {}
    latencies: list[float] = []
    counts = RedisCounts(settings)
    with open_session(settings) as session:
        stats = ContentStats(session)
        begun, sent = time.monotonic(), 0
        while sent < probes or waiting:
            now = time.monotonic()
            if sent < probes and now - begun >= sent * _PROBE_EVERY_S:
                content_id = f"probe-{begun:.0f}-{sent}"
                event = {"content_id": content_id, "user_id": "prober", "action": "LIKE"}
                producer.produce(topic, json.dumps(event).encode(), key=content_id.encode())
                waiting[content_id] = now
                sent += 1
            producer.poll(0)
            ids = list(waiting)
            rows, hits = stats.read(1, ids), counts.read(1, ids)
            now = time.monotonic()
            for content_id in ids:
                if rows[content_id] and hits[content_id]:
                    assert [total.pn.likes for total in rows[content_id]] == [1], f"{content_id} is not counted once"
                    latencies.append(now - waiting.pop(content_id))
            assert all(now - since < _GIVE_UP_S for since in waiting.values()), "a probe was not counted in a minute"
            time.sleep(_POLL_S)
    stop.set()
    background.join()
    producer.flush()
    counts.close()
    return Latencies(tuple(sorted(latencies)))


def _background(
    producer: Producer, topic: str, lines: Iterator[bytes], events_per_s: int, stop: threading.Event
) -> None:
    begun = time.monotonic()
    for number, line in enumerate(lines):
        if number % 100 == 0:
            producer.poll(0)
            if stop.wait(max(0.0, begun + number / events_per_s - time.monotonic())):
                return
        producer.produce(topic, line)

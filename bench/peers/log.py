"""The log that peers count: a primer, and the measured part that nobody can read until it is released.

The measured part is written before a peer starts, in one Kafka transaction that stays open until the peer has counted
the primer. All peers read committed records alone, so the commit shows the whole log to a peer that already runs;
neither start-up nor filling is in its figure.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable

from confluent_kafka import Producer

from connectors import kafka

_PRIMER_CONTENTS, _PRIMER_USERS = 200, 50_000
_QUEUED = 200_000
_HELD_MS = 900_000  # the most that a broker allows by default
_TIMEOUT_S = 60.0


def primer(now_ms: int, events: int) -> Iterable[bytes]:
    """A log of contents that the measured part does not have, over all partitions; a multiple of 200 events.

    Users repeat, so that a long one does not fill the state.
    """
    for number in range(events):
        line = b'{"content_id":"primer%d","user_id":"u%d","action":"LIKE","event_time":%d,"region":"us"}'
        yield line % (number % _PRIMER_CONTENTS, number % _PRIMER_USERS, now_ms - 3_600_000 + number % 1_000)


def primer_truth(events: int) -> dict[str, tuple[int, int]]:
    """What the primer comes to."""
    likes = min(events, _PRIMER_USERS) // _PRIMER_CONTENTS
    return {f"primer{index}": (likes, 0) for index in range(_PRIMER_CONTENTS)}


class HeldLog:
    """Lines in a topic, in a transaction of their own that is still open. `release` commits it, `drop` aborts it.

    Args:
        bootstrap: Of the broker.
        topic: Which exists.
        lines: Of the log.
        key: Of a line.

    Raises:
        KafkaException: The broker refuses or does not answer.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        lines: Iterable[bytes],
        *,
        key: Callable[[bytes], bytes | None] = kafka.content_key,
    ) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"bench-{uuid.uuid4().hex}",
                "transaction.timeout.ms": _HELD_MS,
                "linger.ms": 50,
                "batch.size": 262_144,
                "compression.type": "lz4",
                "queue.buffering.max.messages": _QUEUED * 2,
            }
        )
        self._producer.init_transactions(_TIMEOUT_S)
        self._producer.begin_transaction()
        for line in lines:
            self._producer.produce(topic, line, key=key(line))
            if len(self._producer) >= _QUEUED:
                self._producer.poll(0.1)
        self._producer.flush()
        self._open = True

    def release(self) -> float:
        """Show the lines to readers; returns when, in monotonic seconds just before."""
        began = time.monotonic()
        self._producer.commit_transaction(_TIMEOUT_S)
        self._open = False
        return began

    def drop(self) -> None:
        """Abort if nothing was released, so that the broker does not wait for it."""
        if self._open:
            self._open = False
            self._producer.abort_transaction(_TIMEOUT_S)

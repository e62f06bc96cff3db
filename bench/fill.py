"""Filling a topic quickly, with librdkafka: what is measured is the job, not the producer."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from connectors import kafka

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pipelines.settings import Settings

_QUEUED = 200_000


def fill(settings: Settings, lines: Iterable[bytes], *, spread: bool = False) -> int:
    """Publish lines to the events topic and wait until Kafka has them all; returns how many.

    Args:
        settings: Of the topic; it is created if missing.
        lines: JSON events.
        spread: Round robin over the partitions, as producers may do with a hot content, since registers do not care
            about order; else keyed by content id.

    Raises:
        RuntimeError: An event was not acknowledged.
    """
    kafka.ensure_topics(settings, 1)
    partitions = itertools.cycle(kafka.end_offsets(settings, settings.kafka.events_topic))
    producer = Producer(
        {
            "bootstrap.servers": settings.kafka.bootstrap,
            "linger.ms": 50,
            "batch.size": 262_144,
            "compression.type": "lz4",
            "queue.buffering.max.messages": _QUEUED * 2,
            "acks": "all",
            "enable.idempotence": True,
        }
    )
    failures: list[str] = []

    def acknowledged(error: object, _message: object) -> None:
        if error is not None:
            failures.append(str(error))

    topic, sent = settings.kafka.events_topic, 0
    for line in lines:
        where = {"partition": next(partitions)} if spread else {"key": kafka.content_key(line)}
        producer.produce(topic, line, on_delivery=acknowledged, **where)
        sent += 1
        if len(producer) >= _QUEUED:
            producer.poll(0.1)
    producer.flush()
    if failures:
        raise RuntimeError(f"{len(failures)} events were not acknowledged: {failures[0]}")
    return sent

"""Reading a bounded range of a topic."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer
from kafka.structs import TopicPartition

from connectors.kafka.client import explained, make_client, service_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pipelines.settings import Settings

_LOG_APPEND_TIME = 1
_POLL_MS = 200
_MAX_SILENCE_S = 30.0
_MAX_POLL_RECORDS = 2_000


@dataclass(frozen=True, slots=True)
class Record:
    """One record.

    Fields:
        topic: Where it was.
        partition: Where it was.
        offset: Where it was.
        timestamp_ms: The broker's or the producer's, as the topic is configured; milliseconds since the epoch.
        key: Its bytes, None if it has none.
        value: Its bytes, None for a tombstone.
        is_stamped_by_broker: Whether the timestamp is the broker's.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    is_stamped_by_broker: bool = True


def record_of(found: Any) -> Record:  # noqa: ANN401  untyped client
    """What a consumer of kafka-python found."""
    stamped = found.timestamp_type == _LOG_APPEND_TIME
    return Record(found.topic, found.partition, found.offset, found.timestamp, found.key, found.value, stamped)


def read_topic(
    settings: Settings,
    topic: str,
    start: Mapping[int, int],
    end: Mapping[int, int],
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Record]:
    """Read records from `start` up to but not including `end`, in order within each partition, as no group.

    Guarantee: every record in the range that is still in the log, once; of transactions those that were committed.

    Args:
        settings: Where.
        topic: Which.
        start: Offset to begin at, by partition; what the log has dropped since is skipped.
        end: Offset to stop before, by partition; partitions that either map lacks are not read.
        clock: Monotonic seconds.

    Raises:
        ServiceUnavailable: No broker answers, or none has for half a minute.
    """
    left = {TopicPartition(topic, part): stop for part, stop in end.items() if start.get(part, stop) < stop}
    if not left:
        return
    with explained(settings):
        consumer = make_client(
            KafkaConsumer,
            settings,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            max_poll_records=_MAX_POLL_RECORDS,
            metrics_enabled=False,
            allow_auto_create_topics=False,
        )
    try:
        with explained(settings):
            consumer.assign(list(left))
            for place in left:
                consumer.seek(place, start[place.partition])
        heard_at = clock()
        while left:
            with explained(settings):
                polled = consumer.poll(timeout_ms=_POLL_MS)
                # Offsets have gaps where a compacted topic dropped records, so positions decide, not records.
                positions = {place: consumer.position(place) for place in left}
            for place, records in polled.items():
                stop = end[place.partition]
                yield from (record_of(found) for found in records if found.offset < stop)
            done = [place for place, position in positions.items() if position >= left[place]]
            if done:
                left = {place: stop for place, stop in left.items() if place not in done}
                consumer.pause(*done)
            if polled or done:
                heard_at = clock()
            elif clock() - heard_at > _MAX_SILENCE_S:
                raise service_of(settings).unavailable(
                    TimeoutError(f"no records of {topic} for {_MAX_SILENCE_S:.0f} s")
                )
    finally:
        consumer.close()

"""Following topics: everything that they hold, then whatever comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from kafka import KafkaConsumer
from kafka.structs import TopicPartition

from connectors.kafka.client import explained, make_client
from connectors.kafka.offsets import beginning_offsets
from connectors.kafka.reader import record_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from connectors.kafka.reader import Record
    from pipelines.settings import Settings

_MAX_POLL_RECORDS = 2_000


class Tail:
    """Reads topics from their first record on, and goes on as they grow, as no group.

    Guarantee: every record that is in the log, once and in order within its partition, while this object lives. A
    broker that is away is waited for: `poll` finds nothing meanwhile.

    Connects at `__enter__`, closes at the end of the block. For one thread.

    Args:
        settings: Where.
        topics: Which; they must exist.
    """

    def __init__(self, settings: Settings, topics: Sequence[str]) -> None:
        self._settings = settings
        self._topics = topics
        self._consumer: Any = None
        self._places: dict[str, list[TopicPartition]] = {}

    def __enter__(self) -> Self:
        begins = {topic: beginning_offsets(self._settings, topic) for topic in self._topics}
        self._places = {topic: [TopicPartition(topic, partition) for partition in begins[topic]] for topic in begins}
        with explained(self._settings):
            self._consumer = make_client(
                KafkaConsumer,
                self._settings,
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                max_poll_records=_MAX_POLL_RECORDS,
                metrics_enabled=False,
                allow_auto_create_topics=False,
            )
            self._consumer.assign([place for places in self._places.values() for place in places])
            for topic, first in begins.items():
                for place in self._places[topic]:
                    self._consumer.seek(place, first[place.partition])
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def poll(self, timeout_s: float) -> list[Record]:
        """What has come since the last call; an empty list after `timeout_s` seconds without anything.

        Raises:
            ServiceUnavailable: No broker answers; the next call goes on where this one stopped.
            SettingError: A topic is gone.
        """
        with explained(self._settings):
            polled = self._consumer.poll(timeout_ms=int(timeout_s * 1000))
        return [record_of(found) for records in polled.values() for found in records]

    def ends(self, topic: str) -> dict[int, int]:
        """The offset after the last record of each partition, as the broker says now.

        Raises:
            ServiceUnavailable: No broker answers.
        """
        with explained(self._settings):
            found = self._consumer.end_offsets(self._places[topic])
        return {place.partition: offset for place, offset in sorted(found.items())}

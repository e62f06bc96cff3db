"""What the service knows about the counting: which generation is live, how far its job is, and how old counts may be.

Looked at once a second, in a thread. Readers may therefore see an old generation for a second after it changed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from connectors.cassandra import Fences, Generations, Pointer
from pipelines.errors import LikesError
from pipelines.jobs.names import group_of
from pipelines.jobs.prepare import identity_of
from pipelines.jobs.progress import group_of_run
from serving.dependency import Away
from serving.metrics import LAG, STALENESS
from serving.producer import kafka_options

if TYPE_CHECKING:
    from connectors.cassandra import CassandraSession
    from pipelines.settings import Settings
    from serving.cassandra import Record
    from serving.producer import EventProducer

_LOG = logging.getLogger(__name__)
PIPELINE = "like-counts"
_PERIOD_S = 1.0
_TIMEOUT_S = 2.0
_LOOKS = 600
_RECENT = 6
_LATEST: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Counting:
    """The counting as it was when it was last looked at.

    Fields:
        generation: The live one, None before the first.
        committed: First offset by partition that is not counted, as the job has committed it at a checkpoint.
        ends: First offset by partition that is not in the log.
        current_at: When everything that is counted now was the whole log, seconds of a monotonic clock; None if that is
            not known.
        events_per_s: How fast the log has grown lately.
        dead_letters: How many records were no events.
        is_known: Whether Cassandra has ever said which generation is live, be it none.
    """

    generation: int | None = None
    committed: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    current_at: float | None = None
    events_per_s: float = 0.0
    dead_letters: int = 0
    is_known: bool = False

    @property
    def lag(self) -> int:
        """Events that are not counted yet."""
        return sum(max(0, end - self.committed.get(partition, 0)) for partition, end in self.ends.items())

    def staleness_s(self, now: float) -> float | None:
        """How old what is counted may be."""
        return None if self.current_at is None else max(0.0, now - self.current_at)


class Looks:
    """Remembers where the log ended when, to tell how old a count may be. Pure."""

    def __init__(self) -> None:
        self._ends: deque[tuple[float, Mapping[int, int]]] = deque(maxlen=_LOOKS)

    def current_at(self, now: float, ends: Mapping[int, int], committed: Mapping[int, int]) -> float | None:
        """When the log ended where the counting is now, or before.

        Args:
            now: When `ends` was seen, seconds of a monotonic clock.
            ends: First offset by partition that is not in the log.
            committed: First offset by partition that is not counted.
        """
        self._ends.append((now, ends))
        reached = [
            at for at, seen in self._ends if all(committed.get(partition, 0) >= end for partition, end in seen.items())
        ]
        return max(reached, default=None)

    def events_per_s(self) -> float:
        """How fast the log has grown over the last few looks."""
        recent = list(self._ends)[-_RECENT:]
        (first_at, first), (last_at, last) = (recent[0], recent[-1]) if recent else ((0.0, {}), (0.0, {}))
        grown = sum(last.values()) - sum(first.values())
        return max(0.0, grown / (last_at - first_at)) if last_at > first_at else 0.0


class Watch:
    """Keeps `counting` true.

    Args:
        settings: Of Kafka.
        record: Where the live generation and its run are named.
        producer: Learns how many partitions there are.
    """

    def __init__(self, settings: Settings, record: Record, producer: EventProducer) -> None:
        self._settings = settings
        self._record = record
        self._producer = producer
        self._admin = AdminClient(kafka_options(settings))
        self._looks = Looks()
        self._group: tuple[int, str] | None = None
        self.counting = Counting()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            try:
                await asyncio.to_thread(self.look)
            except Exception:  # noqa: BLE001  the next look may do better
                _LOG.exception("a look at the counting failed; what was known stays")
            await asyncio.sleep(_PERIOD_S)

    def look(self) -> None:
        """Look once. Blocks; what does not answer leaves what was known."""
        generation, group, is_known = self.counting.generation, self._group, self.counting.is_known
        with suppress(LikesError, Away):
            generation, group = self._live(self._record.session)
            is_known = True
        self._producer.learn_partitions(_TIMEOUT_S)
        was = self.counting
        committed, ends, current_at, dead_letters = was.committed, was.ends, was.current_at, was.dead_letters
        if generation != self.counting.generation:
            committed, current_at, self._looks = {}, None, Looks()
        try:
            now = time.monotonic()
            ends = self._ends(self._settings.kafka.events_topic)
            dead_letters = sum(self._ends(self._settings.kafka.dead_letters_topic).values())
            if group is not None:
                # Until its first checkpoint a run is as far as the one that it goes on from.
                now_committed = self._committed(group[1]) or committed
                committed = _furthest(committed, now_committed) if group == self._group else now_committed
            current_at = self._looks.current_at(now, ends, committed)
        except (KafkaException, KeyError) as error:
            _LOG.info("the log's state cannot be read: %s", error)
        self._group = group
        self.counting = Counting(
            generation, committed, ends, current_at, self._looks.events_per_s(), dead_letters, is_known
        )
        LAG.set(self.counting.lag)
        if (age_s := self.counting.staleness_s(time.monotonic())) is not None:
            STALENESS.set(age_s)

    def _live(self, session: CassandraSession) -> tuple[int | None, tuple[int, str] | None]:
        generation = Pointer(session).read()
        if generation is None:
            return None, None
        saver = Fences(session).read(generation).saver
        if self._group is not None and self._group[0] == generation and saver and self._group[1].endswith(saver[:12]):
            return generation, self._group
        rules = next((g.rules for g in Generations(session).all() if g.generation == generation), None)
        if rules is None or not saver:
            return generation, None
        return generation, (generation, group_of_run(group_of(PIPELINE, generation, identity_of(rules)), saver))

    def _ends(self, topic: str) -> dict[int, int]:
        partitions = self._admin.list_topics(topic, _TIMEOUT_S).topics[topic].partitions
        wanted = {TopicPartition(topic, partition): _LATEST for partition in partitions}
        if not wanted:
            return {}
        futures = self._admin.list_offsets(wanted, request_timeout=_TIMEOUT_S)
        return {place.partition: future.result().offset for place, future in futures.items()}

    def _committed(self, group: str) -> dict[int, int]:
        asked = [ConsumerGroupTopicPartitions(group)]
        (future,) = self._admin.list_consumer_group_offsets(asked, request_timeout=_TIMEOUT_S).values()
        places: list[Any] = future.result().topic_partitions
        topic = self._settings.kafka.events_topic
        return {place.partition: place.offset for place in places if place.topic == topic and place.offset >= 0}


def _furthest(left: Mapping[int, int], right: Mapping[int, int]) -> dict[int, int]:
    return {partition: max(left.get(partition, 0), right.get(partition, 0)) for partition in left.keys() | right.keys()}

"""Totals as they change: server-sent events from `content-counts`.

A client hears of each content's newest count; what changes while it is slow is merged, so no client needs more memory
than its own contents. An event's id is a place in the topic, and a client that comes back with it hears only of what
has changed since, as far as this process has seen all of that.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson
from cachetools import LRUCache
from confluent_kafka import Consumer, KafkaException, TopicPartition

from connectors.kafka.client import counts_topic
from pipelines.domain.counter import RegionTotal, newer
from serving.producer import kafka_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pipelines.settings import Settings

Place = dict[int, int]
"""Offset after the last message by partition."""

_LOG = logging.getLogger(__name__)
_BATCH = 1_000
_POLL_S = 0.2
_TIMEOUT_S = 5.0
_REMEMBERED = 200_000
_EVENT_ID = re.compile(r"([0-9]{1,3})((?:\.[0-9]{1,5}-[0-9]{1,18})*)\Z")


@dataclass(slots=True, eq=False)
class Subscriber:
    """A client and its contents.

    Fields:
        regions: Newest total by region, by content.
        dirty: Contents to tell of.
        changed: Set when there are any.
        place: Where the newest of them was.
        listens: Whether it reads the present counts from now on.
        start_over: Whether everything has to be read again.
        generation: Whose totals these are.
    """

    regions: dict[str, dict[str, RegionTotal]]
    dirty: dict[str, None] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    place: Place = field(default_factory=dict)
    listens: bool = False
    start_over: bool = False
    generation: int | None = None

    def restart(self) -> None:
        """Have everything read again, by whoever reads already."""
        if self.listens:
            self.start_over = True
            self.changed.set()

    def begin(self, generation: int | None) -> None:
        """Forget another generation's totals, whose regions may be others."""
        if generation != self.generation:
            self.generation = generation
            for totals in self.regions.values():
                totals.clear()

    def merge(self, total: RegionTotal) -> bool:
        """Take a region's total; returns whether it was news."""
        held = self.regions[total.content_id]
        known = held.get(total.region)
        if known is not None and newer(known, total) == known:
            return False
        held[total.region] = total
        return True


class Hub:
    """Reads `content-counts` for as long as somebody listens.

    Args:
        settings: Of Kafka.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._by_content: dict[str, set[Subscriber]] = {}
        self._subscribers: set[Subscriber] = set()
        self._wanted: int | None = None
        self._ready = asyncio.Event()
        self.ending = asyncio.Event()
        self._by_address: Counter[str] = Counter()
        self._wake = threading.Event()
        self._ends = threading.Event()
        self._generation: int | None = None
        self._first: Place = {}
        self._place: Place = {}
        self._changes = _Changes()
        self._thread = threading.Thread(target=self._run, name="content-counts", daemon=True)
        self._thread.start()

    @property
    def clients(self) -> int:
        """How many listen."""
        return len(self._subscribers)

    def close(self) -> None:
        """End."""
        self._ends.set()
        self._wake.set()
        self._thread.join()

    async def subscribe(self, generation: int | None, content_ids: Iterable[str]) -> Subscriber:
        """Listen from now on. The caller reads the present counts after this, so nothing is missed."""
        subscriber = Subscriber({content_id: {} for content_id in content_ids})
        self._subscribers.add(subscriber)
        for content_id in subscriber.regions:
            self._by_content.setdefault(content_id, set()).add(subscriber)
        self.follow(generation)
        with suppress(TimeoutError):  # Kafka is away: the present counts are all there is
            await asyncio.wait_for(self._ready.wait(), _TIMEOUT_S)
        subscriber.place, subscriber.listens = dict(self._place), True
        return subscriber

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Stop listening."""
        self._subscribers.discard(subscriber)
        for content_id in subscriber.regions:
            listeners = self._by_content[content_id]
            listeners.discard(subscriber)
            if not listeners:
                del self._by_content[content_id]

    def enter(self, address: str) -> bool:
        """Count a client in, if there is room for it; whoever was let in has to `leave`."""
        options = self._settings.serve
        if self._by_address.total() >= options.stream_clients or self._by_address[address] >= options.address_streams:
            return False
        self._by_address[address] += 1
        return True

    def leave(self, address: str) -> None:
        """Count a client out."""
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def follow(self, generation: int | None) -> None:
        """Read this generation's totals from now on."""
        if generation != self._wanted:
            self._wanted = generation
            self._ready.clear()
            for subscriber in self._subscribers:
                subscriber.restart()
        self._wake.set()

    def unchanged_since(self, content_id: str, event_id: str) -> bool:
        """Whether a content has surely not changed since an event."""
        parsed = parse_event_id(event_id)
        if parsed is None or parsed[0] != self._generation:
            return False
        place = parsed[1]
        if any(place.get(partition, 0) < offset for partition, offset in self._first.items()):
            return False
        if any(place.get(partition, 0) <= offset for partition, offset in self._changes.forgotten.items()):
            return False
        changed = self._changes.get(content_id, {})
        return all(offset < place.get(partition, 0) for partition, offset in changed.items())

    def event_id(self, place: Mapping[int, int]) -> str:
        """What a client comes back with."""
        return f"{self._generation or 0}" + "".join(
            f".{partition}-{offset}" for partition, offset in sorted(place.items())
        )

    def _deliver(self, generation: int, totals: list[tuple[RegionTotal, int, int]]) -> None:
        if generation != self._wanted:
            return
        for total, partition, offset in totals:
            self._place[partition] = offset + 1
            self._changes[total.content_id] = {**self._changes.get(total.content_id, {}), partition: offset}
            for subscriber in self._by_content.get(total.content_id, ()):
                if subscriber.merge(total):
                    subscriber.dirty[total.content_id] = None
                    subscriber.changed.set()
        for subscriber in self._subscribers:
            subscriber.place = dict(self._place) if not subscriber.dirty else {**subscriber.place, **self._place}

    def _opened(self, generation: int | None, place: Place) -> None:
        self._generation, self._first, self._place = generation, place, dict(place)
        self._changes = _Changes()
        for subscriber in self._subscribers:
            subscriber.place = dict(place)
            subscriber.restart()  # it may have missed what was published before
        if generation == self._wanted:
            self._ready.set()

    def _run(self) -> None:
        consumer: Consumer | None = None
        generation: int | None = None
        try:
            while not self._ends.is_set():
                wanted = self._wanted if self._subscribers else None
                if wanted != generation or (consumer is None and wanted is not None):
                    if consumer is not None:
                        consumer.close()
                    consumer, generation = None, None
                    if wanted is not None:
                        consumer, generation = self._open(wanted), wanted
                if consumer is None:
                    self._wake.wait(1.0)
                    self._wake.clear()
                    continue
                self._poll(consumer, wanted or 0)
        finally:
            if consumer is not None:
                consumer.close()

    def _open(self, generation: int) -> Consumer | None:
        topic = counts_topic(self._settings, generation)
        consumer = Consumer({**kafka_options(self._settings), "group.id": "likes-serve", "enable.auto.commit": False})
        try:
            found = consumer.list_topics(topic, _TIMEOUT_S).topics[topic]
            if found.error is not None:
                raise KafkaException(found.error)
            partitions = list(found.partitions)
            place = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), _TIMEOUT_S)[1] for p in partitions}
            consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in place.items()])
        except KafkaException:
            consumer.close()
            self._ends.wait(1.0)
            return None
        self._loop.call_soon_threadsafe(self._opened, generation, place)
        return consumer

    def _poll(self, consumer: Consumer, generation: int) -> None:
        try:
            messages = consumer.consume(_BATCH, _POLL_S)
        except KafkaException:
            self._ends.wait(1.0)
            return
        totals = []
        for message in messages:
            value = message.value()
            if message.error() is not None or value is None:
                continue
            try:
                totals.append(
                    (RegionTotal.from_message(orjson.loads(value)), message.partition() or 0, message.offset() or 0)
                )
            except (ValueError, KeyError, TypeError) as error:
                _LOG.warning("a message of %s is none: %r", message.topic(), error)
        if totals:
            self._loop.call_soon_threadsafe(self._deliver, generation, totals)


class _Changes(LRUCache[str, dict[int, int]]):
    """The last message of each content by partition, of as many as are remembered.

    Fields:
        forgotten: The last message of any content that is not, by partition.
    """

    def __init__(self) -> None:
        super().__init__(_REMEMBERED)
        self.forgotten: dict[int, int] = {}

    def popitem(self) -> tuple[str, dict[int, int]]:
        content_id, changed = super().popitem()
        for partition, offset in changed.items():
            self.forgotten[partition] = max(offset, self.forgotten.get(partition, 0))
        return content_id, changed


def parse_event_id(text: str) -> tuple[int, Place] | None:
    """Generation and place of an event; None if it is none of ours."""
    match = _EVENT_ID.match(text)
    if match is None:
        return None
    pairs = (part.split("-") for part in match[2].split(".") if part)
    return int(match[1]), {int(partition): int(offset) for partition, offset in pairs}

"""What a peer has made visible: a cheap number that grows with it, and the counts themselves.

While a peer is measured only the number is asked for, ten times a second; the counts are read when it rests.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import redis
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from bench.difference import Counts

_TIMEOUT_S = 10.0
_SILENCE_S = 30.0
_POLL_S = 0.2
_BATCH = 10_000
_PAGE = 2_000


class Output(ABC):
    """Where a peer's counts are read."""

    @abstractmethod
    def sample(self, now: float) -> int:
        """How much is visible, in units of its own; remembers the time, monotonic seconds, if it is more."""

    @abstractmethod
    def counts(self) -> Counts:
        """(likes, dislikes) by content, as far as it is visible."""

    @abstractmethod
    def changed_at(self) -> float:
        """The first sample at which everything was visible that changed what `counts` found."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect."""


class Progress:
    """Samples of offsets by partition, to tell later when a position was visible. Pure.

    The offsets are those after the last visible record.
    """

    def __init__(self) -> None:
        self._history: list[tuple[float, Mapping[int, int]]] = []

    def add(self, now: float, ends: Mapping[int, int]) -> int:
        """Remember a sample if it differs from the last; returns the sum of its offsets."""
        if not self._history or self._history[-1][1] != ends:
            self._history.append((now, dict(ends)))
        return sum(ends.values())

    def visible_at(self, positions: Mapping[int, int]) -> float:
        """When the records at these offsets were all visible first.

        Raises:
            ValueError: They never were.
        """
        for at, ends in self._history:
            if all(ends.get(partition, 0) > offset for partition, offset in positions.items()):
                return at
        raise ValueError(f"offsets {dict(positions)} were not visible at any sample")


class Newest:
    """The newest counts by content, and the offsets of the records that last changed them. Pure."""

    def __init__(self) -> None:
        self.counts: dict[str, tuple[int, int]] = {}
        self.changed: dict[int, int] = {}

    def take(self, partition: int, offset: int, value: bytes) -> None:
        """Take one output, a JSON object with content_id, likes and dislikes.

        One with a negative `diff` says which counts are no longer true, as Pathway does, and is skipped.
        """
        message: dict[str, Any] = json.loads(value)
        if message.get("diff", 1) < 0:
            return
        content_id, pair = message["content_id"], (int(message["likes"]), int(message["dislikes"]))
        if self.counts.get(content_id) != pair:
            self.counts[content_id] = pair
            self.changed[partition] = offset


class TopicOutput(Output):
    """Counts in a topic, those of committed transactions alone.

    Args:
        bootstrap: Of the broker.
        topic: Which exists.
        partitions: How many it has.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        options: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap,
            "group.id": "bench-reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
        # One to ask for ends with, one to read with: reading ahead would compete with the peer.
        self._asking = Consumer(options)
        self._reading = Consumer(options | {"enable.partition.eof": True})
        self._topic = topic
        self._next = dict.fromkeys(range(partitions), OFFSET_BEGINNING)
        self._progress, self._newest = Progress(), Newest()

    def sample(self, now: float) -> int:
        """The sum of the offsets after the last committed records."""
        ends = {}
        for partition in self._next:
            watermarks = self._asking.get_watermark_offsets(TopicPartition(self._topic, partition), _TIMEOUT_S)
            if watermarks is None:
                raise TimeoutError(f"the end of {self._topic} is not to be had")
            ends[partition] = watermarks[1]
        return self._progress.add(now, ends)

    def counts(self) -> Counts:
        """The newest value of each content."""
        left = set(self._next)
        deadline = time.monotonic() + _SILENCE_S
        self._reading.assign([TopicPartition(self._topic, *place) for place in self._next.items()])
        while left:
            # Returns when there is a whole batch or the time is over, whatever came.
            messages = self._reading.consume(_BATCH, _POLL_S)
            if not messages and time.monotonic() > deadline:
                raise TimeoutError(f"the end of {self._topic} does not come")
            for message in messages:
                partition, offset, error = message.partition(), message.offset(), message.error()
                assert partition is not None
                assert offset is not None
                if error is None:
                    self._next[partition] = offset + 1
                    if value := message.value():
                        self._newest.take(partition, offset, value)
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - that is its public name
                    left.discard(partition)
                else:
                    raise KafkaException(error)
        self._reading.unassign()
        return self._newest.counts

    def changed_at(self) -> float:
        """When the last record that changed a count was visible."""
        return self._progress.visible_at(self._newest.changed)

    def close(self) -> None:
        """Disconnect."""
        self._asking.close()
        self._reading.close()


class RedisOutput(Output):
    """Counts in hashes `count:<content>` with fields `likes` and `dislikes`.

    Args:
        url: Of the server.
    """

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url, decode_responses=True)
        self._progress = Progress()
        self._last = 0

    def sample(self, now: float) -> int:
        """How many changes the server has made to anything."""
        information: Any = self._client.info("persistence")
        changes = int(information["rdb_changes_since_last_save"])
        self._last = max(self._last, changes)
        return self._progress.add(now, {0: changes})

    def counts(self) -> Counts:
        """All the hashes."""
        keys = list(self._client.scan_iter("count:*", count=_PAGE))
        found: dict[str, tuple[int, int]] = {}
        for first in range(0, len(keys), _PAGE):
            page = keys[first : first + _PAGE]
            pipeline = self._client.pipeline(transaction=False)
            for key in page:
                pipeline.hmget(key, ["likes", "dislikes"])
            for key, (likes, dislikes) in zip(page, pipeline.execute(), strict=True):
                found[key.partition(":")[2]] = int(likes or 0), int(dislikes or 0)
        return found

    def changed_at(self) -> float:
        """When the server had made its last change."""
        return self._progress.visible_at({0: self._last - 1})

    def close(self) -> None:
        """Disconnect."""
        self._client.close()

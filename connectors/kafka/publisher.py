"""Publishing lines as they are, malformed ones too."""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

from kafka import KafkaProducer
from kafka.errors import MessageSizeTooLargeError, RecordListTooLargeError
from kafka.partitioner.default import murmur2

from connectors.kafka.client import explained, make_client, max_event_bytes
from connectors.kafka.offsets import partitions_of
from pipelines.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipelines.settings import Settings

# 60-byte lines, 2 busy cores: 14 K lines/s without compression or with the library's own partitioner, 20-30 K/s so. The
# library computes checksums in Python, byte by byte, so fewer bytes are worth the compression; lz4 and zstd need
# packages that a producer elsewhere may lack.
_BATCH_BYTES = 65_536
_LINGER_MS = 20
_COMPRESSION = "gzip"
_MAX_IN_FLIGHT_BYTES = 32 << 20  # kafka-python has no limit of its own
_DELIVERY_MS = 60_000
_CLOSE_S = 10.0
_ROUTES = 100_000


class Publisher:
    """Publishes byte strings to one topic.

    Guarantee: a record counted in `acknowledged` is on all in-sync replicas (acks=all), once and in order within its
    partition while this publisher lives (idempotent producer). After an error or a crash, records may or may not be in
    the log; sending them again is harmless to the counts. Memory is bounded: `send` waits while 32 MB are unanswered.

    `sent` and `acknowledged` count records; the latter is as of the last `send` or `flush`.

    Opens at `__enter__`, flushes and closes at the end of the block.

    Args:
        settings: Where.
        topic: Whereto; must exist.
    """

    def __init__(self, settings: Settings, topic: str) -> None:
        self._settings = settings
        self._topic = topic
        self._producer: Any = None
        self._route: Callable[[bytes], int]
        self._unanswered: deque[tuple[Any, int]] = deque()  # futures and sizes; callbacks would cost a fifth more
        self._unanswered_bytes = 0
        self.sent = 0
        self.acknowledged = 0

    def __enter__(self) -> Self:
        # Asked for first, because a producer waits a minute for a topic that does not exist.
        partitions = partitions_of(self._settings, self._topic)
        with explained(self._settings):
            self._producer = make_client(
                KafkaProducer,
                self._settings,
                acks="all",
                enable_idempotence=True,
                batch_size=_BATCH_BYTES,
                linger_ms=_LINGER_MS,
                compression_type=_COMPRESSION,
                delivery_timeout_ms=_DELIVERY_MS,
                max_block_ms=_DELIVERY_MS,
                # A batch that compresses well may hold more than the topic takes of one message.
                max_request_size=2 * max_event_bytes(self._settings),
                metrics_enabled=False,
                allow_auto_create_topics=False,
            )
        self._route = lru_cache(_ROUTES)(lambda key: partitions[(murmur2(key) & 0x7FFFFFFF) % len(partitions)])
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            # Otherwise closing would wait for what is still queued, and raise instead of closing.
            self._producer._sender.force_close()  # noqa: SLF001  has no public name
            self._producer.close(_CLOSE_S)

    def send(self, value: bytes | None, key: bytes | None) -> None:
        """Queue a record. Equal keys share a partition, the one that Java's clients choose.

        Args:
            value: The exact bytes; None is a tombstone and needs a key.
            key: Usually `content_key(value)`; None chooses any partition.

        Raises:
            BadInput: The record is larger than the topic takes.
            ServiceUnavailable: An earlier record was not acknowledged, or no broker answers.
        """
        size = len(value or b"") + len(key or b"")
        if size > max_event_bytes(self._settings):
            raise BadInput(
                f"record {self.sent + 1} has {size} bytes; topic {self._topic} takes {max_event_bytes(self._settings)}",
                "leave it out",
            )
        self._settle(_MAX_IN_FLIGHT_BYTES - size)
        with explained(self._settings):
            partition = None if key is None else self._route(key)
            future = self._producer.send(self._topic, value, key, partition=partition)
        self._unanswered.append((future, size))
        self._unanswered_bytes += size
        self.sent += 1

    def flush(self) -> None:
        """Wait until every record sent so far is acknowledged.

        Raises:
            BadInput: A record is larger than the topic takes.
            ServiceUnavailable: Some were not.
        """
        with explained(self._settings):
            self._producer.flush()
        self._settle(-1)

    def _settle(self, most_bytes: int) -> None:
        """Take note of what was answered; wait for answers while more than `most_bytes` lack one."""
        waiting = self._unanswered
        try:
            with explained(self._settings):
                while waiting and (waiting[0][0].is_done or self._unanswered_bytes > most_bytes):
                    future, size = waiting.popleft()
                    self._unanswered_bytes -= size
                    future.get()  # ends at the delivery timeout at the latest
                    self.acknowledged += 1
        except (MessageSizeTooLargeError, RecordListTooLargeError) as error:
            raise BadInput(
                f"a record is larger than topic {self._topic} takes", "raise the topic's max.message.bytes"
            ) from error

"""A record that could not be counted, with where it came from and every byte of it."""

from __future__ import annotations

import base64
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One dead letter. Its identity is (topic, partition, offset): the topic is at-least-once and may repeat it.

    Fields:
        reason: A key of `pipelines.domain.events.REASONS`.
        message: The reason as a sentence.
        topic: Where the record was.
        partition: Where the record was.
        offset: Where the record was.
        timestamp_ms: The broker's timestamp of the record.
        value: The record's exact bytes, None for a tombstone.
    """

    reason: str
    message: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    value: bytes | None

    @property
    def identity(self) -> tuple[str, int, int]:
        """Topic, partition and offset."""
        return self.topic, self.partition, self.offset

    def to_message(self) -> dict[str, str | int | None]:
        """The JSON object that travels on like-events.dlq (schemas/dead_letter.schema.json)."""
        text, encoded = None, None
        if self.value is not None:
            try:
                text = self.value.decode()
            except UnicodeDecodeError:
                encoded = base64.b64encode(self.value).decode()
        return {
            "reason": self.reason,
            "message": self.message,
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": self.timestamp_ms,
            "value": text,
            "value_base64": encoded,
        }


def original_bytes(value: str | None, value_base64: str | None) -> bytes | None:
    """The record's exact bytes from a dead letter's two fields; None for a tombstone.

    Raises:
        ValueError: Both are given, or the second is not base64.
    """
    if value is not None and value_base64 is not None:
        raise ValueError("value and value_base64 exclude each other")
    if value_base64 is not None:
        return base64.b64decode(value_base64, validate=True)
    return None if value is None else value.encode()

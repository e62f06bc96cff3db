"""What travels and what is stored: JSON Schemas, the Cassandra tables, and golden messages for each schema.

    like_event.schema.json      a message of like-events      golden/like_events.{valid,invalid}.jsonl
    dead_letter.schema.json     a message of like-events.dlq  golden/dead_letters.jsonl
    content_count.schema.json   a message of content-counts   golden/content_counts.jsonl
    cassandra.cql               the tables

A golden event is a line {"note", "value" | "value_base64", "timestamp", ...}: the record's text, or its bytes where
they are not UTF-8, and the broker's timestamp in milliseconds. A null value is a tombstone; "pad_to_bytes" asks for
spaces at the end up to that size. A valid one goes on with what it says ("content_id", "user_id", "event_time_ms",
"reaction", "region"), an invalid one with the "reason" of its dead letter. Both suppose the default rules: home region
us, 64 KiB, five minutes.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

_FILES = resources.files(__name__)


@dataclass(frozen=True, slots=True)
class GoldenEvent:
    """One golden record of like-events.

    Fields:
        note: What it shows.
        value: The record's bytes, None for a tombstone.
        timestamp_ms: The broker's timestamp.
        reason: Its dead letter's reason, "" for a valid event.
        content_id, user_id, event_time_ms, reaction, region: What a valid event says, reaction and region by name.
    """

    note: str
    value: bytes | None
    timestamp_ms: int
    reason: str = ""
    content_id: str = ""
    user_id: str = ""
    event_time_ms: int = 0
    reaction: str = ""
    region: str = ""


def load_schema(name: Literal["like_event", "dead_letter", "content_count"]) -> dict[str, Any]:
    """One of the JSON Schemas (draft 2020-12), parsed."""
    schema: dict[str, Any] = json.loads(_text(f"{name}.schema.json"))
    return schema


def golden_events(kind: Literal["valid", "invalid"]) -> tuple[GoldenEvent, ...]:
    """The golden records of like-events that are events, or those that become dead letters."""
    return tuple(_golden_event(line) for line in golden_messages(f"like_events.{kind}"))


def golden_messages(name: str) -> tuple[dict[str, Any], ...]:
    """The lines of golden/<name>.jsonl, parsed."""
    return tuple(json.loads(line) for line in _text(f"golden/{name}.jsonl").splitlines())


def cassandra_statements(keyspace: str, replication: str) -> tuple[str, ...]:
    """The statements of cassandra.cql in order, without comments; each may be run again.

    Args:
        keyspace: A checked identifier; it is not quoted.
        replication: A CQL map literal, such as {'class': 'SimpleStrategy', 'replication_factor': 1}.
    """
    lines = [line for line in _text("cassandra.cql").splitlines() if not line.startswith("--")]
    statements = "\n".join(lines).format(keyspace=keyspace, replication=replication).split(";")
    return tuple(statement.strip() for statement in statements if statement.strip())


def _golden_event(line: dict[str, Any]) -> GoldenEvent:
    text, encoded, size = (line.pop(name, None) for name in ("value", "value_base64", "pad_to_bytes"))
    value: bytes | None = None
    if text is not None:
        value = text.encode()
    elif encoded is not None:
        value = base64.b64decode(encoded)
    if value is not None and size is not None:
        value = value.ljust(size)
    return GoldenEvent(value=value, timestamp_ms=line.pop("timestamp"), **line)


def _text(path: str) -> str:
    return _FILES.joinpath(path).read_text(encoding="utf-8")

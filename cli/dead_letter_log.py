"""Reading like-events.dlq: dead letters, each once."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from connectors.kafka import beginning_offsets, end_offsets, read_topic
from pipelines.domain.dead_letters import DeadLetter, original_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipelines.settings import Settings

_FIELDS = ("reason", "message", "topic", "partition", "offset", "timestamp")


class Identities:
    """A set of dead letters' identities."""

    def __init__(self) -> None:
        self._offsets: defaultdict[tuple[str, int], set[int]] = defaultdict(set)

    def __contains__(self, letter: DeadLetter) -> bool:
        return letter.offset in self._offsets[letter.topic, letter.partition]

    def add(self, letter: DeadLetter) -> None:
        """Put a dead letter's identity in."""
        self._offsets[letter.topic, letter.partition].add(letter.offset)


@dataclass(slots=True)
class Passed:
    """What a reader of the topic passed over.

    Fields:
        duplicates: Dead letters that were there before: the job writes them at least once.
        unreadable: Records that are no dead letters.
    """

    duplicates: int = 0
    unreadable: int = 0


def parse_letter(value: bytes | None) -> DeadLetter | None:
    """The dead letter that a record of the topic holds, None if it is none."""
    try:
        fields = json.loads(value or b"")
        reason, message, topic, partition, offset, timestamp_ms = (fields[name] for name in _FIELDS)
        original = original_bytes(fields["value"], fields["value_base64"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    kinds = [type(field) for field in (reason, message, topic, partition, offset, timestamp_ms)]
    if kinds != [str, str, str, int, int, int]:
        return None
    return DeadLetter(reason, message, topic, partition, offset, timestamp_ms, original)


def distinct_letters(settings: Settings, passed: Passed) -> Iterator[DeadLetter]:
    """Every dead letter up to the topic's present end, once, in order within each of the topic's partitions.

    Args:
        settings: Where.
        passed: Gets the counts of what is passed over.

    Raises:
        ServiceUnavailable: No broker answers.
        SettingError: The topic does not exist.
    """
    topic = settings.kafka.dead_letters_topic
    seen = Identities()
    for record in read_topic(settings, topic, beginning_offsets(settings, topic), end_offsets(settings, topic)):
        letter = parse_letter(record.value)
        if letter is None:
            passed.unreadable += 1
        elif letter in seen:
            passed.duplicates += 1
        else:
            seen.add(letter)
            yield letter

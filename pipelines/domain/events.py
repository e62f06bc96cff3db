"""What a LikeEvent is: which bytes are one, what it says, and why anything else is not one.

The Flink plan must agree with `parse` on every input; `REASONS` lists the checks in the order in which they are made.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from pipelines.domain import register as registers
from pipelines.domain import strict_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipelines.domain.register import Reaction

MAX_ID_CHARACTERS = 64
EARLIEST_EVENT_TIME_MS = 1_104_537_600_000  # 2005-01-01T00:00:00Z
BYTE_ORDER_MARK = "\ufeff"

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "tombstone": "The record has no value.",
        "record_too_large": "The record is larger than allowed.",
        "not_utf8": "The bytes are not valid UTF-8.",
        "nul_character": "The record or an id contains the character U+0000.",
        "not_json": "The text is not one JSON value.",
        "not_an_object": "The JSON value is not an object.",
        "missing_content_id": "Neither content_id nor video_id is given.",
        "conflicting_ids": "content_id and video_id are both given and differ.",
        "content_id_not_string": "The content id is not a JSON string.",
        "content_id_empty": "The content id is empty.",
        "content_id_too_long": "The content id is longer than 64 characters.",
        "content_id_control_character": "The content id contains a control character.",
        "missing_user_id": "user_id is not given.",
        "user_id_not_string": "user_id is not a JSON string.",
        "user_id_empty": "user_id is empty.",
        "user_id_too_long": "user_id is longer than 64 characters.",
        "user_id_control_character": "user_id contains a control character.",
        "missing_action": "action is not given.",
        "unknown_action": "action is none of LIKE, UNLIKE, DISLIKE, UNDISLIKE.",
        "unknown_region": "region is not one of the configured regions.",
        "event_time_not_integer": "event_time is not a JSON integer.",
        "event_time_out_of_64_bits": "event_time does not fit into 64 bits.",
        "event_time_before_2005": "event_time is before 2005.",
        "event_time_in_future": "event_time is too far ahead of the broker's clock.",
    }
)

_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Rules:
    """What a valid event may hold.

    Fields:
        regions: Names of the regions; a region's code is its position.
        home_region: The region of an event that names none.
        max_record_bytes: Size of the largest record that is read.
        max_ahead_ms: How far event_time may be ahead of the broker's timestamp.
        codes: Code by region name, derived.

    Raises:
        ValueError: The home region is not in `regions`, or a region is there twice.
    """

    regions: tuple[str, ...] = ("us", "eu", "ap", "sa", "af", "me", "oc")
    home_region: str = "us"
    max_record_bytes: int = 65_536
    max_ahead_ms: int = 300_000
    codes: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        codes = {name: code for code, name in enumerate(self.regions)}
        if len(codes) != len(self.regions) or self.home_region not in codes:
            raise ValueError(f"regions must be distinct and contain the home region {self.home_region!r}")
        object.__setattr__(self, "codes", codes)

    @property
    def home(self) -> int:
        """Code of the home region."""
        return self.codes[self.home_region]


class LikeEvent(NamedTuple):
    """A valid event.

    Fields:
        content_id: What was reacted to, 1..64 characters.
        user_id: Who reacted, 1..64 characters.
        register: Time, reaction and region, packed as in `pipelines.domain.register`.
    """

    content_id: str
    user_id: str
    register: int

    @property
    def event_time_ms(self) -> int:
        """When the user reacted, milliseconds since the epoch."""
        return registers.time_of(self.register)

    @property
    def reaction(self) -> Reaction:
        """What the user reacted with."""
        return registers.reaction_of(self.register)

    @property
    def region(self) -> int:
        """Code of the region."""
        return registers.region_of(self.register)


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record that is not an event, for a reason of `REASONS`."""

    reason: str

    @property
    def message(self) -> str:
        """The reason as a sentence for people."""
        return REASONS[self.reason]


class _Invalid(Exception):
    """The first check that failed, on its way to `parse`."""


def parse(value: bytes | None, timestamp_ms: int, rules: Rules) -> LikeEvent | Rejected:
    """Read one record.

    Args:
        value: The record's bytes, None for a tombstone.
        timestamp_ms: The broker's timestamp. It is trusted: it is the time of an event that carries none.
        rules: What is allowed.

    Returns:
        The event, or the first reason in the order of `REASONS` that forbids it. No value raises.

    Raises:
        PartOverflow: The broker's own timestamp is outside the register's 43 bits.
    """
    try:
        fields = _object(_text(value, rules))
        content_id = _identifier(_content_id(fields), "content_id")
        user_id = _identifier(fields.get("user_id"), "user_id")
        reaction = _reaction(fields.get("action"))
        region = _region(fields.get("region"), rules)
        event_time_ms = _event_time_ms(fields.get("event_time"), timestamp_ms, rules)
    except _Invalid as invalid:
        return Rejected(invalid.args[0])
    return LikeEvent(content_id, user_id, registers.pack(event_time_ms, reaction, region))


def refusal_of_id(value: object, name: str) -> str | None:
    """The reason why a value can be no id of an event, None if it can.

    Args:
        value: What was given.
        name: `content_id` or `user_id`.
    """
    try:
        _identifier(value, name)
    except _Invalid as invalid:
        return str(invalid.args[0])
    return None


def _text(value: bytes | None, rules: Rules) -> str:
    if value is None:
        raise _Invalid("tombstone")
    if len(value) > rules.max_record_bytes:
        raise _Invalid("record_too_large")
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise _Invalid("not_utf8") from None
    if "\0" in text:
        raise _Invalid("nul_character")
    return text.removeprefix(BYTE_ORDER_MARK)


def _object(text: str) -> dict[str, object]:
    try:
        fields = strict_json.loads(text)
    except strict_json.NotJson:
        raise _Invalid("not_json") from None
    if not isinstance(fields, dict):
        raise _Invalid("not_an_object")
    return fields


def _content_id(fields: dict[str, object]) -> object:
    content_id, video_id = fields.get("content_id"), fields.get("video_id")
    if content_id is None:
        return video_id
    # Two ids of which neither is a string are wrong for that, whether they are equal or not.
    if video_id is not None and content_id != video_id and (isinstance(content_id, str) or isinstance(video_id, str)):
        raise _Invalid("conflicting_ids")
    return content_id


def _identifier(value: object, name: str) -> str:
    if value is None:
        raise _Invalid(f"missing_{name}")
    if not isinstance(value, str):
        raise _Invalid(f"{name}_not_string")
    if not value:
        raise _Invalid(f"{name}_empty")
    if len(value) > MAX_ID_CHARACTERS:
        raise _Invalid(f"{name}_too_long")
    # Printable text holds none of the forbidden characters, and asking is much cheaper than searching.
    if not value.isprintable() and _FORBIDDEN.search(value):
        raise _Invalid("nul_character" if "\0" in value else f"{name}_control_character")
    return value


def _reaction(action: object) -> Reaction:
    if action is None:
        raise _Invalid("missing_action")
    reaction = registers.REACTION_OF_ACTION.get(action) if isinstance(action, str) else None
    if reaction is None:
        raise _Invalid("unknown_action")
    return reaction


def _region(region: object, rules: Rules) -> int:
    if region is None:
        return rules.codes[rules.home_region]
    code = rules.codes.get(region) if isinstance(region, str) else None
    if code is None:
        raise _Invalid("unknown_region")
    return code


def _event_time_ms(event_time: object, timestamp_ms: int, rules: Rules) -> int:
    if event_time is None:
        return timestamp_ms
    if type(event_time) is not int:  # bool is an int to Python, not to JSON
        raise _Invalid("event_time_not_integer")
    if not -(1 << 63) <= event_time < 1 << 63:
        raise _Invalid("event_time_out_of_64_bits")
    if event_time < EARLIEST_EVENT_TIME_MS:
        raise _Invalid("event_time_before_2005")
    if event_time > timestamp_ms + rules.max_ahead_ms:
        raise _Invalid("event_time_in_future")
    return event_time

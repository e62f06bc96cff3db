"""What the designs take of an event, and what most of them do with it. Pure."""

from __future__ import annotations

from typing import NamedTuple

import orjson

# What a counter does that does not know who tapped before.
STEPS = {"LIKE": ("likes", 1), "UNLIKE": ("likes", -1), "DISLIKE": ("dislikes", 1), "UNDISLIKE": ("dislikes", -1)}


class Tap(NamedTuple):
    """One event.

    Fields:
        content_id: What was tapped.
        user_id: By whom.
        action: One of `STEPS`.
        partition: Of the topic, where it was read.
    """

    content_id: str
    user_id: str
    action: str
    partition: int


def tap_of(value: bytes, partition: int) -> Tap | None:
    """The event in a record; None if it is none."""
    try:
        event = orjson.loads(value)
        content_id, user_id, action = event["content_id"], event["user_id"], event["action"]
    except (ValueError, KeyError, TypeError):
        return None
    if not (isinstance(content_id, str) and isinstance(user_id, str) and action in STEPS):
        return None
    return Tap(content_id, user_id, action, partition)

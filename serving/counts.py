"""Counts as they are answered: what was read, the user's own change, and what the user thinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.domain import register as registers
from pipelines.domain.register import Reaction
from pipelines.domain.times import iso
from serving.pending import Pending, shown

if TYPE_CHECKING:
    from serving.reading import Read


def count(content_id: str, read: Read | None, pending: Pending | None, now: float) -> dict[str, object]:
    """One content as `serving.models.CountOut` has it, without `my_reaction`.

    Args:
        content_id: Which.
        read: What was read, None if it cannot be.
        pending: The user's own change of it.
        now: Seconds of a monotonic clock.
    """
    if read is None:
        return {
            "content_id": content_id,
            "likes": None,
            "dislikes": None,
            "version": 0,
            "as_of": None,
            "staleness_ms": None,
            "source": "none",
            "known": False,
            "stale": True,
        }
    total = read.held.total
    likes, dislikes = shown(total.pn, pending, read.counting.committed)
    age_s = read.counting.staleness_s(now)
    return {
        "content_id": content_id,
        "likes": likes,
        "dislikes": dislikes,
        "version": total.version,
        "as_of": iso(total.as_of_ms),
        "staleness_ms": None if age_s is None else round(age_s * 1000),
        "source": read.source,
        "known": bool(read.held.regions),
        "stale": read.is_stale,
    }


def reaction_name(register: int) -> str:
    """What a register says, NONE for no register."""
    return (registers.reaction_of(register) if register else Reaction.NONE).name

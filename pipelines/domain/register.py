"""The last-writer-wins register of one user on one content, packed into a signed 64-bit integer that is never negative.

    bits 62..20  event_time_ms   43 bits, milliseconds since the epoch, up to the year 2248
    bits 19..16  reaction         4 bits, LIKE=1, DISLIKE=2, NONE=3
    bits 15..0   region          16 bits, the position in the configured list of regions

The largest packed value wins, so integer order is the order (time, reaction, region), and `max` is a state-based CRDT
merge (Shapiro et al., "A comprehensive study of Convergent and Commutative Replicated Data Types", 2011): neither the
order of arrival nor repetition matters. `EMPTY` is below every register.
"""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from pipelines.domain.bounds import check_part

if TYPE_CHECKING:
    from collections.abc import Mapping

TIME_BITS, REACTION_BITS, REGION_BITS = 43, 4, 16
REACTION_SHIFT = REGION_BITS
TIME_SHIFT = REGION_BITS + REACTION_BITS
EMPTY = 0


class Reaction(IntEnum):
    """What a user thinks of a content. On equal times the larger wins, so taking a reaction back beats having one."""

    LIKE = 1
    DISLIKE = 2
    NONE = 3


REACTION_OF_ACTION: Mapping[str, Reaction] = MappingProxyType(
    {
        "LIKE": Reaction.LIKE,
        "UNLIKE": Reaction.NONE,
        "DISLIKE": Reaction.DISLIKE,
        "UNDISLIKE": Reaction.NONE,
    }
)


class Register(NamedTuple):
    """A register taken apart. Compares like its packed form.

    Fields:
        event_time_ms: When the user reacted, milliseconds since the epoch.
        reaction: What the user reacted with.
        region: Code of the region, its position in the configured list.
    """

    event_time_ms: int
    reaction: Reaction
    region: int


def pack(event_time_ms: int, reaction: Reaction, region: int) -> int:
    """Pack a register.

    Raises:
        PartOverflow: The time or the region does not fit; the message names it.
    """
    if event_time_ms >> TIME_BITS or region >> REGION_BITS:
        check_part("event_time_ms", event_time_ms, TIME_BITS)
        check_part("region", region, REGION_BITS)
    return event_time_ms << TIME_SHIFT | reaction << REACTION_SHIFT | region


def unpack(packed: int) -> Register:
    """Take a packed register apart.

    Raises:
        PartOverflow: `packed` is negative or over 63 bits.
        ValueError: The reaction's bits hold no reaction, as in `EMPTY`.
    """
    check_part("register", packed, TIME_BITS + TIME_SHIFT)
    return Register(packed >> TIME_SHIFT, reaction_of(packed), region_of(packed))


def reaction_of(packed: int) -> Reaction:
    """The reaction alone. Raises ValueError for bits that hold none, as in `EMPTY`."""
    return Reaction(packed >> REACTION_SHIFT & ((1 << REACTION_BITS) - 1))


def region_of(packed: int) -> int:
    """The region code alone."""
    return packed & ((1 << REGION_BITS) - 1)


def time_of(packed: int) -> int:
    """The event time alone, milliseconds since the epoch."""
    return packed >> TIME_SHIFT


def merge(left: int, right: int) -> int:
    """The register that wins: commutative, associative, idempotent; `EMPTY` is neutral."""
    return max(left, right)

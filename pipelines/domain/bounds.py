"""Parts of packed integers stay inside their bits, or fail by name."""

from __future__ import annotations

SIGNED_64_MAX = (1 << 63) - 1


class PartOverflow(OverflowError):
    """A part of a packed number is outside its bits; the message names it. Nothing ever wraps into a neighbour."""


def check_part(name: str, value: int, bits: int) -> None:
    """Refuse a part that does not fit.

    Args:
        name: What the part is called in the error.
        value: The part; 0 is the smallest.
        bits: How many bits it may take.

    Raises:
        PartOverflow: `value` is negative or needs more than `bits` bits.
    """
    if value >> bits:  # a negative number shifts to -1, so one test covers both ends
        raise PartOverflow(f"{name} {value} is outside 0..{(1 << bits) - 1}")

"""The arithmetic of a Bloom filter; its bits are in Redis, where all consumers and a restart find them. Pure.

Own code, for Redis has no filters without a module, and a library in the process would lose the bits with it. The size
is that of B. H. Bloom, "Space/time trade-offs in hash coding with allowable errors", CACM 13, 7 (1970); two hashes make
all positions, after A. Kirsch, M. Mitzenmacher, "Less hashing, same performance", Random Structures & Algorithms 33, 2
(2008).
"""

from __future__ import annotations

import hashlib
import math
from typing import NamedTuple


class Size(NamedTuple):
    """How large a filter is.

    Fields:
        bits: In it.
        hashes: Bits that one element sets.
    """

    bits: int
    hashes: int


def size_for(capacity: int, error: float) -> Size:
    """The smallest filter that calls at most this share of new elements old once it holds its capacity.

    Args:
        capacity: Elements, at least one.
        error: Above 0 and below 1.
    """
    bits = math.ceil(-capacity * math.log(error) / math.log(2) ** 2)
    return Size(bits, max(1, round(bits / capacity * math.log(2))))


def positions(element: str, size: Size) -> list[int]:
    """The bits of an element."""
    digest = hashlib.blake2b(element.encode(), digest_size=16).digest()
    first, step = int.from_bytes(digest[:8]), int.from_bytes(digest[8:]) | 1
    return [(first + index * step) % size.bits for index in range(size.hashes)]


def element(content_id: str, user_id: str, kind: str) -> str:
    """What a filter of taps remembers: that a user has liked, or disliked, a content."""
    return f"{kind}\0{content_id}\0{user_id}"

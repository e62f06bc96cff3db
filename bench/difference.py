"""How far counts are from those expected. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Counts = Mapping[str, tuple[int, int]]
"""(likes, dislikes) by content."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How counts differ from those expected, over all contents.

    Fields:
        lost: Likes and dislikes too few.
        gained: Likes and dislikes too many.
    """

    lost: int
    gained: int

    @property
    def total(self) -> int:
        """How far off they are."""
        return self.lost + self.gained


def difference(counted: Counts, expected: Counts) -> Difference:
    """Compare; a content that one side lacks has none there."""
    lost = gained = 0
    for content_id in counted.keys() | expected.keys():
        for have, want in zip(counted.get(content_id, (0, 0)), expected.get(content_id, (0, 0)), strict=True):
            lost += max(0, want - have)
            gained += max(0, have - want)
    return Difference(lost, gained)

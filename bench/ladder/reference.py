"""What each design comes to without any failure. Pure.

A design is compared with the truth to see what its rules get wrong, and with this to see what a kill did to it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Protocol

from bench.difference import Counts
from bench.ladder.bloom import Size, element, positions
from bench.ladder.taps import STEPS, Tap

_KINDS = ("likes", "dislikes")


class Reference(Protocol):
    """A design's rules, applied to one tap after the other in the order of each partition."""

    @property
    def false_positives(self) -> int:
        """Likes and dislikes dropped so far because a filter said that it had seen them, although it had not."""

    def take(self, tap: Tap) -> None:
        """Apply one tap."""

    def counts(self) -> Counts:
        """(likes, dislikes) by content so far."""


class Tally:
    """Counters of likes and dislikes by content."""

    false_positives = 0

    def __init__(self) -> None:
        self._sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])

    def add(self, kind: str, content_id: str, step: int) -> None:
        """Change one counter."""
        self._sums[content_id][_KINDS.index(kind)] += step

    def counts(self) -> Counts:
        """(likes, dislikes) by content so far."""
        return {content_id: (likes, dislikes) for content_id, (likes, dislikes) in self._sums.items()}


class Increments(Tally):
    """Every tap is a step up or down, whoever taps and however often."""

    def take(self, tap: Tap) -> None:
        """Apply one tap."""
        kind, step = STEPS[tap.action]
        self.add(kind, tap.content_id, step)


class Members(Tally):
    """Who likes and who dislikes are sets, changed in the order in which taps arrive."""

    def __init__(self) -> None:
        super().__init__()
        self._reactions: dict[tuple[str, str], str] = {}

    def take(self, tap: Tap) -> None:
        """Apply one tap."""
        kind, step = STEPS[tap.action]
        key = tap.content_id, tap.user_id
        before, after = self._reactions.get(key), kind if step > 0 else None
        if before == after:
            return
        if before:
            self.add(before, tap.content_id, -1)
            del self._reactions[key]
        if after:
            self.add(after, tap.content_id, 1)
            self._reactions[key] = after


class Filtered(Tally):
    """Steps behind a Bloom filter for each partition: up if it has not seen the user's like, down if it has.

    Args:
        size: Of each filter.
    """

    def __init__(self, size: Size) -> None:
        super().__init__()
        self._size = size
        self._bits: defaultdict[int, bytearray] = defaultdict(lambda: bytearray(size.bits))
        self._added: set[str] = set()
        self.false_positives = 0

    def take(self, tap: Tap) -> None:
        """Apply one tap."""
        kind, step = STEPS[tap.action]
        member = element(tap.content_id, tap.user_id, kind)
        bits, places = self._bits[tap.partition], positions(member, self._size)
        seen = all(bits[place] for place in places)
        if step < 0:
            if seen:
                self.add(kind, tap.content_id, -1)
            return
        if seen:
            self.false_positives += member not in self._added
        else:
            self.add(kind, tap.content_id, 1)
        for place in places:
            bits[place] = 1
        self._added.add(member)


def continued(counted: Counts, before: Counts, after: Counts) -> Counts:
    """What counts should become when more taps come.

    Args:
        counted: As they were found.
        before: What they should have been then.
        after: What they should have been now.
    """
    none = (0, 0)
    return {
        content_id: (
            counted.get(content_id, none)[0] + after.get(content_id, none)[0] - before.get(content_id, none)[0],
            counted.get(content_id, none)[1] + after.get(content_id, none)[1] - before.get(content_id, none)[1],
        )
        for content_id in counted.keys() | before.keys() | after.keys()
    }

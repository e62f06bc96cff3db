"""Which contents are hot: the most frequent items of a sliding window, in little memory.

The sketch is Apache DataSketches' frequent-items sketch, of the space-saving family (Anderson et al., "A
High-Performance Algorithm for Identifying Frequent Items in Data Streams", 2017): it never misses an item that is more
frequent than its error, and needs no more memory for a billion contents than for a thousand. A window is a few
sketches, the oldest dropped.
"""

from __future__ import annotations

from collections import deque

from datasketches import frequent_items_error_type, frequent_strings_sketch

WINDOW_S = 10.0
_SLICES = 5
_LG_ITEMS = 10
_LOOK_EVERY = 256


class HotItems:
    """Counts items and tells the hot ones.

    Args:
        per_s: How often an item must come to be hot.
        window_s: Over how long.
        now: Seconds of a monotonic clock.
    """

    def __init__(self, per_s: float, window_s: float, now: float) -> None:
        self._slice_s = window_s / _SLICES
        self._least = per_s * window_s
        self._slices: deque[frequent_strings_sketch] = deque([frequent_strings_sketch(_LG_ITEMS)], maxlen=_SLICES)
        self._turn_at = now + self._slice_s
        self._hot: dict[str, float] = {}
        self._window_s = window_s
        self._seen = 0

    def saw(self, item: str, now: float) -> None:
        """Count an item."""
        self.turn(now)
        self._slices[-1].update(item)
        self._seen += 1
        if self._seen % _LOOK_EVERY == 0:
            self._look()  # a crowd that comes at once is not waited for

    def is_hot(self, item: str) -> bool:
        """Whether it was, when that was last looked at."""
        return item in self._hot

    def hottest(self) -> dict[str, float]:
        """The hot items and how often they come a second, most frequent first."""
        return self._hot

    def turn(self, now: float) -> None:
        """Let the window move, if it is time."""
        if now < self._turn_at:
            return
        self._look()
        missed = int((now - self._turn_at) // self._slice_s) + 1
        for _ in range(min(missed, _SLICES)):
            self._slices.append(frequent_strings_sketch(_LG_ITEMS))
        self._turn_at += missed * self._slice_s

    def _look(self) -> None:
        merged = frequent_strings_sketch(_LG_ITEMS)
        for part in self._slices:
            merged.merge(part)
        kind = frequent_items_error_type.NO_FALSE_POSITIVES
        found = merged.get_frequent_items(kind, max(1, int(self._least)))
        self._hot = {item: estimate / self._window_s for item, estimate, _, _ in found}

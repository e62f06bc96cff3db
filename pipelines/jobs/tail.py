"""When a bounded run asks for a checkpoint of its own: the periodic one may come long after everything is counted."""

from __future__ import annotations

_FIRST_GUESS_PER_S = 20_000.0
_MARGIN_S = 0.5


class Tail:
    """Guesses from the progress so far when the end is reached.

    Args:
        now: When all tasks ran, seconds of a monotonic clock.
        done: Records that had been counted by then.
    """

    def __init__(self, now: float, done: int) -> None:
        self._first = self._last = (now, done)
        self._asked = False

    def is_due(self, now: float, done: int, left: int) -> bool:
        """Whether to ask now, once for each progress that was seen.

        Args:
            now: Seconds of the same clock.
            done: Records counted, by what the last checkpoint has committed.
            left: Records not counted.
        """
        if done > self._last[1]:
            self._last, self._asked = (now, done), False
        if self._asked or now < self._last[0] + left / self._rate() + _MARGIN_S:
            return False
        self._asked = True
        return True

    def _rate(self) -> float:
        (first_at, first), (last_at, last) = self._first, self._last
        return (last - first) / (last_at - first_at) if last > first else _FIRST_GUESS_PER_S

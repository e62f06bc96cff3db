"""How fast a bounded run counts once it has got going."""

from __future__ import annotations

_FIRST_PART, _LAST_PART = 0.25, 0.75


class Pace:
    """Events per second from the first checkpoint after the first quarter of what a run has to count.

    A new plan is new code to the JVM, which compiles it while it runs, so the first seconds are not what a job does
    later. What is counted is known at each checkpoint, at the end too.

    Args:
        now: When the run began, seconds of a monotonic clock.
        done: Events that had been counted before.
        total: Events that will be counted at the end.
    """

    def __init__(self, now: float, done: int, total: int) -> None:
        self._from = (now, done)
        self._first_part = done + (total - done) * _FIRST_PART
        self._last_part = done + (total - done) * _LAST_PART
        self._fixed = False

    def saw(self, now: float, done: int) -> None:
        """Take note of how many events are counted now."""
        if not self._fixed and self._first_part <= done <= self._last_part:
            self._from, self._fixed = (now, done), True

    def per_s(self, now: float, done: int) -> float:
        """Events per second up to now; from the beginning where no checkpoint came in the second and third quarter."""
        since, already = self._from
        if done <= already:
            return 0.0
        return (done - already) / max(now - since, 1e-3)

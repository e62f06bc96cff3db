"""Lines that know when they are due, and a replay that waits for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_T = TypeVar("_T")


class TimedLine(NamedTuple):
    """A line of a log.

    Fields:
        due_ms: When it enters the log, in milliseconds of the log's own clock, never decreasing. The time of the event
            in it may be earlier.
        value: The record's bytes, without a line terminator.
    """

    due_ms: int
    value: bytes


def paced(
    lines: Iterable[tuple[int, _T]],
    speed: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[_T]:
    """Yield each line when it is due, the first at once. A consumer that falls behind gets the rest without waiting.

    Args:
        lines: `TimedLine`s, or other pairs of a due time in milliseconds and something, in the order of the former.
        speed: How many times faster than the lines' own time; 0 never waits.
        clock: Monotonic seconds.
        sleep: Waits for so many seconds.
    """
    if not speed:
        yield from (value for _, value in lines)
        return
    started_s, first_ms = 0.0, None
    for due_ms, value in lines:
        if first_ms is None:
            started_s, first_ms = clock(), due_ms
        ahead_s = (due_ms - first_ms) / 1000 / speed - (clock() - started_s)
        if ahead_s > 0:
            sleep(ahead_s)
        yield value

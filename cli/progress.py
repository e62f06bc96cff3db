"""Progress on stderr: a bar for a person at a terminal, a plain line now and then for a log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from cli.common import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_T = TypeVar("_T")
_BAR_S, _LINE_S = 0.1, 5.0


class Tally:
    """Counts something long. Use as a context manager.

    Args:
        what: What is done to what, such as "sent events".
        total: How many there will be, None if that is not known.
        clock: Monotonic seconds.
    """

    def __init__(self, what: str, total: int | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._total = total
        self._clock = clock
        console = Console(stderr=True)
        self._bar: Progress | None = None
        if console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            # What goes to stdout belongs to whoever reads it.
            self._bar = Progress(*columns, console=console, transient=True, redirect_stdout=False)
            self._task = self._bar.add_task(what, total=total)
        self._pause_s = _BAR_S if self._bar else _LINE_S
        self._next_s = clock() + self._pause_s

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def at(self, count: int) -> None:
        """Say how many are done by now. Cheap enough to call for each of millions."""
        if (now_s := self._clock()) < self._next_s:
            return
        self._next_s = now_s + self._pause_s
        if self._bar:
            self._bar.update(self._task, completed=count)
        else:
            tell(f"{self._what}: {count} of {self._total}" if self._total else f"{self._what}: {count}")

    def over(self, items: Iterable[_T]) -> Iterator[_T]:
        """The items, counted as they are asked for."""
        for count, item in enumerate(items):
            self.at(count)
            yield item

"""Ctrl-C, SIGTERM and a closed terminal, as one thing that happens once."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Within the block the first of the signals raises KeyboardInterrupt, and further ones are ignored.

    What was started must be stopped whole, however impatient somebody is; that takes seconds.
    """

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._ignored = False

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            before = signal.getsignal(number)
            # `nohup` means what it says. A shell that starts us in the background ignores SIGINT on our behalf, which
            # nobody asked for, and which the job would inherit.
            if not (number == signal.SIGHUP and before == signal.SIG_IGN):
                self._before[number] = before
                signal.signal(number, self._end)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def ignore(self) -> None:
        """From here on to the end of the block nothing interrupts any more."""
        self._ignored = True

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        if not self._ignored:
            self._ignored = True
            raise KeyboardInterrupt

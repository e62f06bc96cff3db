"""Where the demo shows itself: a live table on a terminal, else a line every few seconds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol, Self

import typer
from rich.console import Console
from rich.live import Live

from cli.demo.view import line, screen

if TYPE_CHECKING:
    from cli.demo.stats import Snapshot
    from cli.demo.view import Moment, Scene

_LINE_S = 5.0


class Display(Protocol):
    """Shows one moment after the other, within its block."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def show(self, snapshot: Snapshot, moment: Moment) -> None:
        """Show this, or nothing if it is too soon."""


def display(scene: Scene) -> Display:
    """What suits stdout."""
    console = Console()
    return Screen(console, scene) if console.is_terminal else Lines(scene)


class Screen:
    """Redraws in place; the last picture stays."""

    def __init__(self, console: Console, scene: Scene) -> None:
        self._console = console
        self._scene = scene
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, snapshot: Snapshot, moment: Moment) -> None:
        """Redraw, at whatever size the terminal has by now."""
        width, height = self._console.size
        self._live.update(screen(self._scene, snapshot, moment, width=width, height=height), refresh=True)


class Lines:
    """Prints a line every few seconds, and whenever the state has changed."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._state = ""
        self._next_s = 0.0

    def __enter__(self) -> Self:
        addresses = ", ".join(f"{name} {address}" for name, address in self._scene.addresses.items())
        typer.echo(f"replaying {self._scene.total:,} events of {self._scene.title}; {addresses}")
        typer.echo(f"open {self._scene.page}")
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, snapshot: Snapshot, moment: Moment) -> None:
        """Print, if it is time."""
        text = line(snapshot, moment)
        state = text.partition("; ")[2]
        if time.monotonic() >= self._next_s or state != self._state:
            self._state, self._next_s = state, time.monotonic() + _LINE_S
            typer.echo(text)

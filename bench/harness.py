"""What every command of a benchmark needs: a stack of its own that goes away, names to choose from, a file for rows."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench import machine
from bench.counting import Bench
from deploy.flink.local_stack import Stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


@contextmanager
def own_stack() -> Iterator[Bench]:
    """A stack in a temporary folder, taken down and removed at the end, whatever signal ends the block."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell started us in the background
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    tell(json.dumps(machine.describe()))
    with tempfile.TemporaryDirectory(prefix="likes-bench-") as folder:
        stack = Stack(Path(folder) / "stack")
        try:
            stack.up(tell)
            yield Bench(stack, tell)
        finally:
            stack.down(purge=True)


def names_of(known: Sequence[str]) -> Callable[[str], list[str]]:
    """A type for argparse: names from a list, separated by commas."""

    def parse(text: str) -> list[str]:
        names = text.split(",")
        if unknown := sorted(set(names) - set(known)):
            raise argparse.ArgumentTypeError(f"{unknown[0]} is none of {', '.join(known)}")
        return names

    return parse


def save(path: Path, rows: Sequence[object]) -> None:
    """Write rows as JSON, whole or not at all."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    new.replace(path)


def tell(line: str) -> None:
    """A line for people."""
    print(line, file=sys.stderr, flush=True)

"""What every command of a benchmark needs: a stack of its own that goes away, names to choose from, a file for rows."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from bench import machine
from bench.counting import Bench
from deploy.flink.local_stack import Stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


class HasJson(Protocol):
    """A row of a report."""

    def as_json(self) -> dict[str, object]:
        """For its file."""


_Row = TypeVar("_Row", bound=HasJson)


@contextmanager
def own_stack() -> Iterator[Bench]:
    """A stack in a temporary folder, taken down and removed at the end, whatever signal ends the block."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell started us in the background
    for number in (signal.SIGTERM, signal.SIGHUP):  # a closed terminal too
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    tell(json.dumps(machine.describe()))
    with tempfile.TemporaryDirectory(prefix="likes-bench-") as folder:
        stack = Stack(Path(folder) / "stack")
        try:
            stack.up(tell)
            with Bench(stack, tell) as bench:
                yield bench
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


def at_least(least: int) -> Callable[[str], int]:
    """A type for argparse: an integer that is not too small."""

    def parse(text: str) -> int:
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"{number:,} is less than {least:,}")
        return number

    return parse


def compare_command(
    doc: str | None, known: Sequence[str], compare: Callable[..., Iterable[_Row]], table: Callable[[list[_Row]], str]
) -> None:
    """The command of a benchmark that runs several ways to count and prints a table of them.

    Args:
        doc: Of the command.
        known: Names of the ways.
        compare: Takes a bench and a number of runs, and by keyword names, events and kill; gives a row for each.
        table: Of the rows, for people.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=names_of(known), default=known, help=f"of {', '.join(known)}, with commas")
    parser.add_argument(
        "--events", type=at_least(1), help="in each log; default: what suits each, for runs of 5 to 10 s"
    )
    parser.add_argument("--runs", type=at_least(1), default=3, help="of each")
    parser.add_argument("--no-kill", action="store_true", help="leave out the run with kills")
    parser.add_argument("--json", type=Path, help="also write the rows here, for `python -m bench --take`")
    options = parser.parse_args()
    rows: list[_Row] = []
    measured_on = machine.describe()
    with own_stack() as bench:
        for row in compare(bench, options.runs, names=options.only, events=options.events, kill=not options.no_kill):
            rows.append(row)
            if options.json:  # after each, so that an interrupted bench leaves what it has
                save(options.json, [row.as_json() | {"measured_on": measured_on} for row in rows])
    print(table(rows))


def save(path: Path, rows: Sequence[object]) -> None:
    """Write rows as JSON, whole or not at all."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    new.replace(path)


def tell(line: str) -> None:
    """A line for people."""
    print(line, file=sys.stderr, flush=True)

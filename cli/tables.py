"""Tables for people, on stdout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable

_PIPED_WIDTH = 10_000


def print_table(
    columns: Iterable[str], rows: Iterable[Iterable[object]], *, right: frozenset[str] = frozenset()
) -> None:
    """Print rows under their columns. A terminal folds what is too wide; nothing is cut, and a pipe gets whole lines.

    Args:
        columns: Their names.
        rows: Cells; shown as they are, whatever markup they seem to hold.
        right: Columns of numbers.
    """
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    console = Console()
    if console.is_terminal:
        console.print(table)
        return
    console.width = _PIPED_WIDTH
    with console.capture() as captured:
        console.print(table)
    typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))

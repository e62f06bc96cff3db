"""Small helpers for SQL text: the only place where Python values become SQL literals."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyflink.table import TableEnvironment


def literal(value: str) -> str:
    """A string as an SQL literal, quotes doubled."""
    return "'" + value.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """A name as a quoted SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def options(values: Mapping[str, str]) -> str:
    """The body of a WITH clause."""
    return ",\n    ".join(f"{literal(key)} = {literal(value)}" for key, value in values.items())


def cases(subject: str, pairs: Iterable[tuple[str, str]], otherwise: str = "NULL") -> str:
    """`CASE subject WHEN … THEN … ELSE otherwise END` over SQL expressions."""
    return f"CASE {subject} " + " ".join(f"WHEN {when} THEN {then}" for when, then in pairs) + f" ELSE {otherwise} END"


def once(expression: str) -> str:
    """An expression that is computed once however often its column is used.

    The planner merges neighbouring projections and repeats an expression wherever its column was used, except one that
    is not deterministic and used more than once; then it keeps the two projections apart, with all their columns. So
    one such column is enough for a view, best a BOOLEAN, since CASE copies strings. Four uses of one JSON call took
    19 µs per event merged and 5 µs so.
    """
    return f"CASE WHEN RAND() >= 0 THEN {expression} END"


def view(env: TableEnvironment, name: str, query: str) -> None:
    """Register a query under a name.

    As a table object, not as SQL text: text is planned anew wherever it is used, so a view with two consumers would do
    its work twice; one object is planned once.
    """
    env.create_temporary_view(name, env.sql_query(textwrap.dedent(query).strip()))

"""The rows of the report: as JSON, and as a table for people. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Row:
    """What one way of counting came to.

    Fields:
        name: Of the peer.
        workload: Name of the log.
        rates: Events per second, one for each run that was exact.
        durable: Whether its state outlives its processes.
        stores: Whether its counts are in a store that can be queried when it is done.
        exact: Whether every run's counts were true.
        survives_kill: Whether they were so after two kills; None if that was not tried.
        off_by: How many likes and dislikes were wrong after the kills, None if that was not tried or it never ended.
        notes: What a reader should know.
    """

    name: str
    workload: str
    rates: tuple[float, ...]
    durable: bool
    stores: bool
    exact: bool
    survives_kill: bool | None
    off_by: int | None
    notes: str

    def as_json(self) -> dict[str, object]:
        """For a file; no figure where no run was exact."""
        rounded = [round(rate, 1) for rate in self.rates]
        return {
            "name": self.name,
            "workload": self.workload,
            "events_per_s": round(median(self.rates), 1) if rounded else None,
            "min": min(rounded, default=None),
            "max": max(rounded, default=None),
            "runs": len(rounded),
            "durable": self.durable,
            "stores": self.stores,
            "exact": self.exact,
            "survives_kill": self.survives_kill,
            "off_by": self.off_by,
            "notes": self.notes,
        }


_HEAD = f"{'':<20} {'events/s':>10} {'min':>10} {'max':>10}  {'exact':<6} {'survives kill':<14} {'off by':>8}"


def table(rows: Sequence[Row]) -> str:
    """Rows for a terminal, the fastest first."""
    ordered = sorted(rows, key=lambda row: -median(row.rates or (0.0,)))
    return "\n".join([_HEAD, *map(_line, ordered)])


def _line(row: Row) -> str:
    figures = (median(row.rates), min(row.rates), max(row.rates)) if row.rates else (None, None, None)
    numbers = " ".join(f"{'-' if figure is None else f'{figure:,.0f}':>10}" for figure in figures)
    off = "-" if row.off_by is None else f"{row.off_by:,}"
    return f"{row.name:<20} {numbers}  {_word(row.exact):<6} {_word(row.survives_kill):<14} {off:>8}"


def _word(value: object) -> str:
    return "-" if value is None else "yes" if value else "no"

"""The rows of the report: as JSON, and as a table for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True, slots=True)
class Row:
    """What one way of counting came to on one workload.

    Fields:
        section: Of the report.
        name: What counted.
        workload: Name of the log.
        rates: Events per second, one for each run that was exact.
        durable: Whether its state outlives its processes.
        stores: Whether its counts are in a store that can be queried when it is done.
        exact: Whether every run's counts were true; None if its rows are thrown away.
        survives_kill: Whether they were so after two kills; None if that was not tried.
        off_by: How many likes and dislikes were wrong after the kills, None if that was not tried or it never ended.
        notes: What a reader should know.
        more: Figures that only this section has, by name with unit.
    """

    section: str
    name: str
    workload: str
    rates: tuple[float, ...]
    durable: bool
    stores: bool
    exact: bool | None
    survives_kill: bool | None = None
    off_by: int | None = None
    notes: str = ""
    more: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """The median rate, 0 where there is none."""
        return median(self.rates) if self.rates else 0.0

    def as_json(self) -> dict[str, object]:
        """For a file; no figure where no run was exact."""
        rounded = [round(rate, 1) for rate in self.rates]
        return {
            "section": self.section,
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
            **self.more,
        }


_HEAD = f"{'':<24} {'events/s':>10} {'min':>10} {'max':>10}  {'exact':<6} {'survives kill':<14} {'off by':>8}"


def table(rows: Sequence[Row]) -> str:
    """Rows for a terminal, the fastest first."""
    ordered = sorted(rows, key=lambda row: -row.rate)
    return "\n".join([_HEAD, *map(_line, ordered)])


def _line(row: Row) -> str:
    figures = (row.rate, min(row.rates), max(row.rates)) if row.rates else (None, None, None)
    numbers = " ".join(f"{'-' if figure is None else f'{figure:,.0f}':>10}" for figure in figures)
    off = "-" if row.off_by is None else f"{row.off_by:,}"
    return f"{row.name:<24} {numbers}  {word(row.exact):<6} {word(row.survives_kill):<14} {off:>8}"


def word(value: bool | None) -> str:  # noqa: FBT001 - what it spells
    """Yes, no, or a dash for what was not tried."""
    return "-" if value is None else "yes" if value else "no"

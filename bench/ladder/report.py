"""The rows of the ladder: as JSON, and as a table for people. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

SECTION = "ladder"


@dataclass(frozen=True, slots=True)
class Row:
    """What one design came to under one workload.

    Fields:
        name: Of the design.
        workload: Which.
        rates: Events per second, one for each run; also of runs whose counts are wrong, as most designs' are.
        events: How many were counted when `off_by` was found.
        off_by: By how many likes and dislikes the counts differed from the truth although nothing had failed, over all
            contents; None if no run came to an end.
        unexplained: By how many they differed from what the design's own rules give.
        false_positives: Likes and dislikes that were dropped because a filter took them for seen; None without filter.
        lost_on_kill: Likes and dislikes too few after kill -9 and a restart, against what the design would have
            counted without; None if that was not tried.
        gained_on_kill: As many too many.
        writes_per_event: Commands or mutations that change the stores, as these count them, for each event.
        redis_bytes_per_event: Growth of Redis's append-only file for each event; None where Redis is not the record.
        reads_per_count: Rows or keys that a reader fetches for one number.
        staleness_median_s: From handing an event to the producer until a reader sees it, at a modest rate.
        staleness_max_s: The longest of these.
        notes: What a reader should know.
        durable: Whether the counts outlive the design's processes.
        stores: Whether they are in a store that can be queried.
    """

    name: str
    workload: str
    rates: tuple[float, ...]
    events: int
    off_by: int | None
    unexplained: int | None
    false_positives: int | None
    lost_on_kill: int | None
    gained_on_kill: int | None
    writes_per_event: float | None
    redis_bytes_per_event: float | None
    reads_per_count: int
    staleness_median_s: float | None
    staleness_max_s: float | None
    notes: str
    durable: bool = True
    stores: bool = True

    @property
    def exact(self) -> bool:
        """Whether every count was true, without a failure."""
        return self.off_by == 0

    @property
    def survives_kill(self) -> bool | None:
        """Whether the kill changed no count; it does not make wrong counts right. None if that was not tried."""
        if self.lost_on_kill is None or self.gained_on_kill is None:
            return None
        return self.lost_on_kill == self.gained_on_kill == 0

    def as_json(self) -> dict[str, object]:
        """For a file."""
        rates = [round(rate, 1) for rate in self.rates]
        return {
            "section": SECTION,
            "name": self.name,
            "workload": self.workload,
            "events_per_s": round(median(self.rates), 1) if rates else None,
            "min": min(rates, default=None),
            "max": max(rates, default=None),
            "runs": len(rates),
            "durable": self.durable,
            "stores": self.stores,
            "exact": self.exact,
            "survives_kill": self.survives_kill,
            "events": self.events,
            "off_by": self.off_by,
            "unexplained": self.unexplained,
            "false_positives": self.false_positives,
            "lost_on_kill": self.lost_on_kill,
            "gained_on_kill": self.gained_on_kill,
            "writes_per_event": _rounded(self.writes_per_event),
            "redis_bytes_per_event": _rounded(self.redis_bytes_per_event),
            "reads_per_count": self.reads_per_count,
            "staleness_median_s": _rounded(self.staleness_median_s),
            "staleness_max_s": _rounded(self.staleness_max_s),
            "notes": self.notes,
        }


_COLUMNS = (
    ("events/s", 9),
    ("min", 9),
    ("max", 9),
    ("writes", 7),
    ("reads", 5),
    ("stale s", 7),
    ("max", 6),
    ("off by", 9),
    ("of", 9),
    ("false+", 6),
    ("lost", 6),
    ("gained", 6),
)


def table(rows: Sequence[Row]) -> str:
    """Rows for a terminal, one block for each workload, in the order given.

    `writes` are for each event, `reads` for each number; `off by` is without a failure, after `of` events; `lost` and
    `gained` are by one kill.
    """
    head = " ".join(f"{title:>{width}}" for title, width in _COLUMNS)
    blocks = []
    for workload in dict.fromkeys(row.workload for row in rows):
        lines = [_line(row) for row in rows if row.workload == workload]
        blocks.append("\n".join([f"{workload:<20} {head}", *lines]))
    return "\n\n".join(blocks)


def _line(row: Row) -> str:
    rates = (median(row.rates), min(row.rates), max(row.rates)) if row.rates else (None, None, None)
    figures = (
        *(_figure(rate, 0) for rate in rates),
        _figure(row.writes_per_event, 2),
        _figure(row.reads_per_count, 0),
        _figure(row.staleness_median_s, 2),
        _figure(row.staleness_max_s, 2),
        _figure(row.off_by, 0),
        _figure(row.events, 0),
        _figure(row.false_positives, 0),
        _figure(row.lost_on_kill, 0),
        _figure(row.gained_on_kill, 0),
    )
    shown = (f"{figure:>{width}}" for figure, (_, width) in zip(figures, _COLUMNS, strict=True))
    return f"{row.name:<20} {' '.join(shown)}"


def _figure(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)

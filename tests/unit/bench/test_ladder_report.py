from __future__ import annotations

import json

from bench.ladder.report import Row, table


def row(**changes: object) -> Row:
    fields: dict[str, object] = {
        "name": "redis_incr",
        "workload": "hot key",
        "rates": (1_000.04, 3_000.0, 2_000.0),
        "events": 600_000,
        "off_by": 1_234,
        "unexplained": 0,
        "false_positives": None,
        "lost_on_kill": 0,
        "gained_on_kill": 7,
        "writes_per_event": 1.000_04,
        "redis_bytes_per_event": 33.0,
        "reads_per_count": 1,
        "staleness_median_s": 0.06,
        "staleness_max_s": 0.21,
        "notes": "said",
    }
    return Row(**{**fields, **changes})  # type: ignore[arg-type]


def test_json_has_what_a_report_needs() -> None:
    assert json.loads(json.dumps(row().as_json())) == {
        "section": "ladder",
        "name": "redis_incr",
        "workload": "hot key",
        "events_per_s": 2_000.0,
        "min": 1_000.0,
        "max": 3_000.0,
        "runs": 3,
        "durable": True,
        "stores": True,
        "exact": False,
        "survives_kill": False,
        "events": 600_000,
        "off_by": 1_234,
        "unexplained": 0,
        "false_positives": None,
        "lost_on_kill": 0,
        "gained_on_kill": 7,
        "writes_per_event": 1.0,
        "redis_bytes_per_event": 33.0,
        "reads_per_count": 1,
        "staleness_median_s": 0.06,
        "staleness_max_s": 0.21,
        "notes": "said",
    }


def test_only_counts_without_any_difference_are_exact() -> None:
    assert row(off_by=0).exact
    assert not row(off_by=1).exact
    assert not row(off_by=None).exact


def test_a_kill_is_survived_if_nothing_is_lost_and_nothing_gained() -> None:
    assert row(lost_on_kill=0, gained_on_kill=0).survives_kill is True
    assert row(lost_on_kill=1, gained_on_kill=0).survives_kill is False
    assert row(lost_on_kill=0, gained_on_kill=1).survives_kill is False
    assert row(lost_on_kill=None, gained_on_kill=None).survives_kill is None


def test_without_a_run_there_are_no_figures() -> None:
    shown = row(rates=(), off_by=None, writes_per_event=None, staleness_median_s=None).as_json()
    assert (shown["events_per_s"], shown["min"], shown["max"], shown["runs"]) == (None, None, None, 0)
    assert (shown["exact"], shown["writes_per_event"], shown["staleness_median_s"]) == (False, None, None)


def test_a_table_has_a_block_for_each_workload_and_dashes_for_what_was_not_tried() -> None:
    rows = [row(), row(name="set_incr", workload="spread keys", lost_on_kill=None), row(name="other")]
    first, second = table(rows).split("\n\n")
    assert [line.split()[0] for line in first.splitlines()[1:]] == ["redis_incr", "other"]
    assert second.splitlines()[0].startswith("spread keys")
    figures = "2,000 1,000 3,000 1.00 1 0.06 0.21 1,234 600,000 - - 7"
    assert second.splitlines()[1].split() == ["set_incr", *figures.split()]

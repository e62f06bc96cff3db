from __future__ import annotations

import json

from bench.report import Row, table


def row(**changes: object) -> Row:
    fields: dict[str, object] = {
        "section": "peers",
        "name": "peer",
        "workload": "Zipf",
        "rates": (1_000.04, 3_000.0, 2_000.0),
        "durable": True,
        "stores": False,
        "exact": True,
        "survives_kill": True,
        "off_by": 0,
        "notes": "said",
    }
    return Row(**{**fields, **changes})  # type: ignore[arg-type]


def test_json_has_the_median_and_the_extremes() -> None:
    assert json.loads(json.dumps(row(more={"cost_us": 2.5}).as_json())) == {
        "section": "peers",
        "name": "peer",
        "workload": "Zipf",
        "events_per_s": 2_000.0,
        "min": 1_000.0,
        "max": 3_000.0,
        "runs": 3,
        "durable": True,
        "stores": False,
        "exact": True,
        "survives_kill": True,
        "off_by": 0,
        "notes": "said",
        "cost_us": 2.5,
    }


def test_without_an_exact_run_there_is_no_figure() -> None:
    shown = row(rates=(), exact=False, survives_kill=None, off_by=None).as_json()
    assert (shown["events_per_s"], shown["min"], shown["max"], shown["runs"]) == (None, None, None, 0)
    assert shown["survives_kill"] is None


def test_a_table_has_the_fastest_first_and_dashes_for_what_was_not_tried() -> None:
    lines = table([row(name="slow", rates=(5.0,), survives_kill=None, off_by=None), row(name="fast")]).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["fast", "slow"]
    assert lines[1].split()[1:] == ["2,000", "1,000", "3,000", "yes", "yes", "0"]
    assert lines[2].split()[1:] == ["5", "5", "5", "yes", "-", "-"]

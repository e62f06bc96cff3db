from __future__ import annotations

from typing import Any

from bench.page import page, steps

MACHINE = {
    "cores": 2,
    "memory_gib": 24,
    "processor": "some processor",
    "python": "3.11.7",
    "apache_flink": "2.3.0",
    "commit": "abc1234",
}


def row(section: str, name: str, rate: float | None, **more: object) -> dict[str, Any]:
    return {
        "section": section,
        "name": name,
        "workload": "Zipf",
        "events_per_s": rate,
        "min": rate,
        "max": rate,
        "runs": 3,
        "durable": True,
        "stores": False,
        "exact": True,
        "survives_kill": None,
        "off_by": None,
        "notes": "",
        "measured_on": MACHINE,
        **more,
    }


LIMITS = [row("limits", "raw", 500_000.0), row("limits", "parse", 250_000.0), row("limits", "publish", 50_000.0)]


def test_a_step_costs_what_it_adds_to_the_time_between_two_events() -> None:
    assert steps(LIMITS) == [("read", 2.0), ("validate", 2.0), ("publish", 16.0)]


def test_steps_that_were_not_measured_are_left_out() -> None:
    assert steps([row("limits", "raw", None), *LIMITS[1:]]) == [("validate", 4.0), ("publish", 16.0)]


def test_targets_are_compared_with_what_was_measured() -> None:
    shown = page(LIMITS)
    assert "| durable, without the stores | 50,000 events/s | 100,000 events/s | no |" in shown
    assert "| over reading and validating alone | 0.20 | 0.35 | no |" in shown


def test_a_peer_without_a_figure_is_shown_and_never_the_best() -> None:
    peers = [
        row("peers", "likes_counter", 60_000.0, survives_kill=True, off_by=0),
        row("peers", "pathway", 20_000.0, survives_kill=True, off_by=0),
        row("peers", "faust", None, exact=False, survives_kill=False, off_by=939, notes="wrong by 1"),
    ]
    shown = page(peers)
    assert "| over the best peer (Pathway) | 3.00 | 2.00 | yes |" in shown
    assert "| Faust-streaming | - | - | - | no | no | 939 |" in shown


def test_state_is_compared_from_the_smallest_to_the_largest() -> None:
    sizes = [
        row("state", "dedup and count", rate, registers=registers, bytes_per_register=30.4)
        for registers, rate in ((1e6, 100_000.0), (1e7, 90_000.0), (5e7, 80_000.0))
    ]
    shown = page(sizes)
    assert "| dedup at 50 M registers, over 1 M | 0.80 | 0.70 | yes |" in shown
    assert "30 bytes per register" in shown


def test_a_page_names_machine_commit_and_what_was_measured_there() -> None:
    assert "- 2 cores (some processor), 24 GiB; Python 3.11.7, apache-flink 2.3.0; commit abc1234: limits" in page(
        LIMITS
    )


def test_sections_that_were_not_measured_are_not_on_the_page() -> None:
    assert "## Limits" in page(LIMITS)
    assert "## Peers" not in page(LIMITS)
    assert "## Targets" not in page([])


def test_serving_is_held_against_its_targets_where_it_is_quick_enough() -> None:
    rows = [
        row("serving", "counts of 21", 900.0, workload="1 connections", p50_ms=1.0, p99_ms=3.0, over_bare=0.3),
        row("serving", "counts of 21", 1_200.0, workload="8 connections", p50_ms=6.0, p99_ms=20.0, over_bare=0.4),
        row("serving", "counts of 21", 1_500.0, workload="32 connections", p50_ms=20.0, p99_ms=40.0, over_bare=0.5),
        row("serving", "taps", 900.0, workload="8 connections", p50_ms=9.0, p99_ms=30.0),
    ]
    shown = page(rows)
    assert "| pages of 21 counts, p99 under 25 ms | 1,200 a second | 1,000 a second | yes |" in shown
    assert "| taps acknowledged by Kafka | 900 a second | 1,500 a second | no |" in shown
    assert "| counts of 21 | 32 connections | 1,500 | 1,500 to 1,500 | 20.0 | 40.0 | 0.50 |" in shown

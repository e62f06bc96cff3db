from __future__ import annotations

import argparse

import pytest

from bench.__main__ import with_rows
from bench.check import assert_exact
from bench.harness import at_least


def row(name: str, rate: int, section: str = "peers") -> dict[str, object]:
    return {"section": section, "name": name, "workload": "Zipf", "events_per_s": rate}


def test_new_rows_take_the_places_of_old_ones_and_no_others() -> None:
    rows = [row("a", 1), row("b", 1), row("a", 1, "skew")]
    assert with_rows(rows, [row("b", 2), row("c", 2)]) == [row("a", 1), row("b", 2), row("a", 1, "skew"), row("c", 2)]


def test_no_runs_are_no_runs() -> None:
    assert at_least(1)("3") == 3
    with pytest.raises(argparse.ArgumentTypeError):
        at_least(1)("0")


def test_a_wrong_count_is_never_exact() -> None:
    assert_exact({"a": (2, 0)}, {"a": (2, 0), "gone": (0, 0)})
    with pytest.raises(AssertionError, match="1 contents are wrong"):
        assert_exact({"a": (1, 0)}, {"a": (2, 0)})

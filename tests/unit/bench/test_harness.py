from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from bench.guard import Ratio
from bench.harness import names_of, save


def test_names_are_taken_from_the_list_alone() -> None:
    parse = names_of(("quix", "faust"))
    assert parse("faust,quix") == ["faust", "quix"]
    with pytest.raises(argparse.ArgumentTypeError, match="flink is none of quix, faust"):
        parse("quix,flink")


def test_rows_replace_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    save(path, [{"a": 1}, {"a": 2}])
    save(path, [{"a": 3}])
    assert json.loads(path.read_text(encoding="utf-8")) == [{"a": 3}]
    assert list(tmp_path.iterdir()) == [path]


def test_a_ratio_holds_from_its_floor_on() -> None:
    assert Ratio("counting over validating", 0.12, 0.12).holds
    assert not Ratio("counting over validating", 0.119, 0.12).holds

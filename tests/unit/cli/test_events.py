"""`likes events` as far as it goes without a broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.main import invoke

END = ["--end", "1767229200000"]


@pytest.fixture(autouse=True)
def _no_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKES_STACK_DIR", str(tmp_path / "stack"))


def test_a_sample_can_be_written_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "events.jsonl"
    arguments = ["events", "sample", "--events", "300", "--contents", "5", *END, "--output", str(file)]
    assert invoke(arguments, debug=False) == 0
    assert capsys.readouterr().out == f"wrote 300 events to {file}\n"
    events = [json.loads(line) for line in file.read_bytes().splitlines()]
    assert len(events) == 300
    assert {event["content_id"] for event in events} == {"v1", "v2", "v3", "v4", "v5"}
    assert file.read_bytes().endswith(b"\n")

    again = tmp_path / "again.jsonl"
    assert invoke([*arguments[:-1], str(again), "--json"], debug=False) == 0
    assert json.loads(capsys.readouterr().out) == {"written": 300, "output": str(again)}
    assert again.read_bytes() == file.read_bytes()


def test_a_sample_on_stdout_has_nothing_else_there(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert invoke(["events", "sample", "--events", "20", *END, "--output", "-", "--json"], debug=False) == 0
    captured = capsysbinary.readouterr()
    assert [set(json.loads(line)) for line in captured.out.splitlines()] == [
        {"content_id", "user_id", "action", "event_time", "region"}
    ] * 20
    assert json.loads(captured.err) == {"written": 20, "output": "-"}


def test_regions_are_those_of_the_settings(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIKES_EVENTS_REGIONS", "north,south")
    monkeypatch.setenv("LIKES_EVENTS_HOME_REGION", "south")
    assert invoke(["events", "sample", "--events", "100", *END, "--output", "-"], debug=False) == 0
    lines = capsysbinary.readouterr().out.splitlines()
    assert {json.loads(line)["region"] for line in lines} == {"north", "south"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rate", "10", *END], "--end makes no sense"),
        (["--toggles", "0.6", "--duplicates", "0.6"], "together must be at most 1"),
        (["--late", "1.5"], "--late"),
        (["--events", "0"], "--events"),
    ],
)
def test_impossible_samples_are_wrong_usage(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["events", "sample", *arguments], debug=False) == 2
    assert said in capsys.readouterr().err


def test_movielens_without_an_index_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIKES_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    assert invoke(["events", "movielens", "--output", "-"], debug=False) == 5
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1].startswith("error: recbole==1.2.1 cannot be downloaded: ")

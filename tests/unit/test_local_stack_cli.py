"""`likes stack` and the frame around every verb, without services."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import typer

from cli import main
from cli.main import VERBS, Verb, invoke
from pipelines.errors import JobFailed
from tests.support import CLI, ROOT


@pytest.fixture(autouse=True)
def _no_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKES_STACK_DIR", str(tmp_path / "stack"))


def test_env_without_a_stack_is_one_line_and_exit_code_5(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["stack", "env"], debug=False) == 5
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: no stack is running in ")
    assert captured.err.endswith("run `likes stack up`\n")
    assert captured.err.count("\n") == 1


def test_status_without_a_stack_says_so_in_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["stack", "status", "--json"], debug=False) == 5
    shown = json.loads(capsys.readouterr().out)
    assert shown["up"] is False
    assert [(service["name"], service["up"]) for service in shown["services"]] == [
        ("cassandra", False),
        ("kafka", False),
        ("redis", False),
    ]


def test_down_without_a_stack_is_fine(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["stack", "down"], debug=False) == 0
    assert "nothing was running" in capsys.readouterr().err


def test_wrong_usage_is_exit_code_2_with_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["stack", "en"], debug=False) == 2
    assert "Did you mean 'env'?" in capsys.readouterr().err


def test_every_verb_is_in_the_help_with_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["--help"], debug=False) == 0
    shown = capsys.readouterr().out
    assert all(verb.name in shown for verb in VERBS)
    assert "Exit codes" in shown


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["--version"], debug=False) == 0
    assert capsys.readouterr().out.startswith("likes ")


def test_a_single_verb_is_a_function(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def shout(words: list[str]) -> None:
        typer.echo(" ".join(words).upper())

    _only_verb(monkeypatch, shout)
    assert invoke(["thing", "a", "b"], debug=False) == 0
    assert capsys.readouterr().out == "A B\n"


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (JobFailed("the job failed:\nno disk", "free some"), 7, "error: the job failed: no disk; free some\n"),
        (ValueError("odd"), 1, "error: this is a bug: ValueError: odd; --debug shows the trace\n"),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(32, "Broken pipe"), 1, ""),
        (typer.Exit(4), 4, ""),
    ],
)
def test_errors_are_one_line_and_a_code(
    error: BaseException,
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        raise error

    _only_verb(monkeypatch, fail)
    assert invoke(["thing"], debug=False) == code
    assert capsys.readouterr().err == line


@pytest.mark.parametrize("arguments", [["--debug", "stack", "env"], ["stack", "env", "--debug"]])
def test_debug_shows_the_trace_wherever_it_stands(arguments: list[str]) -> None:
    done = subprocess.run([*CLI, *arguments], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 5
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: no stack is running")


def test_a_reader_that_goes_away_is_no_bug() -> None:
    done = subprocess.run(
        ["bash", "-c", '"$@" | true; echo "${PIPESTATUS[0]}"', "-", *CLI, "--help"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert "Traceback" not in done.stderr
    assert "bug" not in done.stderr


def _only_verb(monkeypatch: pytest.MonkeyPatch, target: object) -> None:
    monkeypatch.setattr(main, "VERBS", (Verb("thing", "cli.main:made_for_this_test", "A thing."),))
    monkeypatch.setattr(main, "made_for_this_test", target, raising=False)

"""`likes demo` as far as it goes without services."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from cli.demo.interrupts import Interrupts
from cli.demo.job import last_useful_line
from cli.demo.replay import sample_log
from cli.demo.services import environment
from cli.main import invoke
from deploy.flink.local_stack import Stack
from pipelines.settings import Settings


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_interrupts_and_the_next_ones_do_not(number: signal.Signals) -> None:
    outside = signal.signal(number, signal.SIG_DFL)  # it may be ignored, as under nohup
    try:
        with Interrupts():
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)
            signal.raise_signal(number)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, outside)


def test_nothing_interrupts_an_end_that_has_begun() -> None:
    with Interrupts() as interrupts:
        interrupts.ignore()
        signal.raise_signal(signal.SIGTERM)


def test_the_last_useful_line_is_the_last_error_else_no_stack_frame() -> None:
    trace = "java.lang.Error: why\n\tat a.b(C.java:1)\n\t... 3 more\n\n"
    assert last_useful_line(f"UI http\nerror: refused; do this\n{trace}") == "refused; do this"
    assert last_useful_line(f"UI http\n{trace}") == "java.lang.Error: why"
    assert last_useful_line("\n\n") == "its log is empty"


def test_services_are_those_of_the_stack_whatever_the_environment_says(tmp_path: Path) -> None:
    stack = Stack(tmp_path)
    ambient = {
        "KAFKA_BOOTSTRAP": "production:9092",
        "LIKES_CASSANDRA_HOSTS": "production",
        "LIKES_REDIS_URL": "redis://production",
        "LIKES_JOB_WINDOW_MS": "1000",
        "PATH": "/bin",
    }
    found = environment(stack, ambient)
    assert "TieredStopAtLevel" in found.pop("JVM_ARGS")
    assert found == {**stack.env(), "LIKES_STACK_DIR": str(tmp_path), "LIKES_JOB_WINDOW_MS": "1000", "PATH": "/bin"}
    assert environment(stack, {"JVM_ARGS": "-Xmx1g"})["JVM_ARGS"] == "-Xmx1g"


def test_a_sample_ends_now_or_begins_now() -> None:
    flood = sample_log(Settings(), events=10, rate=0)
    assert flood.speed == 0
    assert [line.due_ms for line in flood.lines(4_000_000)][-1] == 4_000_000
    paced = sample_log(Settings(), events=10, rate=5)
    due = [line.due_ms for line in paced.lines(4_000_000)]
    assert paced.speed == 1
    assert (due[0], due[-1]) == (4_000_200, 4_002_000)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rate", "10"], "goes with --sample"),
        (["--sample", "--speed", "10"], "--rate"),
        (["--events", "0"], "--events"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["demo", *arguments], debug=False) == 2
    assert said in capsys.readouterr().err


def test_a_wrong_setting_is_said_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LIKES_STACK_DIR", str(tmp_path / "stack"))
    monkeypatch.setenv("LIKES_JOB_WINDOW", "1")
    assert invoke(["demo"], debug=False) == 4
    assert "setting job.window" in capsys.readouterr().err
    assert not (tmp_path / "stack").exists()

from __future__ import annotations

import pytest

from cli.progress import Tally


def test_a_log_gets_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = iter([0.0, 1.0, 5.0, 6.0, 10.5])
    with Tally("sent events", 1_000, clock=lambda: next(seconds)) as tally:
        for count in (10, 50, 60, 100):
            tally.at(count)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "sent events: 50 of 1000\nsent events: 100 of 1000\n"


def test_what_has_no_known_end_is_counted_too(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = iter([0.0, 1.0, 7.0, 8.0])
    with Tally("read records", clock=lambda: next(seconds)) as tally:
        assert list(tally.over("abc")) == ["a", "b", "c"]
    assert capsys.readouterr().err == "read records: 1\n"

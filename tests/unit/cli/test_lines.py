from __future__ import annotations

import io
from pathlib import Path

import pytest

from cli.lines import Line, opened_input, opened_output, read_lines
from pipelines.errors import BadInput


def test_only_the_line_feed_is_taken_off() -> None:
    stream = io.BytesIO(b"one\r\n\n\xff\x00\x0b\x1c two\n\r\nlast")
    assert list(read_lines(stream, 100)) == [
        Line(1, 4, b"one\r"),
        Line(2, 0, b""),
        Line(3, 8, b"\xff\x00\x0b\x1c two"),
        Line(4, 1, b"\r"),
        Line(5, 4, b"last"),
    ]


def test_a_line_feed_at_the_end_begins_no_line() -> None:
    assert list(read_lines(io.BytesIO(b"one\n"), 100)) == [Line(1, 3, b"one")]
    assert list(read_lines(io.BytesIO(b"one\n\n"), 100)) == [Line(1, 3, b"one"), Line(2, 0, b"")]
    assert list(read_lines(io.BytesIO(b""), 100)) == []


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_longer_line_is_measured_and_the_next_is_read(end: bytes) -> None:
    stream = io.BytesIO(b"x" * 5 + b"\n" + b"y" * 6 + b"\n" + b"z" * 3_000_000 + end)
    assert list(read_lines(stream, 5)) == [Line(1, 5, b"xxxxx"), Line(2, 6, None), Line(3, 3_000_000, None)]


def test_a_longer_line_in_the_middle_costs_no_other() -> None:
    stream = io.BytesIO(b"z" * 10 + b"\nnext")
    assert list(read_lines(stream, 5)) == [Line(1, 10, None), Line(2, 4, b"next")]


def test_files_that_cannot_be_opened_are_bad_input(tmp_path: Path) -> None:
    with (
        pytest.raises(BadInput, match=r"nowhere\.jsonl cannot be read: No such file"),
        opened_input(str(tmp_path / "nowhere.jsonl")),
    ):
        pass
    with pytest.raises(BadInput, match="cannot be written: Is a directory"), opened_output(str(tmp_path)):
        pass

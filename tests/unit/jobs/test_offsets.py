from __future__ import annotations

import pytest

from pipelines.errors import BadInput
from pipelines.jobs.offsets import Position, parse_position


@pytest.mark.parametrize("text", ["earliest", "latest", "committed", "timestamp:1700000000000", "offsets:0=5,1=0"])
def test_a_position_reads_as_it_prints(text: str) -> None:
    assert str(parse_position(text)) == text


def test_offsets_are_by_partition() -> None:
    assert parse_position("offsets:1=20,0=5") == Position("offsets", offsets={0: 5, 1: 20})


@pytest.mark.parametrize(
    "text",
    ["", "newest", "earliest:", "latest:1", "timestamp:", "timestamp:-1", "timestamp:1.5", "offsets:", "offsets:0",
     "offsets:0=", "offsets:0=1,0=2", "offsets:0=1,", "offsets:a=1", "offsets:0=\uff11"],
)  # fmt: skip
def test_anything_else_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(BadInput, match="is not a position in the log; use earliest"):
        parse_position(text)

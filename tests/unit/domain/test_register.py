import pytest

from pipelines.domain import register as registers
from pipelines.domain.bounds import PartOverflow
from pipelines.domain.register import EMPTY, Reaction, Register, merge, pack, unpack


def test_layout() -> None:
    assert pack(1, Reaction.LIKE, 0) == 0x110000
    assert pack(0, Reaction.NONE, 0xFFFF) == 0x3FFFF
    assert pack((1 << 43) - 1, Reaction.NONE, 0xFFFF) == ((1 << 43) - 1) << 20 | 0x3FFFF < 1 << 63


def test_unpack_gives_back_the_parts() -> None:
    packed = pack(1_767_225_600_000, Reaction.DISLIKE, 7)
    assert unpack(packed) == Register(1_767_225_600_000, Reaction.DISLIKE, 7)
    assert (registers.time_of(packed), registers.reaction_of(packed), registers.region_of(packed)) == unpack(packed)


def test_on_equal_times_none_beats_dislike_beats_like_then_the_region_decides() -> None:
    order = [(Reaction.LIKE, 0), (Reaction.LIKE, 9), (Reaction.DISLIKE, 0), (Reaction.NONE, 0), (Reaction.NONE, 1)]
    packed = [pack(5, reaction, region) for reaction, region in order]
    assert packed == sorted(packed)
    assert merge(packed[0], packed[3]) == packed[3]


@pytest.mark.parametrize(
    ("event_time_ms", "region", "named"),
    [(1 << 43, 0, "event_time_ms"), (-1, 0, "event_time_ms"), (0, 1 << 16, "region"), (0, -1, "region")],
)
def test_a_part_that_does_not_fit_is_an_error_by_name(event_time_ms: int, region: int, named: str) -> None:
    with pytest.raises(PartOverflow, match=f"^{named} "):
        pack(event_time_ms, Reaction.LIKE, region)


@pytest.mark.parametrize("packed", [-1, 1 << 63])
def test_unpack_refuses_what_no_register_is(packed: int) -> None:
    with pytest.raises(PartOverflow, match=r"^register "):
        unpack(packed)


def test_empty_is_below_every_register_and_is_none() -> None:
    assert pack(0, Reaction.LIKE, 0) > EMPTY
    with pytest.raises(ValueError, match="not a valid Reaction"):
        unpack(EMPTY)

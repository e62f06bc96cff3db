import pytest

from pipelines.domain.bounds import PartOverflow
from pipelines.domain.version import Version


def test_layout() -> None:
    assert Version(1, 0, 0).pack() == 1 << 54
    assert Version(0, 1, 0).pack() == 1 << 33
    assert Version(511, (1 << 21) - 1, (1 << 33) - 1).pack() == (1 << 63) - 1


def test_generation_outranks_epoch_outranks_changes() -> None:
    ordered = [Version(1, 1, 9), Version(1, 2, 0), Version(1, 2, 1), Version(2, 0, 0)]
    assert [version.pack() for version in ordered] == sorted(version.pack() for version in ordered)
    assert [Version.unpack(version.pack()) for version in ordered] == ordered


@pytest.mark.parametrize(
    ("version", "named"),
    [
        (Version(512, 0, 0), "generation"),
        (Version(0, 1 << 21, 0), "epoch"),
        (Version(0, 0, 1 << 33), "changes"),
        (Version(0, 0, -1), "changes"),
    ],
)
def test_a_part_that_does_not_fit_is_an_error_by_name(version: Version, named: str) -> None:
    with pytest.raises(PartOverflow, match=f"^{named} "):
        version.pack()


@pytest.mark.parametrize("packed", [-1, 1 << 63])
def test_unpack_refuses_what_no_version_is(packed: int) -> None:
    with pytest.raises(PartOverflow, match=r"^version "):
        Version.unpack(packed)


def test_versions_of_every_generation_outrank_a_wall_clock_in_microseconds() -> None:
    year_2500_us = 16_725_225_600 * 1_000_000
    assert Version(1, 0, 0).pack() > year_2500_us

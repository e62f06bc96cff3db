"""Event lists in which everything that matters collides: few contents, users, times and regions."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from hypothesis import strategies as st

from pipelines.domain.events import LikeEvent, Rules
from pipelines.domain.register import Reaction, pack

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

RULES = Rules(regions=("us", "eu", "ap"), home_region="us")
FIRST_MS = 1_767_225_600_000


def registers(times: int = 5) -> st.SearchStrategy[int]:
    """Packed registers with few different times, so that equal times are common."""
    return st.builds(
        pack,
        st.integers(FIRST_MS, FIRST_MS + times - 1),
        st.sampled_from(Reaction),
        st.integers(0, len(RULES.regions) - 1),
    )


def events(times: int = 5, contents: int = 2) -> st.SearchStrategy[LikeEvent]:
    """Events of few contents and three users."""
    return st.builds(
        LikeEvent, st.integers(1, contents).map("v{}".format), st.sampled_from(("u1", "u2", "u3")), registers(times)
    )


@st.composite
def cuts(draw: st.DrawFn, items: Sequence[T]) -> list[Sequence[T]]:
    """The items in their order, cut into bundles at random places."""
    at = sorted(draw(st.lists(st.integers(0, len(items)), max_size=6)))
    return [items[start:end] for start, end in zip([0, *at], [*at, len(items)], strict=True)]

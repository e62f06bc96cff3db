from __future__ import annotations

import pytest

from bench.difference import Difference, difference
from bench.ladder.bloom import Size, size_for
from bench.ladder.reference import Filtered, Increments, Members, Reference, continued
from bench.ladder.taps import Tap, tap_of

LARGE = size_for(1_000, 0.000_001)


def tapped(reference: Reference, *taps: tuple[str, str], content: str = "v", partition: int = 0) -> tuple[int, int]:
    for user, action in taps:
        reference.take(Tap(content, user, action, partition))
    return reference.counts()[content]


def test_increments_believe_every_tap() -> None:
    assert tapped(Increments(), ("a", "LIKE"), ("a", "LIKE"), ("b", "DISLIKE"), ("c", "UNDISLIKE")) == (2, 0)
    assert tapped(Increments(), ("a", "UNLIKE")) == (-1, 0)


def test_members_count_each_user_once_and_in_one_set() -> None:
    assert tapped(Members(), ("a", "LIKE"), ("a", "LIKE"), ("b", "LIKE")) == (2, 0)
    assert tapped(Members(), ("a", "LIKE"), ("a", "DISLIKE")) == (0, 1)
    assert tapped(Members(), ("a", "DISLIKE"), ("a", "UNLIKE"), ("a", "UNLIKE")) == (0, 0)
    assert tapped(Members(), ("a", "LIKE"), ("a", "UNLIKE"), ("a", "LIKE")) == (1, 0)


def test_a_filter_drops_repeats_but_cannot_forget() -> None:
    assert tapped(Filtered(LARGE), ("a", "LIKE"), ("a", "LIKE"), ("b", "LIKE")) == (2, 0)
    assert tapped(Filtered(LARGE), ("b", "LIKE"), ("a", "UNLIKE")) == (1, 0)
    again = Filtered(LARGE)
    assert tapped(again, ("a", "LIKE"), ("a", "UNLIKE"), ("a", "LIKE")) == (0, 0)
    assert again.false_positives == 0


def test_a_full_filter_has_false_positives_and_they_are_counted_by_partition() -> None:
    tiny = Filtered(Size(bits=1, hashes=1))
    assert tapped(tiny, ("a", "LIKE"), ("b", "LIKE"), ("b", "LIKE"), ("c", "DISLIKE")) == (1, 0)
    assert tiny.false_positives == 2
    assert tapped(tiny, ("a", "LIKE"), content="w", partition=1) == (1, 0)
    assert tiny.false_positives == 2


def test_a_difference_keeps_too_few_and_too_many_apart() -> None:
    counted = {"a": (1, 5), "gone": (0, 0), "extra": (0, 2)}
    expected = {"a": (4, 3), "missing": (1, 0)}
    assert difference(counted, expected) == Difference(lost=3 + 1, gained=2 + 2)
    assert difference(counted, expected).total == 8
    assert difference(expected, counted) == Difference(lost=4, gained=4)


def test_negative_counts_are_differences_too() -> None:
    assert difference({"a": (-2, 0)}, {"a": (1, 0)}) == Difference(lost=3, gained=0)


def test_a_kill_is_only_charged_with_what_went_wrong_after_it() -> None:
    counted = {"a": (7, 0)}  # two too few before
    expected = continued(counted, before={"a": (9, 0)}, after={"a": (12, 1), "b": (1, 0)})
    assert expected == {"a": (10, 1), "b": (1, 0)}
    assert difference({"a": (9, 1), "b": (2, 0)}, expected) == Difference(lost=1, gained=1)


@pytest.mark.parametrize(
    "value", [b"", b"[1]", b'{"content_id":"v"}', b'{"content_id":1,"user_id":"u","action":"LIKE"}']
)
def test_what_is_no_event_is_no_tap(value: bytes) -> None:
    assert tap_of(value, 0) is None


def test_an_unknown_action_is_no_tap() -> None:
    event = b'{"content_id":"v","user_id":"u","action":"%s"}'
    assert tap_of(event % b"LIKE", 3) == Tap("v", "u", "LIKE", 3)
    assert tap_of(event % b"LOVE", 3) is None

from __future__ import annotations

import json

import pytest

from bench.peers.log import primer, primer_truth
from bench.peers.run import FIRST_KILL, Outcome, off_by, second_kill, share_of


def test_equal_counts_are_off_by_nothing_and_absent_is_zero() -> None:
    assert off_by({"a": (2, 1), "gone": (0, 0)}, {"a": (2, 1), "never": (0, 0)}) == 0


def test_differences_add_up_whatever_their_sign() -> None:
    assert off_by({"a": (3, 1), "b": (1, 0)}, {"a": (2, 2), "c": (0, 4)}) == 1 + 1 + 1 + 4


def test_a_share_is_of_all_likes_and_dislikes() -> None:
    assert share_of({"a": (1, 1)}, {"a": (2, 1), "b": (1, 0)}) == pytest.approx(0.5)
    assert share_of({}, {}) == 0.0
    assert share_of({"a": (1, 1), "primer1": (250, 0)}, {"a": (2, 1), "b": (1, 0)}) == pytest.approx(0.5)


def test_a_rate_is_events_by_seconds() -> None:
    assert Outcome(1_000, 4.0, is_exact=True, off_by=0).rate == 250.0
    assert Outcome(1_000, 0.0, is_exact=True, off_by=0).rate == 0.0


def test_the_second_kill_is_later_than_the_first() -> None:
    assert second_kill(FIRST_KILL) == 0.6
    assert second_kill(0.7) == pytest.approx(0.8)
    assert second_kill(1.0) == 0.95


@pytest.mark.parametrize("events", [400, 50_000, 60_200])
def test_the_primer_comes_to_its_truth(events: int) -> None:
    fans: dict[str, set[str]] = {}
    for line in primer(1_700_000_000_000, events):
        event = json.loads(line)
        assert event["action"] == "LIKE"
        fans.setdefault(event["content_id"], set()).add(event["user_id"])
    assert {content_id: (len(users), 0) for content_id, users in fans.items()} == primer_truth(events)

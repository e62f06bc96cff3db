"""Law: whatever is counted when, a user sees each own change exactly once, in order."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.domain.counter import PnCount
from pipelines.domain.register import Reaction
from serving.pending import UNSURE, BadToken, Pending, parse, shown

_LIKE, _DISLIKE, _NONE = Reaction.LIKE, Reaction.DISLIKE, Reaction.NONE


def pending(now: Reaction = _LIKE, before: Reaction | None = _NONE, **fields: object) -> Pending:
    made = {"likes": 10, "dislikes": 4, "offsets": {1: 7}, **fields}
    return Pending("v1", before=before, now=now, **made)  # type: ignore[arg-type]


def total(likes: int, dislikes: int = 4) -> PnCount:
    return PnCount(likes, 0, dislikes, 0)


def test_what_is_committed_is_shown_as_it_is() -> None:
    assert shown(total(31), pending(), {1: 8}) == (31, 4)


@pytest.mark.parametrize("likes", [10, 11, 31])
def test_until_then_the_total_from_before_the_tap_is_shown_with_it(likes: int) -> None:
    assert shown(total(likes), pending(), {1: 7}) == (11, 4)


def test_what_is_not_known_is_not_added() -> None:
    assert shown(total(12), pending(before=None), {1: 7}) == (12, 4)


def test_an_event_that_may_be_there_counts_as_not_counted_until_a_later_one_is() -> None:
    unsure = pending(offsets={0: UNSURE})
    assert not unsure.is_counted({0: 1 << 62})
    assert unsure.followed_by(pending(_DISLIKE, offsets={3: 9})) == pending(_DISLIKE, offsets={3: 9})


def test_changing_sides_moves_one() -> None:
    assert shown(total(10), pending(_DISLIKE, _LIKE), {}) == (9, 5)


def test_a_tap_that_is_known_nowhere_is_not_committed() -> None:
    assert not pending().is_counted({})
    assert not pending(offsets={1: 7, 2: 0}).is_counted({1: 8})
    assert pending(offsets={1: 7, 2: 0}).is_counted({1: 8, 2: 1})


def test_two_taps_are_one_change() -> None:
    both = pending().followed_by(pending(_DISLIKE, offsets={1: 9}))
    assert both == pending(_DISLIKE, offsets={1: 9})


@given(
    st.text(min_size=1, max_size=64),
    st.integers(0, 1 << 40),
    st.none() | st.sampled_from(Reaction),
    st.sampled_from(Reaction),
    st.dictionaries(st.integers(0, 999), st.integers(0, 1 << 50), max_size=4),
)
def test_a_token_comes_back_as_it_went(
    content_id: str, likes: int, before: Reaction | None, now: Reaction, offsets: dict[int, int]
) -> None:
    made = Pending(content_id, likes, 3, before, now, offsets)
    assert parse(made.token()) == made


@given(st.text(max_size=200) | st.binary(max_size=100).map(lambda raw: raw.decode("latin-1")))
def test_whatever_else_is_refused(text: str) -> None:
    with pytest.raises(BadToken):
        parse(text)


@given(st.integers(0, 1 << 30))
def test_a_user_sees_every_own_change_once_and_nothing_goes_back(seed: int) -> None:  # noqa: C901 - one story
    """A log in one partition, counted in any portions, stored before it is committed, read at any moment and then
    remembered for any time.

    Others only like, so without the user's own like what the user sees never falls, and it holds the user's reaction
    exactly once.
    """
    rng = random.Random(seed)
    log: list[tuple[str, Reaction]] = []
    counted = committed = seen_others = 0
    mine, token = _NONE, None
    remembered: tuple[PnCount, int] | None = None

    def stored() -> PnCount:
        state = dict(log[:counted])
        reactions = list(state.values())
        return PnCount(reactions.count(_LIKE), 0, reactions.count(_DISLIKE), 0)

    for number in range(rng.randint(5, 60)):
        match rng.choice(("other", "mine", "count", "commit", "read", "read", "ask")):
            case "other":
                log.append((f"o{number}", _LIKE))
            case "mine":
                reaction = rng.choice(list(Reaction))
                base = None if token is None else parse(token)
                if base is None or base.is_counted({0: committed}):
                    now = stored()
                    base = Pending("v", now.likes, now.dislikes, mine, mine)
                log.append(("me", reaction))
                mine, token = reaction, base.followed_by(replace(base, now=reaction, offsets={0: len(log) - 1})).token()
            case "count":
                counted = rng.randint(counted, len(log))
            case "commit":
                committed = counted
            case "ask":
                remembered = stored(), committed
            case _:
                total, known = remembered if remembered and rng.random() < 0.5 else (stored(), committed)
                if (total, known) == remembered and token is None:
                    continue  # without a token nobody is promised anything
                likes, dislikes = shown(total, None if token is None else parse(token), {0: known})
                assert dislikes == int(mine is _DISLIKE)
                others = likes - int(mine is _LIKE)
                assert 0 <= others <= sum(who != "me" for who, _ in log)
                if (total, known) != remembered:
                    assert others >= seen_others, "what others did is gone again"
                    seen_others = others

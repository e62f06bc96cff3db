import pytest

from pipelines.domain.bounds import SIGNED_64_MAX, PartOverflow
from pipelines.domain.counter import ZERO, Change, ContentTotal, PnCount, RegionTotal, changes, merge, summed, touches
from pipelines.domain.register import EMPTY, Reaction, pack
from pipelines.domain.version import Version

US, EU = 0, 1


def total(region: str, likes_p: int, version: int, as_of_ms: int = 0) -> RegionTotal:
    return RegionTotal("v1", region, PnCount(likes_p), version, as_of_ms)


def test_a_first_reaction_enters_its_region() -> None:
    assert list(changes(EMPTY, pack(5, Reaction.LIKE, EU))) == [Change(EU, PnCount(likes_p=1), 5)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (Reaction.LIKE, Reaction.DISLIKE, [PnCount(likes_n=1), PnCount(dislikes_p=1)]),
        (Reaction.LIKE, Reaction.LIKE, [PnCount(likes_n=1), PnCount(likes_p=1)]),
        (Reaction.DISLIKE, Reaction.NONE, [PnCount(dislikes_n=1), ZERO]),
        (Reaction.NONE, Reaction.LIKE, [ZERO, PnCount(likes_p=1)]),
    ],
)
def test_the_old_reaction_leaves_and_the_new_one_enters(old: Reaction, new: Reaction, expected: list[PnCount]) -> None:
    assert list(changes(pack(1, old, US), pack(2, new, EU))) == [Change(US, expected[0], 1), Change(EU, expected[1], 2)]


def test_an_older_or_equal_register_changes_nothing() -> None:
    like = pack(5, Reaction.LIKE, US)
    assert not list(changes(like, like))
    assert not list(changes(like, pack(4, Reaction.NONE, EU)))


def test_only_an_event_away_from_home_touches_its_region_and_home() -> None:
    assert not list(touches(pack(5, Reaction.LIKE, US), US))
    assert list(touches(pack(5, Reaction.LIKE, EU), US)) == [Change(EU, ZERO, 0), Change(US, ZERO, 0)]


def test_a_counter_goes_past_two_to_the_31st() -> None:
    count = PnCount(likes_p=2_147_483_640)
    for _ in range(20):
        count = count.plus(PnCount(likes_p=1))
    assert count.likes == 2_147_483_660


def test_a_counter_that_is_full_is_an_error_by_name() -> None:
    with pytest.raises(PartOverflow, match=r"^dislikes_n 9223372036854775808 "):
        PnCount(dislikes_n=SIGNED_64_MAX).plus(PnCount(dislikes_n=1))


def test_merge_keeps_the_newest_of_each_region_even_if_it_is_smaller() -> None:
    left = {"us": total("us", 9, version=1), "eu": total("eu", 1, version=4)}
    right = {"us": total("us", 7, version=2), "ap": total("ap", 3, version=1)}
    assert merge(left, right) == {"us": right["us"], "eu": left["eu"], "ap": right["ap"]}


def test_summed() -> None:
    assert summed([]) == ContentTotal(ZERO, 0, 0)
    assert summed([total("us", 9, 5, 70), total("eu", 1, 6, 60)]) == ContentTotal(PnCount(10), 6, 70)


def test_a_message_comes_back_as_the_total_that_it_is_of() -> None:
    sent = total("us", 9, Version(3, 2, 1).pack(), 70)
    assert RegionTotal.from_message(sent.message()) == sent


def test_message_names_the_generation() -> None:
    message = total("us", 9, Version(3, 2, 1).pack(), 70).message()
    assert message["generation"] == 3
    assert message["version"] == Version(3, 2, 1).pack()

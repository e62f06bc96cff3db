import pytest

from pipelines.domain.bounds import PartOverflow
from pipelines.domain.counter import PnCount, RegionTotal
from pipelines.domain.counting import Reactions, Record, RegionCount, State, apply, count, recount_exact, stamp
from pipelines.domain.dead_letters import DeadLetter
from pipelines.domain.events import REASONS, LikeEvent, Rules
from pipelines.domain.register import Reaction, pack
from pipelines.domain.version import Version

RULES = Rules(regions=("us", "eu", "ap"), home_region="us")
US, EU, AP = 0, 1, 2


def like(user: str, time_ms: int, region: int = US, reaction: Reaction = Reaction.LIKE) -> LikeEvent:
    return LikeEvent("v1", user, pack(time_ms, reaction, region))


def test_apply_counts_one_bundle_and_leaves_the_old_state_alone() -> None:
    before = State()
    after, changed = apply(before, [like("u1", 5), like("u2", 6)], RULES)
    assert before == State()
    assert changed == after.counts == {("v1", "us"): RegionCount(PnCount(likes_p=2), changes=2, as_of_ms=6)}
    assert after.registers == {("v1", "u1"): pack(5, Reaction.LIKE, US), ("v1", "u2"): pack(6, Reaction.LIKE, US)}


def test_taps_inside_one_bundle_merge_and_taps_in_two_do_not() -> None:
    taps = [like("u1", 1), like("u1", 2, reaction=Reaction.NONE), like("u1", 3)]
    merged, _ = apply(State(), taps, RULES)
    state = State()
    for tap in taps:
        state, _ = apply(state, [tap], RULES)
    assert merged.counts["v1", "us"] == RegionCount(PnCount(likes_p=1), changes=1, as_of_ms=3)
    assert state.counts["v1", "us"] == RegionCount(PnCount(likes_p=2, likes_n=1), changes=5, as_of_ms=3)
    assert merged.registers == state.registers


def test_a_bundle_that_changes_nothing_reports_nothing() -> None:
    state, _ = apply(State(), [like("u1", 5)], RULES)
    assert apply(state, [like("u1", 5), like("u1", 4)], RULES) == (state, {})


def test_a_user_who_moves_leaves_one_region_and_enters_the_other() -> None:
    state, _ = apply(State(), [like("u1", 1, EU)], RULES)
    state, changed = apply(state, [like("u1", 2, AP)], RULES)
    assert {region: entry.pn.likes for (_, region), entry in changed.items()} == {"eu": 0, "ap": 1, "us": 0}


def test_a_visit_that_the_bundle_merged_away_is_still_reported() -> None:
    _, changed = apply(State(), [like("u1", 1), like("u1", 2, EU), like("u1", 3, AP)], RULES)
    assert {region: entry.pn.likes for (_, region), entry in changed.items()} == {"us": 0, "eu": 0, "ap": 1}


def test_stamp_versions_the_count_and_caps_its_time() -> None:
    entry = RegionCount(PnCount(likes_p=2), changes=7, as_of_ms=900)
    stamped = stamp(("v1", "eu"), entry, generation=1, epoch=3, now_ms=500)
    assert stamped == RegionTotal("v1", "eu", PnCount(likes_p=2), Version(1, 3, 7).pack(), 500)
    assert stamp(("v1", "eu"), entry, generation=1, epoch=3, now_ms=1_000).as_of_ms == 900
    with pytest.raises(PartOverflow, match=r"^changes "):
        stamp(("v1", "eu"), RegionCount(changes=1 << 33), generation=1, epoch=3, now_ms=0)


def test_count_a_log() -> None:
    def record(offset: int, value: bytes | None) -> Record:
        return Record("like-events", 2, offset, 1_767_225_600_000, value)

    counted = count(
        [
            record(0, b'{"content_id":"v1","user_id":"u1","action":"LIKE","event_time":1767225599000}'),
            record(1, b'{"content_id":"v1","user_id":"u1","action":"UNLIKE","event_time":1767225598000}'),
            record(2, None),
            record(3, b'{"content_id":"v1","user_id":"u2","action":"DISLIKE","region":"eu"}'),
            record(4, b"\xff"),
            record(5, b'{"content_id":"v2","user_id":"u2","action":"UNDISLIKE"}'),
        ],
        RULES,
    )
    assert counted.totals == {
        ("v1", "us"): Reactions(likes=1),
        ("v1", "eu"): Reactions(dislikes=1),
        ("v2", "us"): Reactions(),
    }
    assert counted.by_content() == {"v1": Reactions(1, 1), "v2": Reactions()}
    assert counted.dead_letters == [
        DeadLetter("tombstone", REASONS["tombstone"], "like-events", 2, 2, 1_767_225_600_000, None),
        DeadLetter("not_utf8", REASONS["not_utf8"], "like-events", 2, 4, 1_767_225_600_000, b"\xff"),
    ]
    assert recount_exact(counted.registers, RULES) == counted.totals

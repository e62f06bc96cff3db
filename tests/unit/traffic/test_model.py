from __future__ import annotations

import itertools
import json
from collections import Counter

import numpy as np
import pytest

from pipelines.domain.counting import Reactions, Record, count
from pipelines.domain.events import Rules
from traffic.model import ACTIONS, BLOCK_EVENTS, Block, TrafficModel, content_name, generate, generate_blocks
from traffic.truth import truth

START_MS, END_MS = 1_767_225_600_000, 1_767_229_200_000
SMALL = TrafficModel(contents=50, users=200, regions=("us", "eu", "ap"), late_ms=5_000)


def blocks(model: TrafficModel, events: int, seed: int = 1) -> list[Block]:
    return list(generate_blocks(model, events, seed, start_ms=START_MS, end_ms=END_MS))


def lines(model: TrafficModel, events: int, seed: int = 1) -> list[bytes]:
    return [line.value for line in generate(model, events, seed, start_ms=START_MS, end_ms=END_MS)]


def test_equal_seeds_make_equal_bytes_and_others_do_not() -> None:
    assert lines(SMALL, 500, seed=7) == lines(SMALL, 500, seed=7)
    assert lines(SMALL, 500, seed=7) != lines(SMALL, 500, seed=8)


def test_the_bytes_stay_what_they_were() -> None:
    # Benchmarks compare runs by seed: a change of the model must be seen.
    assert lines(SMALL, 3) == [
        b'{"content_id":"v2","user_id":"u157","action":"DISLIKE","event_time":1767226799971,"region":"us"}',
        b'{"content_id":"v7","user_id":"u16","action":"LIKE","event_time":1767227999972,"region":"us"}',
        b'{"content_id":"v4","user_id":"u200","action":"LIKE","event_time":1767229199943,"region":"us"}',
    ]


def test_every_line_is_an_event_and_the_times_are_those_asked_for() -> None:
    generated = list(generate(SMALL, 2_000, 1, start_ms=START_MS, end_ms=END_MS))
    due = [line.due_ms for line in generated]
    assert due == sorted(due)
    assert due[0] > START_MS
    assert due[-1] == END_MS
    for line in generated:
        fields = json.loads(line.value)
        assert fields["event_time"] <= line.due_ms
        assert fields["action"] in ACTIONS
        assert fields["region"] in SMALL.regions


def test_a_log_of_several_blocks_has_every_event() -> None:
    parts = blocks(SMALL, BLOCK_EVENTS + 10)
    assert [len(part.due_ms) for part in parts] == [BLOCK_EVENTS, 10]
    due = np.concatenate([part.due_ms for part in parts])
    assert (np.diff(due) >= 0).all()


def test_the_truth_is_what_the_domain_counts() -> None:
    events = 20_000
    generated = lines(SMALL, events, seed=3)
    records = [Record("t", 0, offset, END_MS, value) for offset, value in enumerate(generated)]
    expected = count(records, Rules(SMALL.regions, "us"))
    assert expected.dead_letters == []
    found = truth(SMALL, blocks(SMALL, events, seed=3))
    nonzero = {name: total for name, total in expected.by_content().items() if total != Reactions()}
    assert found.by_content() == nonzero
    assert found.registers == sum(map(len, expected.registers.values()))
    assert found.users == len({user for users in expected.registers.values() for user in users})
    by_region = {
        (content_name(int(content)), SMALL.regions[region]): Reactions(
            int(found.likes[content, region]), int(found.dislikes[content, region])
        )
        for content, region in itertools.product(range(SMALL.contents), range(len(SMALL.regions)))
    }
    assert {row: total for row, total in by_region.items() if total != Reactions()} == {
        row: total for row, total in expected.totals.items() if total != Reactions()
    }


def test_the_truth_of_an_empty_log_is_zero() -> None:
    found = truth(SMALL, [])
    assert (found.by_content(), found.registers, found.users) == ({}, 0, 0)


def test_popularity_follows_zipf_outside_the_spike() -> None:
    model = TrafficModel(contents=1_000, zipf_exponent=1.0, spike_share=0, toggles=0, duplicates=0)
    (block,) = blocks(model, 100_000)
    hits = np.bincount(block.content, minlength=model.contents)
    weights = 1 / np.arange(1, model.contents + 1)
    expected = 100_000 * weights / weights.sum()
    assert np.abs(hits[:20] - expected[:20]).max() < 6 * np.sqrt(expected[0])
    (flat,) = blocks(TrafficModel(contents=10, zipf_exponent=0, spike_share=0), 100_000)
    assert np.bincount(flat.content, minlength=10).min() > 9_000


def test_the_viral_content_takes_its_share_while_the_spike_lasts() -> None:
    model = TrafficModel(spike_share=0.5)
    (block,) = blocks(model, 100_000)
    viral = block.content == model.viral_content
    assert 0.45 < viral[40_000:50_000].mean() < 0.55
    assert viral[:40_000].mean() < 0.01
    assert viral[60_000:].mean() < 0.01


def test_resends_are_exact_and_as_many_as_asked_for() -> None:
    model = TrafficModel(duplicates=0.1, toggles=0)
    repeats = sum(number - 1 for number in Counter(lines(model, 20_000)).values())
    assert 1_800 < repeats < 2_200
    assert max(Counter(lines(TrafficModel(duplicates=0, toggles=0), 20_000)).values()) == 1


def test_toggles_take_reactions_back() -> None:
    model = TrafficModel(duplicates=0, toggles=0.3)
    (block,) = blocks(model, 20_000)
    actions: dict[tuple[int, int], list[str]] = {}
    for content, user, action in zip(block.content.tolist(), block.user.tolist(), block.action.tolist(), strict=True):
        actions.setdefault((content, user), []).append(ACTIONS[action])
    pairs = Counter(pair for taps in actions.values() for pair in itertools.pairwise(taps))
    assert pairs["LIKE", "UNLIKE"] > 2_000
    assert pairs["DISLIKE", "UNDISLIKE"] > 200


def test_users_have_a_home_region_and_seldom_leave_it() -> None:
    model = TrafficModel(users=100, moves=0.01, regions=("us", "eu", "ap"))
    (block,) = blocks(model, 50_000)
    away = 0
    for user in range(model.users):
        seen = np.bincount(block.region[block.user == user], minlength=3)
        away += int(seen.sum() - seen.max())
    assert 0.004 * 50_000 < away < 0.01 * 50_000


def test_late_events_are_late_and_all_others_nearly_on_time() -> None:
    (block,) = blocks(TrafficModel(late=0.1, late_ms=60_000, duplicates=0), 50_000)
    delay = block.due_ms - block.event_time_ms
    assert 0.08 < (delay > 1_000).mean() < 0.11
    assert delay.min() >= 0
    (block,) = blocks(TrafficModel(late=0, duplicates=0), 50_000)
    assert (block.due_ms - block.event_time_ms).max() < 1_000


def test_one_content_and_one_event_are_enough() -> None:
    assert {json.loads(line)["content_id"] for line in lines(TrafficModel(contents=1, users=1), 50)} == {"v1"}
    assert len(lines(TrafficModel(), 1)) == 1
    assert lines(TrafficModel(), 0) == []


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"toggles": 1.5}, "toggles"),
        ({"late": -0.1}, "late"),
        ({"toggles": 0.6, "duplicates": 0.6}, "together"),
        ({"contents": 0}, "contents"),
        ({"users": 0}, "users"),
        ({"zipf_exponent": -1.0}, "zipf_exponent"),
        ({"regions": ()}, "regions"),
    ],
)
def test_impossible_models_are_refused_by_name(fields: dict[str, object], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        TrafficModel(**fields)  # type: ignore[arg-type]

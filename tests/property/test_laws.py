"""The laws of counting. Each test states its law."""

from __future__ import annotations

import json
from functools import reduce
from itertools import product
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from pipelines.domain import strict_json
from pipelines.domain.bounds import SIGNED_64_MAX
from pipelines.domain.counter import PnCount, RegionTotal, summed
from pipelines.domain.counter import merge as merge_totals
from pipelines.domain.counting import (
    Reactions,
    Record,
    RegionCount,
    Registers,
    State,
    apply,
    count,
    recount_exact,
)
from pipelines.domain.events import REASONS, LikeEvent, Rejected, parse
from pipelines.domain.register import EMPTY, Reaction, Register, merge, pack, unpack
from pipelines.domain.version import Version
from tests.property.strategies import FIRST_MS, RULES, cuts, events, registers

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence


def run(bundles: Iterable[Sequence[LikeEvent]], state: State | None = None) -> State:
    return reduce(lambda before, bundle: apply(before, bundle, RULES)[0], bundles, state or State())


def truth(log: Iterable[LikeEvent]) -> dict[tuple[str, str], Reactions]:
    """Likes and dislikes by counting registers, with nothing of the counter in it."""
    by_content: Registers = {}
    for event in log:
        users = by_content.setdefault(event.content_id, {})
        users[event.user_id] = max(users.get(event.user_id, EMPTY), event.register)
    return nonzero(recount_exact(by_content, RULES))


def nonzero(totals: dict[tuple[str, str], Reactions]) -> dict[tuple[str, str], Reactions]:
    return {row: total for row, total in totals.items() if total != Reactions()}


def totals(state: State) -> dict[tuple[str, str], Reactions]:
    return nonzero({row: Reactions(c.pn.likes, c.pn.dislikes) for row, c in state.counts.items()})


@given(st.data(), st.lists(events(), max_size=25), st.randoms())
def test_order_repetition_and_bundles_do_not_matter_equal_times_included(
    data: st.DataObject, log: list[LikeEvent], shuffler: random.Random
) -> None:
    """Any order, any repetition and any cut of the same events give the same registers and totals."""
    again = log + data.draw(st.lists(st.sampled_from(log), max_size=10) if log else st.just([]))
    shuffler.shuffle(again)
    one, other = run(data.draw(cuts(log))), run(data.draw(cuts(again)))
    assert one.registers == other.registers
    assert totals(one) == totals(other)


@given(st.data(), st.lists(events(), max_size=25))
def test_likes_are_the_registers_in_like(data: st.DataObject, log: list[LikeEvent]) -> None:
    """Likes = number of registers in LIKE and dislikes = number in DISLIKE, after every bundle."""
    state, seen = State(), list[LikeEvent]()
    for bundle in data.draw(cuts(log)):
        seen.extend(bundle)
        state = run([bundle], state)
        assert totals(state) == truth(seen)


@given(st.data(), st.lists(events(), max_size=25))
def test_never_negative(data: st.DataObject, log: list[LikeEvent]) -> None:
    """No region of no content ever has fewer than zero likes or dislikes, though nothing clamps."""
    state = State()
    for bundle in data.draw(cuts(log)):
        state, changed = apply(state, bundle, RULES)
        assert all(entry.pn.likes >= 0 and entry.pn.dislikes >= 0 for entry in changed.values())


@given(st.data(), st.lists(events(), max_size=25))
def test_changes_grow_with_every_reported_total(data: st.DataObject, log: list[LikeEvent]) -> None:
    """A bundle reports a total only with more changes than before, so one epoch's versions never repeat."""
    state = State()
    for bundle in data.draw(cuts(log)):
        before = state.counts
        state, changed = apply(state, bundle, RULES)
        assert all(entry.changes > before.get(row, RegionCount()).changes for row, entry in changed.items())
        assert all(state.counts[row] == entry for row, entry in before.items() if row not in changed)


@given(st.data(), st.lists(events(), max_size=12), st.lists(events(), max_size=12))
def test_a_replay_stores_again_whatever_an_earlier_run_stored(
    data: st.DataObject, covered: list[LikeEvent], replayed: list[LikeEvent]
) -> None:
    """From one checkpoint, two runs with different order and bundles report the same contents and regions."""
    checkpoint = run([covered])

    def reported(log: Sequence[LikeEvent]) -> set[tuple[str, str]]:
        rows, state = set[tuple[str, str]](), checkpoint
        for bundle in data.draw(cuts(log)):
            state, changed = apply(state, bundle, RULES)
            rows |= changed.keys()
        return rows

    one, other = reported(replayed), reported(data.draw(st.permutations(replayed)))
    assert one == other


@given(st.permutations(["us", "eu", "ap"]), st.sampled_from([Reaction.LIKE, Reaction.DISLIKE]))
def test_a_user_who_moves_counts_only_where_the_user_is(path: list[str], reaction: Reaction) -> None:
    """A register that moves through the regions leaves each and enters the next; the sum over regions stays one."""
    state = State()
    for step, region in enumerate(path):
        state = run([[LikeEvent("v1", "u1", pack(FIRST_MS + step, reaction, RULES.codes[region]))]], state)
        here = Reactions(likes=1) if reaction is Reaction.LIKE else Reactions(dislikes=1)
        assert totals(state) == {("v1", region): here}


@given(st.lists(events(), min_size=1, max_size=30))
def test_64_bits_across_2_to_the_31st(log: list[LikeEvent]) -> None:
    """A counter that starts at 2 147 483 640 goes past 2^31 exactly: the start is only added."""
    start = 2_147_483_640
    rows = list(product(("v1", "v2"), RULES.regions))
    many = State({}, {row: RegionCount(PnCount(likes_p=start, dislikes_p=start), changes=start) for row in rows})
    for row, entry in run([[event] for event in log], many).counts.items():
        plain = run([[event] for event in log]).counts.get(row, RegionCount())
        assert (entry.pn.likes, entry.pn.dislikes) == (plain.pn.likes + start, plain.pn.dislikes + start)
        assert entry.changes == plain.changes + start


def test_a_famous_video_passes_2_to_the_31st() -> None:
    """Twenty more likes on 2 147 483 640 are 2 147 483 660."""
    state = State({}, {("v1", "us"): RegionCount(PnCount(likes_p=2_147_483_640))})
    for user in range(20):
        state = run([[LikeEvent("v1", f"u{user}", pack(FIRST_MS, Reaction.LIKE, 0))]], state)
    assert state.counts["v1", "us"].pn.likes == 2_147_483_660


@given(
    st.builds(Register, st.integers(0, (1 << 43) - 1), st.sampled_from(Reaction), st.integers(0, 65_535)),
    st.builds(Register, st.integers(0, (1 << 43) - 1), st.sampled_from(Reaction), st.integers(0, 65_535)),
)
def test_the_order_of_packed_registers_is_time_then_reaction_then_region(left: Register, right: Register) -> None:
    """Packing keeps order and loses nothing, within signed 64 bits."""
    assert (pack(*left) < pack(*right)) == (left < right)
    assert unpack(pack(*left)) == left
    assert 0 <= pack(*left) <= SIGNED_64_MAX


@given(registers(), registers(), registers())
def test_register_merge_is_a_join(a: int, b: int, c: int) -> None:
    """Merging registers is commutative, associative and idempotent, and EMPTY is neutral."""
    assert merge(a, b) == merge(b, a)
    assert merge(a, merge(b, c)) == merge(merge(a, b), c)
    assert merge(a, a) == a == merge(a, EMPTY)


def versions() -> st.SearchStrategy[Version]:
    return st.builds(Version, st.integers(0, 511), st.integers(0, (1 << 21) - 1), st.integers(0, (1 << 33) - 1))


@given(versions(), versions())
def test_the_order_of_packed_versions_is_generation_then_epoch_then_changes(left: Version, right: Version) -> None:
    """Packing keeps order and loses nothing, within signed 64 bits."""
    assert (left.pack() < right.pack()) == (left < right)
    assert Version.unpack(left.pack()) == left
    assert 0 <= left.pack() <= SIGNED_64_MAX


def replicas() -> st.SearchStrategy[dict[str, RegionTotal]]:
    total = st.builds(lambda likes, version: (PnCount(likes_p=likes), version), st.integers(0, 3), st.integers(1, 3))
    return st.dictionaries(st.sampled_from(RULES.regions), total).map(
        lambda regions: {region: RegionTotal("v1", region, pn, version, 0) for region, (pn, version) in regions.items()}
    )


@given(replicas(), replicas(), replicas())
def test_counter_merge_is_a_join(
    a: dict[str, RegionTotal], b: dict[str, RegionTotal], c: dict[str, RegionTotal]
) -> None:
    """Merging replicas of a counter is commutative, associative and idempotent."""
    assert merge_totals(a, b) == merge_totals(b, a)
    assert merge_totals(a, merge_totals(b, c)) == merge_totals(merge_totals(a, b), c)
    assert merge_totals(a, a) == a
    assert summed(merge_totals(a, b).values()) == summed(merge_totals(b, a).values())


@given(st.lists(events(), max_size=25))
def test_the_oracle_counts_a_log_as_the_job_does(log: list[LikeEvent]) -> None:
    """`count` over serialised records equals `apply` over the events."""
    records = [
        Record(
            "like-events",
            0,
            offset,
            FIRST_MS,
            json.dumps(
                {
                    "content_id": event.content_id,
                    "user_id": event.user_id,
                    "action": {Reaction.LIKE: "LIKE", Reaction.DISLIKE: "DISLIKE", Reaction.NONE: "UNLIKE"}[
                        event.reaction
                    ],
                    "event_time": event.event_time_ms,
                    "region": RULES.regions[event.region],
                }
            ).encode(),
        )
        for offset, event in enumerate(log)
    ]
    counted = count(records, RULES)
    assert nonzero(counted.totals) == totals(run([log]))
    assert counted.dead_letters == []


json_texts = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
).map(json.dumps)


@given(json_texts | st.text('{}[]:,"\\u01eE+-.truefalsn \t\r\n\ufeff', max_size=12), st.data())
def test_both_readers_of_json_agree(text: str, data: st.DataObject) -> None:
    """The fast reader and the one for long and deep texts accept the same texts and read the same values."""
    at = data.draw(st.integers(0, len(text)))
    for candidate in (text, text[:at] + text[at + 1 :]):
        assert outcome(candidate) == outcome(candidate + " " * 1_001)


def outcome(text: str) -> object:
    try:
        return repr(strict_json.loads(text))
    except strict_json.NotJson:
        return strict_json.NotJson


@given(st.binary(max_size=60) | json_texts.map(str.encode), st.integers(0, (1 << 43) - 1))
def test_no_bytes_raise(value: bytes, timestamp_ms: int) -> None:
    """Whatever the bytes, `parse` returns an event or a known reason."""
    parsed = parse(value, timestamp_ms, RULES)
    assert isinstance(parsed, LikeEvent) or (isinstance(parsed, Rejected) and parsed.reason in REASONS)

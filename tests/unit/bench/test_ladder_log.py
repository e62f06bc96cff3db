from __future__ import annotations

import json
from collections import Counter

import pytest

from bench.ladder.log import HOT, LOADS, Load, Parts, partition_of
from bench.ladder.progress import share
from bench.ladder.reference import Members
from bench.ladder.staleness import probe_lines, schedule
from bench.ladder.taps import tap_of
from traffic.model import TrafficModel

NOW_MS = 1_767_229_200_000


def test_parts_are_one_log() -> None:
    whole, cut = (Parts(HOT, sizes, NOW_MS) for sizes in ((1_000,), (100, 0, 900)))
    assert [*cut.lines(0), *cut.lines(1), *cut.lines(2)] == list(whole.lines(0))
    assert len(list(cut.lines(0))) == 100
    assert cut.truth(3) == whole.truth(1)
    assert cut.truth(0) == {}
    assert cut.truth(1) == cut.truth(2) != cut.truth(3)


def test_the_truth_of_a_log_without_late_taps_is_that_of_sets() -> None:
    model = TrafficModel(contents=5, users=50, late=0.0, regions=("us",), moves=0.0)
    parts = Parts(Load("small", model, HOT.key), [40, 300], NOW_MS)
    # Delays of the network put a few taps out of order; those are not this test's.
    lines = sorted([*parts.lines(0), *parts.lines(1)], key=lambda line: int(json.loads(line)["event_time"]))
    reference = Members()
    for line in lines:
        tap = tap_of(line, 0)
        assert tap
        reference.take(tap)
    counted = {content_id: pair for content_id, pair in reference.counts().items() if pair != (0, 0)}
    assert counted == parts.truth(2)


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
def test_the_taps_of_one_user_on_one_content_are_in_one_partition(load: Load) -> None:
    places: dict[tuple[str, str], set[int]] = {}
    used: Counter[int] = Counter()
    for line in Parts(load, [2_000], NOW_MS).lines(0):
        key, tap = load.key(line), tap_of(line, 0)
        assert key
        assert tap
        partition = partition_of(key, 4)
        places.setdefault((tap.content_id, tap.user_id), set()).add(partition)
        used[partition] += 1
    assert all(len(found) == 1 for found in places.values())
    assert set(used) == {0, 1, 2, 3}


def test_a_share_leaves_out_partitions_that_got_nothing() -> None:
    begin, end = {0: 10, 1: 7, 2: 0}, {0: 30, 1: 7, 2: 20}
    assert share({0: 9, 1: 6, 2: 0}, begin, end) == 0.0
    assert share({0: 20, 1: 6, 2: 0}, begin, end) == 0.25
    assert share({0: 30, 1: 6, 2: 19}, begin, end) < 1.0
    assert share({0: 31, 1: 6, 2: 20}, begin, end) == 1.0
    assert share({0: 10, 1: 6, 2: 0}, begin, begin) == 1.0


def test_probes_come_between_the_traffic_when_they_are_due() -> None:
    due = schedule([b"a"] * 100, probe_lines(0.5))
    assert [at for at, _, _ in due] == sorted(at for at, _, _ in due)
    probes = [(at, json.loads(line)["content_id"]) for at, line, is_probe in due if is_probe]
    assert probes == [(number / 10, f"probe{number}") for number in range(5)]
    assert due[-1][0] == pytest.approx(99 / 200)

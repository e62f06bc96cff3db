from __future__ import annotations

from collections.abc import Mapping, Sequence

from cli.demo.check import Verdict, compare
from pipelines.domain.counter import PnCount, RegionTotal
from pipelines.domain.counting import Reactions
from pipelines.domain.version import Version

US = RegionTotal("a", "us", PnCount(5, 1, 2, 0), Version(1, 1, 8).pack(), 1_000)
EU = RegionTotal("a", "eu", PnCount(3, 3, 0, 0), Version(1, 1, 6).pack(), 1_000)
B = RegionTotal("b", "us", PnCount(1, 0, 0, 0), Version(1, 1, 1).pack(), 1_000)
EXPECTED = {("a", "us"): Reactions(4, 2), ("b", "us"): Reactions(1, 0), ("c", "us"): Reactions(0, 0)}
CACHED: Mapping[str, Sequence[RegionTotal] | None] = {"a": [EU, US], "b": [B], "c": []}


def test_equal_stores_are_equal_whatever_zeros_lie_about() -> None:
    verdict = compare(EXPECTED, [US, EU, B], CACHED)
    assert verdict == Verdict(3, 0, ())
    assert str(verdict) == "3 contents equal an exact recount in both stores"


def test_a_miss_is_no_difference_but_is_said() -> None:
    verdict = compare(EXPECTED, [US, EU, B], {**CACHED, "b": None})
    assert verdict == Verdict(3, 1, ())
    assert str(verdict) == "3 contents equal an exact recount in Cassandra, 2 of them cached in Redis"


def test_a_wrong_a_missing_and_a_surplus_count_differ() -> None:
    assert compare({**EXPECTED, ("a", "us"): Reactions(5, 2)}, [US, EU, B], CACHED).different == (
        "a has 4 likes and 2 dislikes in Cassandra, not 5 likes and 2 dislikes",
    )
    assert len(compare(EXPECTED, [US, EU], CACHED).different) == 1
    assert len(compare({("a", "us"): Reactions(4, 2)}, [US, EU, B], CACHED).different) == 1


def test_an_equal_sum_in_another_region_differs() -> None:
    expected = {("a", "us"): Reactions(2, 2), ("a", "eu"): Reactions(2, 0), ("b", "us"): Reactions(1, 0)}
    assert len(compare(expected, [US, EU, B], CACHED).different) == 1


def test_a_stale_hit_differs() -> None:
    verdict = compare(EXPECTED, [US, EU, B], {**CACHED, "a": [US]})
    assert verdict.different == ("a is another in Redis than in Cassandra",)
    assert str(verdict) == "1 of 3 contents differ: a is another in Redis than in Cassandra"


def test_nothing_equals_nothing() -> None:
    assert compare({}, [], {}) == Verdict(0, 0, ())

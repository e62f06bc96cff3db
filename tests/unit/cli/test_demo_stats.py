from __future__ import annotations

import json
import random

import pytest

from cli.demo.stats import Backlog, Rate, Recount, Snapshot, Totals
from connectors.kafka import Record
from pipelines.domain.counter import PnCount, RegionTotal
from pipelines.domain.counting import Reactions
from pipelines.domain.events import Rules
from pipelines.domain.version import Version

NOW_MS = 1_767_225_600_123


def message(content_id: str, region: str, changes: int, pn: PnCount) -> bytes:
    return json.dumps(RegionTotal(content_id, region, pn, Version(1, 1, changes).pack(), NOW_MS).message()).encode()


def event(offset: int, value: bytes | None, partition: int = 0, timestamp_ms: int = NOW_MS) -> Record:
    return Record("like-events", partition, offset, timestamp_ms, None, value)


def tap(content_id: str, user_id: str, action: str) -> bytes:
    return json.dumps({"content_id": content_id, "user_id": user_id, "action": action}).encode()


def test_totals_are_sums_of_the_newest_per_content_and_region_in_whatever_order_they_come() -> None:
    messages = [
        message("a", "us", 3, PnCount(5, 1, 1, 0)),
        message("a", "us", 1, PnCount(1, 0, 0, 0)),
        message("a", "us", 4, PnCount(5, 3, 1, 0)),
        message("a", "eu", 2, PnCount(10, 0, 0, 0)),
        message("b", "us", 9, PnCount(20, 0, 7, 4)),
        message("b", "us", 9, PnCount(20, 0, 7, 4)),
    ]
    for seed in range(20):
        random.Random(seed).shuffle(messages)
        totals = Totals()
        for value in messages:
            totals.add(value)
        assert (totals.likes, totals.dislikes, totals.contents) == (32, 4, 2)
        assert totals.top(10) == [("b", Reactions(20, 3)), ("a", Reactions(12, 1))]
        assert totals.top(1) == [("b", Reactions(20, 3))]


def test_a_tombstone_on_the_counts_topic_says_nothing() -> None:
    totals = Totals()
    totals.add(None)
    assert totals.contents == 0


def test_the_recount_knows_users_and_totals_and_passes_over_what_is_no_event() -> None:
    recount = Recount(Rules())
    for offset, value in enumerate((tap("a", "u1", "LIKE"), tap("a", "u2", "DISLIKE"), b"{", tap("b", "u1", "LIKE"))):
        recount.add(event(offset, value))
    recount.add(event(7, tap("a", "u1", "UNLIKE"), partition=1, timestamp_ms=NOW_MS + 1))
    assert recount.users == 2
    assert recount.totals() == {("a", "us"): Reactions(0, 1), ("b", "us"): Reactions(1, 0)}
    assert recount.next_offsets == {0: 4, 1: 8}


def test_the_backlog_is_as_old_as_its_oldest_record_that_is_not_counted() -> None:
    backlog = Backlog()
    assert backlog.oldest_ms() is None
    for offset in range(3):
        backlog.add(event(offset, b"", 0, 1_000 + offset))
        backlog.add(event(offset, b"", 1, 2_000 + offset))
    assert backlog.oldest_ms() == 1_000
    backlog.counted({0: 2})
    assert backlog.oldest_ms() == 1_002
    backlog.counted({0: 3, 1: 1})
    assert backlog.oldest_ms() == 2_001
    backlog.counted({0: 3, 1: 3})
    assert backlog.oldest_ms() is None


def test_what_was_counted_stays_counted_when_a_new_job_has_committed_nothing_yet() -> None:
    backlog = Backlog()
    backlog.counted({0: 5, 1: 2})
    backlog.counted({})
    backlog.counted({0: 1})
    assert backlog.counted_offsets == {0: 5, 1: 2}
    backlog.add(event(4, b""))
    assert backlog.oldest_ms() is None


def test_a_rate_is_that_of_the_last_ten_seconds() -> None:
    rate = Rate()
    assert rate.at(0.0, 1_000) == 0.0
    assert rate.at(5.0, 2_000) == pytest.approx(200)
    assert rate.at(10.0, 3_000) == pytest.approx(200)
    assert rate.at(20.0, 3_000) == 0.0


def test_lag_is_never_negative() -> None:
    assert Snapshot(events_in=5, counted=3).lag == 2
    assert Snapshot(events_in=5, counted=6).lag == 0

import re

import pytest

import schemas
from pipelines.domain.bounds import PartOverflow
from pipelines.domain.events import REASONS, LikeEvent, Rejected, Rules, parse
from pipelines.domain.register import Reaction

RULES = Rules()
MINIMAL = b'{"video_id": "v1", "user_id": "u1", "action": "LIKE"}'
NOW_MS = 1_767_225_600_000


@pytest.mark.parametrize("golden", schemas.golden_events("valid"), ids=lambda golden: golden.note)
def test_valid(golden: schemas.GoldenEvent) -> None:
    event = parse(golden.value, golden.timestamp_ms, RULES)
    assert isinstance(event, LikeEvent)
    assert (event.content_id, event.user_id, event.event_time_ms, event.reaction.name, RULES.regions[event.region]) == (
        golden.content_id,
        golden.user_id,
        golden.event_time_ms,
        golden.reaction,
        golden.region,
    )


@pytest.mark.parametrize(
    "golden", schemas.golden_events("invalid"), ids=lambda golden: f"{golden.reason}: {golden.note}"
)
def test_invalid(golden: schemas.GoldenEvent) -> None:
    assert parse(golden.value, golden.timestamp_ms, RULES) == Rejected(golden.reason)


def test_every_reason_has_a_golden_record_and_a_sentence() -> None:
    assert {golden.reason for golden in schemas.golden_events("invalid")} == REASONS.keys()
    for reason, message in REASONS.items():
        assert re.fullmatch(r"[a-z0-9_]+", reason)
        assert re.fullmatch(r"\S.*[^.]\.", message)
        assert Rejected(reason).message == message


def test_rules_decide_region_size_and_time() -> None:
    rules = Rules(regions=("mars", "eu"), home_region="eu", max_record_bytes=60, max_ahead_ms=0)
    event = parse(MINIMAL, NOW_MS, rules)
    assert event == LikeEvent("v1", "u1", NOW_MS << 20 | Reaction.LIKE << 16 | 1)
    assert parse(MINIMAL.ljust(60), NOW_MS, rules) == event
    assert parse(MINIMAL.ljust(61), NOW_MS, rules) == Rejected("record_too_large")
    ahead = b'{"video_id":"v","user_id":"u","action":"LIKE","event_time":%d}'
    assert parse(ahead % (NOW_MS + 1), NOW_MS, Rules(max_ahead_ms=0)) == Rejected("event_time_in_future")


def test_a_name_of_more_than_50_000_characters_is_not_json() -> None:
    assert parse(b'{"%b":1}' % (b"n" * 50_001), NOW_MS, RULES) == Rejected("not_json")


@pytest.mark.parametrize("timestamp_ms", [-1, 1 << 43])
def test_an_impossible_broker_timestamp_is_an_error_not_a_dead_letter(timestamp_ms: int) -> None:
    with pytest.raises(PartOverflow, match="event_time_ms"):
        parse(MINIMAL, timestamp_ms, RULES)


@pytest.mark.parametrize(("regions", "home"), [(("us", "us"), "us"), (("us",), "eu"), ((), "us")])
def test_impossible_rules_are_refused(regions: tuple[str, ...], home: str) -> None:
    with pytest.raises(ValueError, match="home region"):
        Rules(regions=regions, home_region=home)

from typing import Any, Literal

import pytest
from jsonschema import Draft202012Validator

import schemas
from pipelines.domain import strict_json
from pipelines.domain.counter import PnCount, RegionTotal
from pipelines.domain.dead_letters import DeadLetter, original_bytes
from pipelines.domain.events import REASONS

NAMES: tuple[Literal["like_event", "dead_letter", "content_count"], ...] = (
    "like_event",
    "dead_letter",
    "content_count",
)
# Reasons about bytes and text rather than about a JSON value.
NOT_ABOUT_A_VALUE = {"tombstone", "record_too_large", "not_utf8", "not_json"}
# A JSON Schema compares no two fields, knows no clock and no settings, and takes 1.0 for an integer.
NOT_EXPRESSIBLE = {"conflicting_ids", "event_time_in_future", "unknown_region", "event_time_not_integer"}
SAYABLE = [
    golden
    for golden in schemas.golden_events("invalid")
    if golden.reason not in NOT_ABOUT_A_VALUE | NOT_EXPRESSIBLE and b"\0" not in (golden.value or b"")
]


def validator(name: Literal["like_event", "dead_letter", "content_count"]) -> Draft202012Validator:
    return Draft202012Validator(schemas.load_schema(name))


def read(golden: schemas.GoldenEvent) -> object:
    assert golden.value is not None
    return strict_json.loads(golden.value.decode().removeprefix("\ufeff"))


@pytest.mark.parametrize("name", NAMES)
def test_is_a_json_schema(name: Literal["like_event", "dead_letter", "content_count"]) -> None:
    Draft202012Validator.check_schema(schemas.load_schema(name))


@pytest.mark.parametrize("golden", schemas.golden_events("valid"), ids=lambda golden: golden.note)
def test_valid_events_satisfy_their_schema(golden: schemas.GoldenEvent) -> None:
    validator("like_event").validate(_shallow(read(golden)))


@pytest.mark.parametrize("golden", SAYABLE, ids=lambda golden: f"{golden.reason}: {golden.note}")
def test_invalid_events_break_their_schema_where_it_can_say_so(golden: schemas.GoldenEvent) -> None:
    assert not validator("like_event").is_valid(read(golden))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("region", ""),
        ("region", "EU"),
        ("region", 0),
        ("region", []),
        ("event_time", "1"),
        ("event_time", 1.5),
        ("event_time", True),
    ],
)
def test_the_schema_refuses_wrong_types_of_region_and_event_time(name: str, value: object) -> None:
    assert not validator("like_event").is_valid({"content_id": "v1", "user_id": "u1", "action": "LIKE", name: value})


@pytest.mark.parametrize("message", schemas.golden_messages("dead_letters"), ids=lambda message: message["reason"])
def test_dead_letters(message: dict[str, Any]) -> None:
    validator("dead_letter").validate(message)
    value = original_bytes(message["value"], message["value_base64"])
    origin = (message["topic"], message["partition"], message["offset"], message["timestamp"])
    assert DeadLetter(message["reason"], REASONS[message["reason"]], *origin, value).to_message() == message


@pytest.mark.parametrize(
    "damage",
    [
        {"reason": "because"},
        {"value": "x", "value_base64": "eA=="},
        {"value": None},
        {"value": 1},
        {"extra": 1},
        {"offset": -1},
    ],
)
def test_a_damaged_dead_letter_breaks_its_schema(damage: dict[str, object]) -> None:
    message = next(line for line in schemas.golden_messages("dead_letters") if line["value"])
    assert not validator("dead_letter").is_valid({**message, **damage})


def test_the_schema_lists_every_reason_in_order() -> None:
    assert schemas.load_schema("dead_letter")["properties"]["reason"]["enum"] == list(REASONS)


@pytest.mark.parametrize(
    "message", schemas.golden_messages("content_counts"), ids=lambda message: str(message["version"])
)
def test_content_counts(message: dict[str, Any]) -> None:
    validator("content_count").validate(message)
    pn = PnCount(message["likes_p"], message["likes_n"], message["dislikes_p"], message["dislikes_n"])
    total = RegionTotal(message["content_id"], message["region"], pn, message["version"], message["as_of_ms"])
    assert total.message() == message


@pytest.mark.parametrize(
    "damage", [{"likes_p": -1}, {"version": 1 << 63}, {"generation": 512}, {"likes_n": 1.5}, {"extra": 1}]
)
def test_a_damaged_count_breaks_its_schema(damage: dict[str, object]) -> None:
    message = schemas.golden_messages("content_counts")[0]
    assert not validator("content_count").is_valid({**message, **damage})


def test_cassandra_statements_are_complete_and_may_be_repeated() -> None:
    statements = schemas.cassandra_statements("likes", "{'class': 'SimpleStrategy', 'replication_factor': 1}")
    assert statements[0].endswith("WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    names = [statement.split("(")[0].split() for statement in statements[1:]]
    assert [words[-1] for words in names] == [
        f"likes.{table}" for table in ("content_stats", "user_likes", "generations", "pointer", "epochs", "leases")
    ]
    assert all("IF NOT EXISTS" in statement and "--" not in statement for statement in statements)


def _shallow(event: object) -> dict[str, object]:
    """Without the unknown fields, whose depth is more than the validator's recursion bears."""
    assert isinstance(event, dict)
    known = schemas.load_schema("like_event")["properties"]
    return {name: value for name, value in event.items() if name in known}

"""A hostile log through Kafka, Flink and both stores: exact totals, exact dead letters, however often it is counted."""

from __future__ import annotations

import json
from collections import Counter

import jsonschema
import pytest
from confluent_kafka import Producer

from connectors.cassandra import Generations, Pointer, UserLikes, open_session
from connectors.kafka import counts_topic
from pipelines.domain.events import parse
from pipelines.domain.register import reaction_of
from pipelines.settings import Settings
from schemas import golden_events, load_schema
from tests.exactness import (
    assert_dead_letters,
    assert_exact,
    cached,
    dead_letters,
    likes_of,
    rules_of,
    stored,
    truth,
    whole_topic,
)
from tests.jobs import publish, quick_settings, run_bounded
from tests.logs import hostile, taps
from tests.support import FreshSettings, Likes

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SEED, EVENTS = 20_260_101, 6_000


@pytest.fixture(scope="module")
def counted(fresh_settings: FreshSettings, likes: Likes) -> Settings:
    """Settings of a hostile log that a first run has counted. Tests may add to it: each asks for the truth anew."""
    settings = quick_settings(fresh_settings)
    publish(settings, hostile(SEED, EVENTS))
    outcome = run_bounded(likes, settings)
    assert outcome["state"] == "FINISHED"
    assert outcome["events"] == len(hostile(SEED, EVENTS))
    return settings


def test_totals_are_exact_in_both_stores(counted: Settings) -> None:
    expected = truth(counted)
    assert len({region for _, region in expected.totals}) > 1
    assert_exact(counted, expected)
    for total in stored(counted).values():
        assert total.pn.likes_p >= total.pn.likes_n >= 0
        assert total.pn.dislikes_p >= total.pn.dislikes_n >= 0


def test_dead_letters_are_exact_and_keep_every_byte(counted: Settings) -> None:
    expected = truth(counted)
    assert_dead_letters(counted, expected)
    # Reasons that do not depend on the clock are those that the golden records name.
    golden = Counter(event.reason for event in golden_events("invalid"))
    assert golden.keys() <= {letter.reason for letter in expected.dead_letters}
    validator = jsonschema.Draft202012Validator(load_schema("dead_letter"))
    for letter in dead_letters(counted).values():
        validator.validate(letter)


def test_content_counts_end_at_what_is_stored(counted: Settings) -> None:
    validator = jsonschema.Draft202012Validator(load_schema("content_count"))
    newest: dict[tuple[str, str], dict[str, int]] = {}
    for record in whole_topic(counted, counts_topic(counted, 1)):
        message = json.loads(record.value or b"")
        validator.validate(message)
        assert json.loads(record.key or b"") == {name: message[name] for name in ("content_id", "region")}
        key = message["content_id"], message["region"]
        newest[key] = max(newest.get(key, message), message, key=lambda found: found["version"])
    assert newest == {key: total.message() for key, total in stored(counted).items()}


def test_a_second_bounded_run_continues_and_one_without_news_changes_nothing(counted: Settings, likes: Likes) -> None:
    publish(counted, taps(SEED + 1, 500))
    run_bounded(likes, counted)
    expected = truth(counted)
    assert_exact(counted, expected)
    before = {key: likes_of(total) for key, total in stored(counted).items()}
    run_bounded(likes, counted)
    assert {key: likes_of(total) for key, total in stored(counted).items()} == before
    assert_exact(counted, expected)


def test_the_whole_topic_sent_again_changes_no_total(counted: Settings, likes: Likes) -> None:
    before = truth(counted).totals
    rules = rules_of(counted)
    timed = [
        record.value
        for record in whole_topic(counted, counted.kafka.events_topic)
        # What carries no event_time happens again when it is sent again.
        if parse(record.value, record.timestamp_ms, rules) == parse(record.value, record.timestamp_ms + 1, rules)
    ]
    assert len(timed) > EVENTS / 2
    publish(counted, timed)
    run_bounded(likes, counted)
    expected = truth(counted)
    assert expected.totals == before
    assert_exact(counted, expected)
    assert_dead_letters(counted, expected)


def test_a_new_generation_counts_the_same_beside_the_live_one(counted: Settings, likes: Likes) -> None:
    live = stored(counted, 1)
    outcome = run_bounded(likes, counted, "--generation", "new")
    with open_session(counted) as session:
        assert Pointer(session).read() == 1
        assert outcome["generation"] in {known.generation for known in Generations(session).all()}
    assert_exact(counted, truth(counted), outcome["generation"])
    assert stored(counted, 1) == live
    assert None not in cached(counted, {content_id for content_id, _ in live}, 1).values()


def test_of_transactions_only_what_was_committed_counts(fresh_settings: FreshSettings, likes: Likes) -> None:
    settings = quick_settings(fresh_settings)
    publish(settings, taps(5, 50))
    producer = Producer(
        {"bootstrap.servers": settings.kafka.bootstrap, "transactional.id": settings.cassandra.keyspace}
    )
    producer.init_transactions()
    for number, content_id in enumerate(("aborted", "committed", "aborted")):
        producer.begin_transaction()
        for user in range(20):
            event = {"content_id": content_id, "user_id": f"u{user}", "action": "LIKE"}
            producer.produce(settings.kafka.events_topic, json.dumps(event), key=f"{number}.{user}")
        producer.flush()
        if content_id == "aborted":
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    # Ends although the last thing in each partition is a mark of a transaction, which is no record.
    run_bounded(likes, settings)
    assert_exact(settings, truth(settings))
    counted = {content_id: likes_of(total).likes for (content_id, _), total in stored(settings).items()}
    assert (counted.get("committed"), "aborted" in counted) == (20, False)


def test_user_likes_agrees_with_the_count_to_the_last_tie(counted: Settings, likes: Likes) -> None:
    run_bounded(likes, counted, "--pipeline", "user-likes")
    wanted: dict[str, dict[str, int]] = {}
    for content_id, users in truth(counted).registers.items():
        for user_id, register in users.items():
            wanted.setdefault(user_id, {})[content_id] = register
    with open_session(counted) as session:
        rows = UserLikes(session)
        assert {user_id: rows.read(user_id) for user_id in wanted} == wanted
    user_id, registers = max(wanted.items(), key=lambda item: len(item[1]))
    said = json.loads(likes("reactions", user_id, "--all", "--json", settings=counted).stdout)
    assert [(entry["content_id"], entry["reaction"]) for entry in said] == [
        (content_id, reaction_of(register).name)
        for content_id, register in sorted(registers.items(), key=lambda item: (-item[1], item[0]))
    ]

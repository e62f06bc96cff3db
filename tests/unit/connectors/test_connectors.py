"""What connectors decide without their services: keys, names, sizes, and errors when nobody answers."""

from __future__ import annotations

import gc
import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.cassandra import open_session
from connectors.kafka import (
    Publisher,
    content_key,
    counts_topic,
    end_offsets,
    max_dead_letter_bytes,
    max_event_bytes,
    read_topic,
)
from connectors.kafka import client as kafka_client
from connectors.redis import RedisCounts
from connectors.retry import Service, insist
from pipelines.errors import ServiceUnavailable, SettingError
from pipelines.settings import RetrySettings, Settings, load_settings

# Nothing listens on port 1.
NOWHERE: dict[str, dict[str, object]] = {
    "kafka": {"bootstrap": "127.0.0.1:1"},
    "cassandra": {"hosts": "127.0.0.1", "port": 1},
    "redis": {"url": "redis://:hidden@127.0.0.1:1/0"},
    "retry": {"attempts": 2, "initial_ms": 1, "max_ms": 2},
}


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(kafka_client, "_BOOTSTRAP_MS", 300)
    return load_settings({}, flags=NOWHERE)


@contextmanager
def unavailable(name: str, address: str) -> Iterator[None]:
    with pytest.raises(ServiceUnavailable) as raised:
        yield
    assert raised.value.message.startswith(f"{name} at {address} does not answer: ")
    assert "`likes stack up`" in raised.value.remedy
    assert "hidden" not in str(raised.value)


def test_cassandra_away(nowhere: Settings) -> None:
    with unavailable("Cassandra", "127.0.0.1:1"), open_session(nowhere):
        pass


def test_redis_away(nowhere: Settings) -> None:
    counts = RedisCounts(nowhere)
    with unavailable("Redis", "127.0.0.1:1"):
        counts.read(1, ["v"])
    with unavailable("Redis", "127.0.0.1:1"):
        counts.forget(1, ["v"])
    counts.close()


@pytest.fixture
def leftovers_collected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """kafka-python leaves refused sockets to the garbage collector, and log records would keep them from it."""
    caplog.set_level(logging.CRITICAL, logger="kafka")
    yield
    gc.collect()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("leftovers_collected")
def test_kafka_away(nowhere: Settings) -> None:
    before = threading.enumerate()
    with unavailable("Kafka", "127.0.0.1:1"):
        end_offsets(nowhere, "like-events")
    with unavailable("Kafka", "127.0.0.1:1"), Publisher(nowhere, "like-events"):
        pass
    with unavailable("Kafka", "127.0.0.1:1"):
        list(read_topic(nowhere, "like-events", {0: 0}, {0: 1}))
    assert not [thread for thread in threading.enumerate() if thread not in before]


def test_an_empty_range_asks_nobody(nowhere: Settings) -> None:
    assert list(read_topic(nowhere, "like-events", {0: 5, 1: 3}, {0: 5, 2: 9})) == []


def test_a_setting_that_is_no_url_is_named() -> None:
    with pytest.raises(SettingError, match=r"setting redis\.url"):
        RedisCounts(load_settings({}, flags={"redis": {"url": "localhost:6379"}}))


def test_a_ca_file_that_cannot_be_read_is_named() -> None:
    settings = load_settings({}, flags={"cassandra": {"tls_ca_file": "/nowhere/ca.pem"}})
    with pytest.raises(SettingError, match=r"cassandra\.tls_ca_file: /nowhere/ca\.pem"), open_session(settings):
        pass


def test_insisting_stops_at_success_and_at_the_limit() -> None:
    service = Service("Thing", "there", "thing.address")
    policy = RetrySettings(attempts=3, initial_ms=1, max_ms=2)

    def failing(times: int) -> Callable[[], int]:
        calls = iter(range(100))

        def call() -> int:
            number = next(calls)
            if number < times:
                raise OSError("not yet")
            return number

        return call

    assert insist(policy, service, (OSError,), failing(2)) == 2
    with pytest.raises(ServiceUnavailable, match="Thing at there does not answer: not yet"):
        insist(policy, service, (OSError,), failing(3))
    with pytest.raises(ZeroDivisionError):  # a bug is not retried
        insist(policy, service, (OSError,), lambda: 1 // 0)


def test_counts_topics_by_generation() -> None:
    settings = Settings()
    assert counts_topic(settings, 1) == "content-counts"
    assert counts_topic(settings, 12) == "content-counts.g12"


def test_a_record_that_is_too_large_to_count_fits_into_the_log_and_its_dead_letter_too() -> None:
    for limit in (65_536, 1_048_576):
        settings = load_settings({}, flags={"events": {"max_record_bytes": limit}})
        assert max_event_bytes(settings) > limit
        assert max_dead_letter_bytes(settings) > len(json.dumps({"value": "\0" * max_event_bytes(settings)}))


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (b'{"content_id": "v1", "user_id": "u"}', b"v1"),
        (b'{"video_id": "v1"}', b"v1"),
        (b'{"content_id": null, "video_id": "v1"}', b"v1"),
        (b'{"content_id": "a", "video_id": "b"}', b"a"),
        (b'{"content_id": "a", "content_id": "b"}', b"b"),
        (b'\xef\xbb\xbf{"content_id": "v\\u00e9"}\r\n', "v\u00e9".encode()),
        (b'{"content_id": 7}', None),
        (b'{"content_id": ""}', None),
        (b'{"content_id": "\\ud800"}', None),
        (b'["content_id"]', None),
        (b'{"content_id": "v1"', None),
        (b"\xff\xfe", None),
        (b"", None),
    ],
)
def test_key_of_a_line(line: bytes, key: bytes | None) -> None:
    assert content_key(line) == key


@given(st.binary(max_size=200))
def test_any_line_has_a_key_or_none(line: bytes) -> None:
    key = content_key(line)
    assert key is None or key.decode()


@given(st.text(min_size=1, max_size=64).filter(lambda text: text.encode("utf-8", "replace").decode() == text))
def test_the_key_is_the_id(content_id: str) -> None:
    assert content_key(json.dumps({"content_id": content_id}).encode()) == content_id.encode()

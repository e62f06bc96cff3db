"""Every dependency away in turn, and back, with no wrong count served as fresh."""

from __future__ import annotations

import itertools
import json
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import httpx
import psutil
import pytest

from connectors.cassandra import ensure_schema, open_session
from connectors.kafka import end_offsets, ensure_topics
from deploy.flink.local_stack import Stack
from pipelines.settings import Settings, load_settings
from tests.exactness import whole_topic
from tests.jobs import run_bounded
from tests.serving.conftest import FAST, SECRET, Serve, Served, bearer
from tests.serving.stores import live_generation, write
from tests.support import Likes, running_stack, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

LIKE = {"reaction": "LIKE"}
_TAPPING, _READING = 12, 4


@pytest.fixture(scope="module")
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Services that may be stopped."""
    with running_stack(tmp_path_factory.mktemp("own-stack")) as stack:
        yield stack


@pytest.fixture(scope="module")
def place(own_stack: Stack, serve: Serve) -> Iterator[tuple[Served, Settings]]:
    flags: dict[str, Mapping[str, object]] = {
        "auth": {"secret": SECRET},
        "limit": FAST,
        "serve": {"kafka_timeout_ms": 1_500, "negative_cache_ms": 0},
        "cassandra": {"request_timeout_ms": 2_000},
    }
    settings = load_settings({}, stack=own_stack.env(), flags=flags)
    ensure_topics(settings, 1)
    with open_session(settings) as session:
        ensure_schema(session, settings)
    with live_generation(settings) as (session, generation):
        write(settings, session, generation, ("v1", "us", 5, 1), ("v2", "us", 6, 0), ("v3", "us", 7, 0))
    with serve(settings) as served:
        wait_until(lambda: served.client.get("/v1/operations").json()["generation"] == 1)
        yield served, settings


@pytest.mark.parametrize("name", ["redis", "cassandra", "kafka"])
def test_away_and_back(place: tuple[Served, Settings], own_stack: Stack, name: str) -> None:
    served, _ = place
    assert [it["likes"] for it in counts(served, "v1", "v2")["counts"]] == [5, 6]
    process = psutil.Process(own_stack.services()[name].pid or 0)
    process.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: is_down(served, name), 30, what=f"{name} to be missed")
        for _ in range(10):
            body = counts(served, "v1", "v2")
            assert [it["likes"] for it in body["counts"]] == [5, 6]
            assert body["degraded"] is (name != "kafka")
        tap = served.client.put("/v1/reactions/v9", json=LIKE, headers=bearer("u"))
        if name == "kafka":
            assert tap.status_code == 503
            assert int(tap.headers["retry-after"]) >= 1
            assert tap.json()["title"] == "unavailable"
        else:
            assert tap.status_code == 202
        if name == "redis":
            assert {it["source"] for it in body["counts"]} <= {"cassandra", "memory"}
        if name == "cassandra":
            assert {it["source"] for it in body["counts"]} == {"redis"}
    finally:
        process.send_signal(signal.SIGCONT)
    wait_until(served.is_ready, 60, what=f"{name} to be back")
    wait_until(lambda: counts(served, "v1")["degraded"] is False, 30)
    assert served.client.put("/v1/reactions/v9", json=LIKE, headers=bearer("u")).status_code == 202


def test_both_stores_away_is_stale_and_says_so(place: tuple[Served, Settings], own_stack: Stack) -> None:
    served, _ = place
    counts(served, "v1", "v2")
    processes = [psutil.Process(own_stack.services()[name].pid or 0) for name in ("redis", "cassandra")]
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: counts(served, "v1")["counts"][0]["stale"], 30)
        body = counts(served, "v1", "v2", "never-read")
        assert [(it["likes"], it["stale"], it["source"]) for it in body["counts"]] == [
            (5, True, "memory"),
            (6, True, "memory"),
            (None, True, "none"),
        ]
        assert served.client.get("/v1/counts/never-read").status_code == 503
        assert served.client.get("/healthz").status_code == 200
        assert served.client.get("/readyz").status_code == 503
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)
    wait_until(served.is_ready, 60)
    wait_until(lambda: counts(served, "never-read")["counts"][0]["likes"] == 0, 30)


def test_each_away_in_turn_under_load_loses_no_tap_and_counts_none_twice(
    place: tuple[Served, Settings], own_stack: Stack, likes: Likes
) -> None:
    served, settings = place
    ends, users = threading.Event(), itertools.count()
    with ThreadPoolExecutor(_TAPPING + _READING) as threads:
        tapping = [threads.submit(_tap_until, ends, served.url, users) for _ in range(_TAPPING)]
        reading = [threads.submit(_read_until, ends, served.url) for _ in range(_READING)]
        try:
            for name in ("redis", "cassandra", "kafka"):
                process = psutil.Process(own_stack.services()[name].pid or 0)
                process.send_signal(signal.SIGSTOP)
                try:
                    wait_until(lambda name=name: is_down(served, name), 60, what=f"{name} to be missed")  # type: ignore[misc]
                finally:
                    process.send_signal(signal.SIGCONT)
                wait_until(served.is_ready, 60, what=f"{name} to be back")
        finally:
            ends.set()
        acknowledged = {user for done in tapping for user in done.result()}
        answers = sum((done.result() for done in reading), Counter[str]())
    assert acknowledged
    assert answers["fresh"]
    assert answers["degraded"]
    events = [json.loads(record.value or b"") for record in whole_topic(settings, settings.kafka.events_topic)]
    logged = {event["user_id"] for event in events if event["content_id"] == "busy"}
    assert acknowledged <= logged
    run_bounded(likes, settings)
    wait_until(lambda: counts(served, "busy")["counts"][0]["likes"] == len(logged), 30, what="every tap, once")


def _tap_until(ends: threading.Event, url: str, users: Iterator[int]) -> set[str]:
    """Likes by ever new users, each again until it is acknowledged or refused for good."""
    acknowledged = set[str]()
    with httpx.Client(base_url=url, timeout=30.0) as client:
        while not ends.is_set():
            user = f"busy{next(users)}"
            headers = {**bearer(user), "Idempotency-Key": "the tap"}
            while not ends.is_set():
                answer = client.put("/v1/reactions/busy", json=LIKE, headers=headers)
                assert answer.status_code in {202, 503}, answer.text
                if answer.status_code == 202:
                    acknowledged.add(user)
                    break
    return acknowledged


def _read_until(ends: threading.Event, url: str) -> Counter[str]:
    """Reads of counts that do not change: whatever is served as fresh is right."""
    answers = Counter[str]()
    with httpx.Client(base_url=url, timeout=30.0) as client:
        while not ends.is_set():
            answer = client.get("/v1/counts", params={"id": ["v1", "v2", "v3"]})
            assert answer.status_code == 200, answer.text
            body = answer.json()
            for entry, right in zip(body["counts"], (5, 6, 7), strict=True):
                assert entry["stale"] or entry["likes"] == right, entry
            answers["degraded" if body["degraded"] else "fresh"] += 1
    return answers


def test_who_starts_without_cassandra_does_not_take_that_for_zeros(
    place: tuple[Served, Settings], own_stack: Stack, serve: Serve
) -> None:
    _, settings = place
    cassandra = psutil.Process(own_stack.services()["cassandra"].pid or 0)
    cassandra.send_signal(signal.SIGSTOP)
    try:
        with serve(settings, ready=False) as served:
            assert served.client.get("/v1/counts/v1").status_code == 503
            assert served.client.get("/readyz").status_code == 503
            cassandra.send_signal(signal.SIGCONT)
            wait_until(served.is_ready, 60)
            wait_until(lambda: counts(served, "v1")["counts"][0]["likes"] == 5, 30)
    finally:
        cassandra.send_signal(signal.SIGCONT)


def test_killed_between_kafka_and_cassandra_and_repaired_by_the_pipeline(
    place: tuple[Served, Settings], own_stack: Stack, serve: Serve, likes: Likes
) -> None:
    _, settings = place
    with serve(settings) as served:
        first = served.client.put("/v1/reactions/v9", json=LIKE, headers=bearer("killed"))
        assert first.status_code == 202
        assert mine(served) == "LIKE"
        before = sum(end_offsets(settings, settings.kafka.events_topic).values())
        cassandra = psutil.Process(own_stack.services()["cassandra"].pid or 0)
        cassandra.send_signal(signal.SIGSTOP)
        try:
            with ThreadPoolExecutor(1) as threads:
                waiting = threads.submit(
                    httpx.put,
                    f"{served.url}/v1/reactions/v9",
                    json={"reaction": "DISLIKE"},
                    headers=bearer("killed"),
                    timeout=60,
                )
                wait_until(lambda: sum(end_offsets(settings, settings.kafka.events_topic).values()) > before, 30)
                served.process.kill()
                served.process.wait()
                with suppress(httpx.TransportError):
                    waiting.result()
        finally:
            cassandra.send_signal(signal.SIGCONT)
    run_bounded(likes, settings, "--pipeline", "user-likes")
    with serve(settings) as served:
        assert mine(served) == "DISLIKE"


def mine(served: Served) -> str:
    return str(served.client.get("/v1/counts/v9", headers=bearer("killed")).json()["my_reaction"])


def counts(served: Served, *ids: str) -> dict[str, Any]:
    answer = served.client.get("/v1/counts", params={"id": list(ids)})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def is_down(served: Served, name: str) -> bool:
    counts(served, "v1")
    if name == "kafka":
        served.client.put("/v1/reactions/v9", json=LIKE, headers=bearer("u"))
    if name == "cassandra":
        served.client.get("/v1/counts", params={"id": ["v1"]}, headers=bearer("u"))
    return not served.client.get("/readyz").json()["dependencies"][name]["up"]

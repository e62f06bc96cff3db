"""Every dependency away in turn, and back, with no wrong count served as fresh."""

from __future__ import annotations

import signal
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
from tests.jobs import run_bounded
from tests.serving.conftest import FAST, SECRET, Serve, Served, bearer
from tests.serving.stores import live_generation, write
from tests.support import Likes, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

LIKE = {"reaction": "LIKE"}


@pytest.fixture(scope="module")
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Services that may be stopped."""
    stack = Stack(tmp_path_factory.mktemp("own-stack"))
    try:
        stack.up(print)
        yield stack
    finally:
        stack.down(purge=True)


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

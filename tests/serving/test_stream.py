"""Server-sent events on real services."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from kafka import KafkaProducer

from connectors.kafka import counts_topic
from pipelines.domain.counter import PnCount, RegionTotal
from pipelines.domain.version import Version
from pipelines.settings import Settings
from tests.serving.conftest import Serve, Served
from tests.serving.stores import live_generation, write
from tests.support import wait_until

pytestmark = pytest.mark.integration


class Place:
    def __init__(self, served: Served, settings: Settings, generation: int) -> None:
        self.served, self.settings, self.generation = served, settings, generation
        self.producer = KafkaProducer(bootstrap_servers=settings.kafka.bootstrap)

    def publish(self, content_id: str, likes: int, changes: int, region: str = "us") -> None:
        total = RegionTotal(
            content_id, region, PnCount(likes_p=likes), Version(self.generation, 2, changes).pack(), 1_767_225_600_000
        )
        key = json.dumps({"content_id": content_id, "region": region}).encode()
        self.producer.send(counts_topic(self.settings, self.generation), json.dumps(total.message()).encode(), key=key)
        self.producer.flush()

    @contextmanager
    def listen(self, ids: str, last: str = "") -> Iterator[Iterator[tuple[str, dict[str, Any]]]]:
        headers = {"Last-Event-ID": last} if last else {}
        where = f"{self.served.url}/v1/stream?ids={ids}"
        with httpx.Client(timeout=20) as client, client.stream("GET", where, headers=headers) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            yield events(answer.iter_lines())


def events(lines: Iterator[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    identity = ""
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "id":
            identity = value
        if name == "data":
            yield identity, json.loads(value)


@pytest.fixture(scope="module")
def place(serve: Serve, service_settings: Callable[..., Settings]) -> Iterator[Place]:
    settings = service_settings(serve={"stream_stall_s": 2})
    with live_generation(settings) as (session, generation), serve(settings) as served:
        write(
            settings,
            session,
            generation,
            ("v1", "us", 3, 0),
            ("v2", "us", 4, 0),
            ("v4", "us", 5, 0),
            ("v4", "eu", 100, 0),
        )
        wait_until(lambda: served.client.get("/v1/operations").json()["generation"] == generation)
        made = Place(served, settings, generation)
        yield made
        made.producer.close()


def test_first_what_is_then_what_changes(place: Place) -> None:
    with place.listen("v1,v2,v3") as heard:
        first = {count["content_id"]: count["likes"] for _, count in (next(heard), next(heard), next(heard))}
        assert first == {"v1": 3, "v2": 4, "v3": 0}
        place.publish("v9", 1, 50)
        place.publish("v1", 9, 50)
        assert next(heard)[1]["likes"] == 9
        place.publish("v1", 8, 49)  # older
        place.publish("v1", 2, 7, region="eu")
        count = next(heard)[1]
        assert (count["content_id"], count["likes"]) == ("v1", 11)


def test_who_comes_back_hears_only_what_has_changed(place: Place) -> None:
    with place.listen("v1,v2") as heard, place.listen("v1"):
        next(heard)
        next(heard)
        place.publish("v2", 20, 60)
        last, count = next(heard)
        assert count["likes"] == 20
        with place.listen("v1,v2", last) as again:
            place.publish("v1", 30, 61)
            assert next(again)[1]["content_id"] == "v1"
    with place.listen("v1,v2", "nonsense") as heard:
        assert {next(heard)[1]["content_id"] for _ in range(2)} == {"v1", "v2"}


def test_a_region_that_has_not_changed_still_counts_for_who_comes_back(place: Place) -> None:
    with place.listen("v4,v2") as heard, place.listen("v2"):
        next(heard)
        last, _ = next(heard)
        assert last
        with place.listen("v4,v2", last) as again:
            place.publish("v4", 6, 70)
            _, count = next(again)
            assert (count["content_id"], count["likes"]) == ("v4", 106)


def test_only_the_last_of_several_counts_says_that_all_are_heard(place: Place) -> None:
    with place.listen("v1,v2,v4") as heard:
        assert [bool(identity) for identity, _ in (next(heard), next(heard), next(heard))] == [False, False, True]


def test_a_message_that_is_none_ends_nothing(place: Place) -> None:
    with place.listen("v2") as heard:
        next(heard)
        place.producer.send(counts_topic(place.settings, place.generation), b"{", key=b"k")
        place.publish("v2", 77, 90)
        assert next(heard)[1]["likes"] == 77


def test_streams_of_one_address_are_bounded_and_end_with_the_service(
    serve: Serve, service_settings: Callable[..., Settings]
) -> None:
    settings = service_settings(serve={"address_streams": 3})
    with serve(settings) as served, ExitStack() as streams:
        client = streams.enter_context(httpx.Client(timeout=20))
        opened = [streams.enter_context(client.stream("GET", f"{served.url}/v1/stream?ids=a")) for _ in range(4)]
        assert [answer.status_code for answer in opened] == [200, 200, 200, 503]
        assert opened[3].headers["retry-after"] == "30"
        began = time.monotonic()
        served.process.send_signal(signal.SIGINT)
        for answer in opened[:3]:
            for _ in answer.iter_lines():
                pass
        served.process.wait(20)
        assert time.monotonic() - began < 15
    said = served.log.read_text()
    assert "Traceback" not in said
    assert "leaked" not in said


def test_a_client_that_takes_nothing_is_dropped(place: Place) -> None:
    where = urlsplit(place.served.url)
    ids = ",".join(f"slow{number}" for number in range(100))
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.connect((where.hostname, where.port))
        client.sendall(f"GET /v1/stream?ids={ids} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        wait_until(lambda: place.served.client.get("/v1/operations").json()["streams"] == 1)
        changes = 100

        def is_dropped() -> bool:
            nonlocal changes
            for number in range(100):
                changes += 1
                place.producer.send(
                    counts_topic(place.settings, place.generation),
                    json.dumps(
                        RegionTotal(
                            f"slow{number}",
                            "us",
                            PnCount(likes_p=changes),
                            Version(place.generation, 2, changes).pack(),
                            1,
                        ).message()
                    ).encode(),
                    key=str(number).encode(),
                )
            place.producer.flush()
            return place.served.metric("likes_streams_dropped_total") >= 1

        wait_until(is_dropped, 60)
    wait_until(lambda: place.served.client.get("/v1/operations").json()["streams"] == 0)

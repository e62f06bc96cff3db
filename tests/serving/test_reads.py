"""The read path on real stores: one round trip, one cold read, what is remembered and for how long."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import redis

from connectors.cassandra import CassandraSession, UserLike, UserLikes
from pipelines.domain.register import Reaction, pack
from pipelines.settings import Settings
from tests.serving.conftest import Serve, Served, bearer
from tests.serving.stores import live_generation, write
from tests.support import wait_until

pytestmark = pytest.mark.integration

COLD = [f"cold{number}" for number in range(21)]


class Place:
    def __init__(self, served: Served, settings: Settings, session: CassandraSession, generation: int) -> None:
        self.served, self.settings, self.session, self.generation = served, settings, session, generation

    def counts(self, *ids: str, **headers: str) -> list[dict[str, object]]:
        answer = self.served.client.get("/v1/counts", params={"id": list(ids)}, headers=headers)
        assert answer.status_code == 200, answer.text
        return list(answer.json()["counts"])

    def write(self, *rows: tuple[str, str, int, int]) -> None:
        write(self.settings, self.session, self.generation, *rows)

    def empty_redis(self) -> None:
        with redis.Redis.from_url(self.settings.redis.url.get_secret_value()) as client:
            client.flushdb()

    def store_reads(self, store: str) -> float:
        return self.served.metric("likes_store_reads_total", store=store)


@pytest.fixture(scope="module")
def place(serve: Serve, service_settings: Callable[..., Settings]) -> Iterator[Place]:
    settings = service_settings(serve={"negative_cache_ms": 1_000, "hot_reads_per_s": 20, "redis_timeout_ms": 2_000})
    with live_generation(settings) as (session, generation), serve(settings) as served:
        wait_until(lambda: served.client.get("/v1/operations").json()["generation"] == generation)
        yield Place(served, settings, session, generation)


def test_a_page_of_contents_is_one_round_trip(place: Place) -> None:
    place.write(*((content_id, "us", 3, 1) for content_id in COLD), (COLD[0], "eu", 2, 0))
    before = place.store_reads("redis"), place.store_reads("cassandra")
    found = place.counts(*COLD)
    assert [it["content_id"] for it in found] == COLD
    assert [it["likes"] for it in found] == [5, *[3] * 20]
    assert {it["source"] for it in found} == {"redis"}
    assert (place.store_reads("redis") - before[0], place.store_reads("cassandra") - before[1]) == (1, 0)


def test_two_thousand_readers_of_a_cold_video_make_one_read_of_the_record(place: Place) -> None:
    place.write(("viral", "us", 7, 2))
    place.empty_redis()
    before = place.store_reads("cassandra")

    began = time.monotonic()
    redis_before = place.store_reads("redis")
    answers = asyncio.run(ask_all(place.served.url, "/v1/counts/viral", 2_000))
    assert {answer["likes"] for answer in answers} == {7}
    assert place.store_reads("cassandra") - before == 1
    assert place.store_reads("redis") - redis_before <= 20 * (time.monotonic() - began + 1)
    wait_until(lambda: place.counts("viral")[0]["source"] in {"redis", "memory"})


async def ask_all(url: str, path: str, times: int) -> list[dict[str, Any]]:
    """The same request on so many connections at once."""
    place = urlsplit(url)

    async def ask() -> dict[str, Any]:
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        assert head.startswith(b"HTTP/1.1 200 "), head
        return dict(json.loads(body))

    return await asyncio.gather(*(ask() for _ in range(times)))


def test_a_hot_content_is_read_about_once_a_second(place: Place) -> None:
    place.write(("hot", "us", 1, 0))

    async def read_for(seconds: float) -> int:
        async with httpx.AsyncClient(base_url=place.served.url, timeout=60) as client:
            end = asyncio.get_running_loop().time() + seconds
            count = 0

            async def reader() -> None:
                nonlocal count
                while asyncio.get_running_loop().time() < end:
                    assert (await client.get("/v1/counts/hot")).json()["likes"] == 1
                    count += 1

            await asyncio.gather(*(reader() for _ in range(50)))
            return count

    asyncio.run(read_for(4))  # until it is known to be hot
    before = place.store_reads("redis")
    answered = asyncio.run(read_for(4))
    assert answered > 200
    assert place.store_reads("redis") - before <= 12


def test_an_unknown_id_is_not_asked_for_again_and_is_known_soon_after_its_first_tap(place: Place) -> None:
    first, again = place.counts("nobody")[0], place.counts("nobody")[0]
    assert (first["likes"], first["known"], first["source"]) == (0, False, "cassandra")
    assert (again["likes"], again["known"], again["source"]) == (0, False, "memory")
    before = place.store_reads("cassandra"), place.store_reads("redis")
    for _ in range(20):
        place.counts("nobody")
    assert place.store_reads("cassandra") - before[0] <= 1
    assert place.store_reads("redis") - before[1] <= 1
    place.write(("nobody", "us", 1, 0))
    wait_until(lambda: place.counts("nobody")[0]["likes"] == 1, 5, what="the first tap")


def test_somebody_elses_keys_are_misses(place: Place) -> None:
    place.write(("mine", "us", 4, 0))
    with redis.Redis.from_url(place.settings.redis.url.get_secret_value()) as client:
        client.set(f"count:{{{place.generation}:mine}}", "not a hash")
    found = place.counts("mine")[0]
    assert (found["likes"], found["source"]) == (4, "cassandra")
    wait_until(lambda: place.counts("mine")[0]["source"] == "redis")


def test_what_the_user_thinks_of_each(place: Place) -> None:
    likes = [
        UserLike("ada", COLD[number], pack(1_700_000_000_000, reaction, 0))
        for number, reaction in enumerate((Reaction.LIKE, Reaction.DISLIKE, Reaction.NONE))
    ]
    UserLikes(place.session).upsert(likes)
    found = place.counts(*COLD[:4], **bearer("ada"))
    assert [it["my_reaction"] for it in found] == ["LIKE", "DISLIKE", "NONE", "NONE"]
    assert [it["my_reaction"] for it in place.counts(*COLD[:2], **bearer("bob"))] == ["NONE", "NONE"]


def test_another_generation_is_seen_within_seconds_and_never_mixed(place: Place) -> None:
    place.write(("a", "us", 1, 0), ("b", "us", 1, 0))
    assert [it["likes"] for it in place.counts("a", "b")] == [1, 1]
    with live_generation(place.settings) as (session, generation):
        write(place.settings, session, generation, ("a", "us", 2, 0), ("b", "us", 2, 0))
        seen = set()

        def switched() -> bool:
            likes = tuple(it["likes"] for it in place.counts("a", "b"))
            seen.add(likes)
            return likes == (2, 2)

        wait_until(switched, 10)
        assert seen <= {(1, 1), (0, 0), (2, 2)}
        place.generation = generation


@pytest.mark.parametrize("replica", ["another database", "nobody"])
def test_a_replica_is_read_unless_it_is_away(
    serve: Serve, service_settings: Callable[..., Settings], replica: str
) -> None:
    """A database that has nothing stands for a copy that is far behind."""
    settings = service_settings()
    url = settings.redis.url.get_secret_value()
    behind = f"{url.rpartition('/')[0]}/{(int(url.rpartition('/')[2]) + 8) % 16}"
    serving = settings.serve.model_validate(
        {"redis_replica": behind if replica == "another database" else "redis://127.0.0.1:9/0"}
    )
    settings = settings.model_copy(update={"serve": serving})
    with live_generation(settings) as (session, generation), serve(settings) as served:
        wait_until(lambda: served.client.get("/v1/operations").json()["generation"] == generation)
        write(settings, session, generation, ("v1", "us", 3, 0))
        found = served.client.get("/v1/counts/v1").json()
        assert (found["likes"], found["source"]) == (3, "cassandra" if replica == "another database" else "redis")
        tap = served.client.put("/v1/reactions/v1", json={"reaction": "LIKE"}, headers=bearer("u"))
        headers = {"Read-Your-Write": tap.json()["token"]}
        mine = served.client.get("/v1/counts/v1", headers=headers).json()
        assert (mine["likes"], mine["source"]) == (4, "redis")

"""`likes cache rebuild`: afterwards Redis says what Cassandra says, whatever it said before."""

from __future__ import annotations

import json

import pytest
import redis

from connectors.cassandra import ContentStats, Generations, Pointer, ensure_schema, open_session
from connectors.redis import RedisCounts
from pipelines.domain.counter import PnCount, RegionTotal
from pipelines.domain.version import Version
from pipelines.settings import Settings
from tests.support import Likes

pytestmark = pytest.mark.integration

NOW_MS = 1_767_225_600_000
CONTENTS = 2_500


def totals(generation: int, contents: int) -> list[RegionTotal]:
    return [
        RegionTotal(f"v{n}", region, PnCount(n, 1, 2, 0), Version(generation, 1, n + 1).pack(), NOW_MS + n)
        for n in range(1, contents + 1)
        for region in ("us", "eu")
    ]


def test_a_rebuild_makes_redis_what_cassandra_is(likes: Likes, settings: Settings) -> None:
    with open_session(settings) as session:
        ensure_schema(session, settings)
        stats = ContentStats(session)
        live, other = (Generations(session).create_next("{}", NOW_MS) for _ in range(2))
        assert Pointer(session).compare_and_set(None, live)
        stats.write([*totals(live, CONTENTS), *totals(other, 3)])
        with redis.Redis.from_url(settings.redis.url.get_secret_value()) as client:
            client.hset(f"count:{{{live}:v1}}", mapping={"complete": "1", "r:us": f"{9:020d}|1|0|0|0|5"})
            client.hset(f"count:{{{live}:v2}}", "r:us", f"{9:020d}|1|0|0|0|5")

        done = likes("cache", "rebuild", settings=settings)
        assert done.returncode == 0
        assert done.stdout == f"loaded {CONTENTS} contents of generation {live}\n"
        ids = [f"v{n}" for n in range(1, CONTENTS + 1)]
        cache = RedisCounts(settings)
        try:
            found = cache.read(live, ids)
            expected = stats.read(live, ids)
            assert {name: set(regions or ()) for name, regions in found.items()} == {
                name: set(regions) for name, regions in expected.items()
            }
            assert cache.read(other, ["v1"]) == {"v1": None}
            done = likes("cache", "rebuild", "--generation", str(other), "--json", settings=settings)
            assert json.loads(done.stdout) == {"contents": 3, "generation": other}
            assert len(cache.read(other, ["v1"])["v1"] or ()) == 2
        finally:
            cache.close()


def test_before_anything_was_counted_there_is_nothing_to_load(likes: Likes, settings: Settings) -> None:
    done = likes("cache", "rebuild", "--json", settings=settings)
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"contents": 0, "generation": None}
    assert done.stderr == f"note: nothing has been counted in keyspace {settings.cassandra.keyspace}\n"

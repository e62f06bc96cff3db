"""The cache and the store step on real services: complete or a miss, newest version wins, zombies change nothing."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import redis

from connectors.cassandra import CassandraSession, ContentStats, Fences, Lease, Leases, ensure_schema, open_session
from connectors.redis import RedisCounts
from connectors.store import TotalsWriter, lease_name, publish, rebuild
from deploy.flink.local_stack import Stack
from pipelines.domain.bounds import PartOverflow
from pipelines.domain.counter import PnCount, RegionTotal
from pipelines.domain.version import Version
from pipelines.errors import ServiceUnavailable, Superseded
from pipelines.settings import Settings
from tests.support import FreshSettings, wait_until

pytestmark = pytest.mark.integration

STRANGE_IDS = ["héllo ❤️ 视频", "{braces}", "}{", 'it\'s "quoted"', "a|b:c{1:d}", " "]
OWNER = "this test's job"
NOW_MS = 1_700_000_000_000
LEASE = Lease(lease_name(1), OWNER, "here", 1, "the job", NOW_MS)
ROUNDS = 60


@pytest.fixture
def session(settings: Settings) -> Iterator[CassandraSession]:
    with open_session(settings) as opened:
        ensure_schema(opened, settings)
        yield opened


@pytest.fixture
def stats(session: CassandraSession) -> ContentStats:
    return ContentStats(session)


@pytest.fixture
def counts(settings: Settings) -> Iterator[RedisCounts]:
    opened = RedisCounts(settings)
    yield opened
    opened.close()


@pytest.fixture
def raw(settings: Settings) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(settings.redis.url.get_secret_value(), decode_responses=True) as client:
        yield client


def total(content_id: str, region: str = "us", *, likes: int = 1, epoch: int = 1, changes: int = 1) -> RegionTotal:
    return RegionTotal(content_id, region, PnCount(likes, 0, 2, 1), Version(1, epoch, changes).pack(), NOW_MS)


def fill(counts: RedisCounts, *totals: RegionTotal) -> None:
    """Make hashes complete with just these totals, all of one content."""
    applied = counts.apply(1, totals)
    assert counts.load(1, {totals[0].content_id: totals}, applied.token) == ()


def write(writer: TotalsWriter, *rows: tuple[str, str, int, int]) -> list[int]:
    """Write (content, region, likes, changes) rows."""
    ids, regions, likes, changes = zip(*rows, strict=True)
    zeros = [0] * len(rows)
    return writer.write(ids, regions, likes, zeros, zeros, zeros, changes, [NOW_MS] * len(rows))


# The cache alone


def test_a_hash_without_its_mark_is_a_miss(counts: RedisCounts, raw: redis.Redis) -> None:
    raw.hset("count:{1:partial}", "r:us", f"{7:020d}|1|0|0|0|5")
    assert counts.read(1, ["partial", "unknown"]) == {"partial": None, "unknown": None}
    applied = counts.apply(1, [total("partial", "eu")])
    assert applied.incomplete == ("partial",)
    assert counts.read(1, ["partial"]) == {"partial": None}
    assert raw.ttl("count:{1:partial}") in range(1, 31)
    assert counts.load(1, {"partial": [total("partial", "eu")]}, applied.token) == ()
    assert counts.read(1, ["partial"]) == {"partial": [total("partial", "eu")]}
    assert raw.ttl("count:{1:partial}") == -1
    assert raw.hget("count:{1:partial}", "fill") is None


def test_a_complete_hash_takes_what_is_newer_and_nothing_else(counts: RedisCounts) -> None:
    held = total("v", likes=5, epoch=2, changes=7)
    fill(counts, held)
    assert counts.apply(1, [held, total("v", likes=9, epoch=2, changes=6)]).outranked == ()
    assert counts.apply(1, [total("v", likes=9, epoch=1, changes=(1 << 33) - 1)]).outranked == ("v",)
    assert counts.read(1, ["v"]) == {"v": [held]}
    newer, other = total("v", likes=6, epoch=2, changes=8), total("v", "eu", epoch=1)
    assert counts.apply(1, [newer, other]).incomplete == ()
    assert counts.read(1, ["v"]) == {"v": [newer, other]}
    assert counts.read(2, ["v"]) == {"v": None}


@pytest.mark.parametrize("start", [2_147_483_640, 1 << 53, (1 << 63) - 3])
def test_64_bits_are_exact(counts: RedisCounts, start: int) -> None:
    """Lua and JSON would round here: neighbours must differ, in counts and in versions."""
    steps = [RegionTotal("big", "us", PnCount(start + n, start, 0, start), start + n, NOW_MS) for n in range(3)]
    fill(counts, steps[1])
    counts.apply(1, [steps[0]])
    assert counts.read(1, ["big"]) == {"big": [steps[1]]}
    counts.apply(1, [steps[2]])
    assert counts.read(1, ["big"]) == {"big": [steps[2]]}


@pytest.mark.parametrize("content_id", STRANGE_IDS)
def test_any_id_is_kept_as_it_is(counts: RedisCounts, content_id: str) -> None:
    fill(counts, total(content_id), total(content_id, "eu"))
    assert counts.read(1, [content_id]) == {content_id: [total(content_id), total(content_id, "eu")]}


def test_a_load_that_lost_its_token_does_nothing(counts: RedisCounts, raw: redis.Redis) -> None:
    stale, fresh = total("v", changes=1), total("v", changes=2)
    evicted = counts.apply(1, [stale])
    raw.delete("count:{1:v}")
    assert counts.load(1, {"v": [stale]}, evicted.token) == ("v",)
    assert counts.read(1, ["v"]) == {"v": None}

    overtaken, later = counts.apply(1, [stale]), counts.apply(1, [fresh])
    assert counts.load(1, {"v": [stale]}, overtaken.token) == ("v",)
    assert counts.read(1, ["v"]) == {"v": None}
    assert counts.load(1, {"v": [fresh]}, later.token) == ()
    assert counts.load(1, {"v": [stale]}, overtaken.token) == ("v",)
    assert counts.load(1, {"v": [stale]}, later.token) == ("v",)
    assert counts.read(1, ["v"]) == {"v": [fresh]}


def test_forgetting_makes_a_miss_that_its_token_can_load(counts: RedisCounts) -> None:
    fill(counts, total("v", epoch=9))
    token = counts.forget(1, ["v"])
    assert counts.read(1, ["v"]) == {"v": None}
    assert counts.load(1, {"v": [total("v")], "never counted": []}, token) == ()
    assert counts.read(1, ["v", "never counted"]) == {"v": [total("v")], "never counted": None}


@pytest.mark.parametrize("theirs", ["a string", "a field", "a short field"])
def test_what_somebody_else_wrote_is_a_miss_and_is_written_over(
    counts: RedisCounts, raw: redis.Redis, theirs: str
) -> None:
    key = "count:{1:v1}"
    fill(counts, total("v1"))
    if theirs == "a string":
        raw.delete(key)
        raw.set(key, "x")
    else:
        raw.hset(key, "r:us", "garbage" if theirs == "a field" else "9|1|0|0|0|0")
    fill(counts, total("v2", likes=3))
    assert counts.read(1, ["v1", "v2"]) == {"v1": None, "v2": [total("v2", likes=3)]}
    applied = counts.apply(1, [total("v1", changes=2)])
    assert applied.incomplete == ("v1",)
    assert counts.load(1, {"v1": [total("v1", changes=2)]}, applied.token) == ()
    assert counts.read(1, ["v1"]) == {"v1": [total("v1", changes=2)]}


def test_clearing_removes_one_generation_and_no_other(counts: RedisCounts) -> None:
    others = [replace(total("v"), version=Version(number, 1, 1).pack()) for number in (11, 2)]
    fill(counts, *(total(f"v{number}") for number in range(2_500)))
    for other in others:
        counts.load(other.generation, {"v": [other]}, counts.forget(other.generation, ["v"]))
    counts.clear(1)
    assert set(counts.read(1, [f"v{number}" for number in range(2_500)]).values()) == {None}
    assert [counts.read(other.generation, ["v"]) for other in others] == [{"v": [other]} for other in others]


def test_scripts_survive_being_flushed_and_batches_being_cut(fresh_settings: FreshSettings) -> None:
    settings = fresh_settings(redis={"batch_totals": 3})
    counts = RedisCounts(settings)
    totals = [total(f"v{number}", region, likes=number) for number in range(10) for region in ("us", "eu")]
    applied = counts.apply(1, totals)
    assert applied.incomplete == tuple(f"v{number}" for number in range(10))
    with redis.Redis.from_url(settings.redis.url.get_secret_value()) as client:
        client.script_flush()
    partitions = {content_id: [t for t in totals if t.content_id == content_id] for content_id in applied.incomplete}
    assert counts.load(1, partitions, applied.token) == ()
    assert counts.read(1, list(partitions)) == partitions
    counts.close()


def test_life_is_a_setting_and_every_write_renews_it(fresh_settings: FreshSettings) -> None:
    settings = fresh_settings(redis={"ttl_s": 100})
    counts = RedisCounts(settings)
    fill(counts, total("v"))
    with redis.Redis.from_url(settings.redis.url.get_secret_value()) as client:
        assert 30 < client.ttl("count:{1:v}") <= 100
        client.expire("count:{1:v}", 5)
        counts.apply(1, [total("v", changes=2)])
        assert 30 < client.ttl("count:{1:v}") <= 100
    counts.close()


# Both stores


def test_writers_of_two_regions_race_while_hashes_are_evicted(
    settings: Settings, stats: ContentStats, counts: RedisCounts, raw: redis.Redis
) -> None:
    """Whatever interleaves: a hash is a miss or what Cassandra has, versions only grow, and nothing is lost."""
    ids = [f"v{number}" for number in range(5)]
    stop = threading.Event()
    with ThreadPoolExecutor(4) as pool:
        others = [pool.submit(evict, raw, ids, stop), pool.submit(watch, counts, ids, stop)]
        writers = [
            pool.submit(publish_rounds, settings, stats, ids, region, epoch)
            for epoch, region in enumerate(("us", "eu"), start=1)
        ]
        try:
            for writer in writers:
                writer.result()
        finally:
            stop.set()
        for other in others:
            assert other.result() > 50  # it did interfere
    recorded = stats.read(1, ids)
    assert {len(rows) for rows in recorded.values()} == {2}
    assert {row.pn.likes_p for rows in recorded.values() for row in rows} == {ROUNDS}
    for content_id, rows in counts.read(1, ids).items():
        assert rows is None or by_region(rows) == by_region(recorded[content_id])


def publish_rounds(settings: Settings, stats: ContentStats, ids: list[str], region: str, epoch: int) -> None:
    mine = RedisCounts(settings)
    for number in range(1, ROUNDS + 1):
        totals = [total(content_id, region, likes=number, epoch=epoch, changes=number) for content_id in ids]
        stats.write(totals)
        assert publish(stats, mine, 1, totals) == ()
    mine.close()


def evict(raw: redis.Redis, ids: list[str], stop: threading.Event) -> int:
    seeded = random.Random(7)
    done = 0
    while not stop.wait(0.001):
        raw.delete(f"count:{{1:{seeded.choice(ids)}}}")
        done += 1
    return done


def watch(counts: RedisCounts, ids: list[str], stop: threading.Event) -> int:
    newest: dict[tuple[str, str], int] = {}
    hits = 0
    while not stop.wait(0.001):
        for content_id, rows in counts.read(1, ids).items():
            for row in rows or []:
                key = (content_id, row.region)
                assert row.version >= newest.get(key, 0), key
                newest[key] = row.version
                hits += 1
    return hits


def by_region(rows: list[RegionTotal]) -> list[RegionTotal]:
    return sorted(rows, key=lambda row: row.region)


def test_a_writer_brings_totals_into_both_stores(
    settings: Settings, session: CassandraSession, stats: ContentStats, counts: RedisCounts
) -> None:
    stats.write([total("v1", "ap", likes=3)])  # of an earlier run
    Fences(session).claim(1, OWNER)
    with TotalsWriter(settings, 1, LEASE, 0, now_ms=lambda: NOW_MS) as writer:
        assert writer.epoch == Fences(session).read(1).latest == 1
        likes_p, likes_n, dislikes_p, dislikes_n, changes = (
            np.array(column, dtype=np.int64)
            for column in ([5, 2_147_483_647, 4], [1, 0, 0], [2, 0, 2], [2, 0, 1], [9, 3, 7])
        )
        versions = writer.write(
            ["v1", "v2", "v1"],
            ["us", "eu", "us"],
            likes_p,
            likes_n,
            dislikes_p,
            dislikes_n,
            changes,
            [NOW_MS + 5, NOW_MS - 5, 1],
        )
    assert versions == [Version(1, 1, changes).pack() for changes in (9, 3, 7)]
    expected = {
        "v1": [
            total("v1", "ap", likes=3),
            RegionTotal("v1", "us", PnCount(5, 1, 2, 2), versions[0], NOW_MS),
        ],
        "v2": [RegionTotal("v2", "eu", PnCount(2_147_483_647, 0, 0, 0), versions[1], NOW_MS - 5)],
    }
    assert stats.read(1, ["v1", "v2"]) == expected
    assert counts.read(1, ["v1", "v2"]) == expected
    with TotalsWriter(settings, 1, LEASE, 1) as again, pytest.raises(PartOverflow, match="changes"):
        write(again, ("v1", "us", 5, 1 << 33))
    assert again.epoch == 2


def test_a_newer_attempt_supersedes_an_older_one(
    settings: Settings, session: CassandraSession, stats: ContentStats, counts: RedisCounts
) -> None:
    clock = iter(range(100_000))  # seconds pass between checks
    Fences(session).claim(1, OWNER)
    old = TotalsWriter(settings, 1, LEASE, 0, clock=lambda: float(next(clock)))
    with old, TotalsWriter(settings, 1, LEASE, 0) as sibling:
        assert sibling.epoch == old.epoch
        write(old, ("v", "us", 1, 1))
        Fences(session).take(1, OWNER, 1)
        with pytest.raises(Superseded, match="epoch 1 of generation 1 is superseded by 2"):
            write(old, ("v", "us", 2, 2))
    assert stats.read(1, ["v"])["v"][0].pn.likes_p == 1
    assert counts.read(1, ["v"]) == stats.read(1, ["v"])


def test_a_zombie_that_believes_in_itself_changes_nothing(
    settings: Settings, session: CassandraSession, stats: ContentStats, counts: RedisCounts, raw: redis.Redis
) -> None:
    """It was paused after its last check, so it writes; its versions lose in both stores, and it is told."""
    Fences(session).claim(1, OWNER)
    with TotalsWriter(settings, 1, LEASE, 0, clock=lambda: 0.0) as zombie:
        write(zombie, ("v", "us", 1, 1))
        with TotalsWriter(settings, 1, LEASE, 1) as living:
            (version,) = write(living, ("v", "us", 7, 2))
            with pytest.raises(Superseded, match="Redis holds a newer total of 'v'"):
                write(zombie, ("v", "us", 99, 1_000))
            raw.flushdb()
            write(zombie, ("v", "us", 99, 1_001))  # where the cache is empty it loads what Cassandra has
    for found in (stats.read(1, ["v"]), counts.read(1, ["v"])):
        (row,) = found["v"] or []
        assert (row.pn.likes_p, row.version) == (7, version)


def test_a_writer_keeps_its_jobs_lease_and_stops_when_it_is_lost(
    fresh_settings: FreshSettings,
) -> None:
    settings = fresh_settings(job={"lease_ttl_s": 6})
    with open_session(settings) as session:
        ensure_schema(session, settings)
        leases = Leases(session)
        mine = LEASE
        theirs = Lease(lease_name(1), "another", "there", 2, "another job", NOW_MS)
        leases.acquire(mine, 6)
        Fences(session).claim(1, OWNER)
        with TotalsWriter(settings, 1, LEASE, 0) as writer:
            left = [seconds_left(session)]

            def renewed() -> bool:
                left.append(seconds_left(session))
                return left[-1] > left[-2]

            wait_until(renewed, what="the lease is renewed")
            assert leases.read(lease_name(1)) == mine
            leases.release(mine)
            wait_until(lambda: leases.read(lease_name(1)) is not None, what="a lease that ran out is taken again")
            held = leases.read(lease_name(1))
            assert held is not None
            leases.release(held)
            leases.acquire(theirs, 60)

            def lost() -> bool:
                try:
                    write(writer, ("v", "us", 1, 1))
                except Superseded as error:
                    return "lease was lost: like-counts/1 is held by another job" in error.message
                return False

            wait_until(lost, what="the writer notices")
        with pytest.raises(Superseded, match="lease was lost"):
            TotalsWriter(settings, 1, LEASE, 1).open()
        assert Fences(session).read(1).latest == 1


def seconds_left(session: CassandraSession) -> int:
    ((seconds,),) = session.rows("SELECT ttl(owner) FROM {keyspace}.leases WHERE name = ?", (lease_name(1),))
    return int(seconds)


def test_rebuilding_makes_the_cache_what_cassandra_has(stats: ContentStats, counts: RedisCounts) -> None:
    written = [total(f"v{number}", region, likes=number) for number in range(100) for region in ("eu", "us")]
    stats.write(written)
    stats.write([RegionTotal("v0", "us", PnCount(), Version(2, 1, 1).pack(), 0)])
    fill(counts, total("v1", likes=77, epoch=9))  # from before Cassandra was restored from a backup
    progress = list(rebuild(stats, counts, 1))
    assert progress == sorted(progress)
    assert progress[-1] == 100
    assert counts.read(1, [f"v{number}" for number in range(100)]) == {
        f"v{number}": [total(f"v{number}", region, likes=number) for region in ("eu", "us")] for number in range(100)
    }
    assert set(rebuild(stats, counts, 3)) == {0}


def test_redis_restarts_empty_while_a_writer_runs(fresh_settings: FreshSettings, stack: Stack) -> None:
    settings = fresh_settings(retry={"attempts": 2, "initial_ms": 1, "max_ms": 5})
    with open_session(settings) as session:
        ensure_schema(session, settings)
        stats, counts = ContentStats(session), RedisCounts(settings)
        Fences(session).claim(1, OWNER)
        with TotalsWriter(settings, 1, LEASE, 0) as writer:
            write(writer, ("v", "us", 1, 1), ("w", "us", 1, 1))
            stack.services()["redis"].kill()
            try:
                with pytest.raises(ServiceUnavailable, match=r"Redis at .* does not answer"):
                    write(writer, ("v", "us", 2, 2))
            finally:
                stack.services()["redis"].start()
            assert counts.read(1, ["v", "w"]) == {"v": None, "w": None}
            write(writer, ("v", "us", 2, 2))
        assert counts.read(1, ["v", "w"]) == {**stats.read(1, ["v"]), "w": None}
        list(rebuild(stats, counts, 1))
        assert counts.read(1, ["v", "w"]) == stats.read(1, ["v", "w"])
        counts.close()

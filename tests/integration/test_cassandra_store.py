"""The system of record on a real Cassandra: whatever is repeated, late or concurrent, the newest version wins."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

import pytest

from connectors.cassandra import (
    CassandraSession,
    ContentStats,
    Fences,
    Generations,
    Lease,
    Leases,
    Pointer,
    UserLike,
    UserLikes,
    ensure_schema,
    open_session,
)
from pipelines.domain.bounds import PartOverflow
from pipelines.domain.counter import PnCount, RegionTotal
from pipelines.domain.fence import Fence
from pipelines.domain.register import Reaction, pack
from pipelines.domain.version import Version
from pipelines.errors import Refused, ServiceUnavailable, Superseded
from pipelines.settings import Settings
from tests.support import FreshSettings, wait_until

pytestmark = pytest.mark.integration

T = TypeVar("T")

STRANGE_IDS = ["héllo ❤️ 视频", "{braces}", 'it\'s "quoted"', "a|b:c{1:d}", "%s ? $1 --", " "]
VIRAL = 2_147_483_640


@pytest.fixture(scope="module")
def store_settings(fresh_settings: FreshSettings) -> Settings:
    return fresh_settings()


@pytest.fixture(scope="module")
def session(store_settings: Settings) -> Iterator[CassandraSession]:
    with open_session(store_settings) as opened:
        ensure_schema(opened, store_settings)
        yield opened


def total(content_id: str, region: str = "us", *, likes: int = 1, epoch: int = 1, changes: int = 1) -> RegionTotal:
    return RegionTotal(
        content_id, region, PnCount(likes, 0, 2, 1), Version(1, epoch, changes).pack(), 1_700_000_000_123
    )


def at_once(number: int, call: Callable[[int], T]) -> list[T]:
    """Call from several threads that start together."""
    barrier = threading.Barrier(number)

    def run(index: int) -> T:
        barrier.wait()
        return call(index)

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(run, range(number)))


def test_the_schema_is_created_once_by_many(fresh_settings: FreshSettings) -> None:
    settings = fresh_settings()

    def create(_: int) -> None:
        with open_session(settings) as opened:
            ensure_schema(opened, settings)
            ensure_schema(opened, settings)

    at_once(4, create)
    with open_session(settings) as opened:
        tables = opened.rows("SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?", (opened.keyspace,))
        assert {name for (name,) in tables} == {
            "content_stats",
            "user_likes",
            "generations",
            "pointer",
            "epochs",
            "leases",
        }


def test_network_topology_is_a_setting(fresh_settings: FreshSettings) -> None:
    settings = fresh_settings(cassandra={"replication": {"datacenter1": 1}})
    with open_session(settings) as opened:
        ensure_schema(opened, settings)
        ((replication,),) = opened.rows(
            "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?", (opened.keyspace,)
        )
        assert replication == {"class": "org.apache.cassandra.locator.NetworkTopologyStrategy", "datacenter1": "1"}
        stats = ContentStats(opened)
        stats.write([total("v")])
        assert stats.read(1, ["v"]) == {"v": [total("v")]}


def test_writing_again_changes_nothing_and_an_older_version_loses(session: CassandraSession) -> None:
    stats = ContentStats(session)
    newest = total("rewritten", likes=5, epoch=2, changes=3)
    older = [
        total("rewritten", likes=9, epoch=2, changes=2),
        total("rewritten", likes=9, epoch=1, changes=8_589_934_591),
    ]
    stats.write([newest])
    stats.write([newest, newest])
    stats.write(older)
    stats.write([*older, newest, *older])
    assert stats.read(1, ["rewritten"]) == {"rewritten": [newest]}


def test_a_plain_edit_is_older_than_any_version(session: CassandraSession) -> None:
    stats = ContentStats(session)
    stats.write([total("edited")])
    row = "WHERE generation = 1 AND content_id = 'edited' AND region = 'us'"
    session.rows(f"UPDATE {{keyspace}}.content_stats SET likes_p = 0 {row}")
    session.rows("DELETE FROM {keyspace}.content_stats WHERE generation = 1 AND content_id = 'edited'")
    assert stats.read(1, ["edited"]) == {"edited": [total("edited")]}


@pytest.mark.parametrize("content_id", STRANGE_IDS)
def test_any_id_is_kept_as_it_is(session: CassandraSession, content_id: str) -> None:
    stats = ContentStats(session)
    stats.write([total(content_id), total(content_id, "eu")])
    assert stats.read(1, [content_id]) == {content_id: [total(content_id, "eu"), total(content_id, "us")]}


def test_64_bits_are_exact(session: CassandraSession) -> None:
    stats = ContentStats(session)
    top = (1 << 63) - 1
    large = [
        RegionTotal("large", f"r{number}", PnCount(value, value - 1, value - 2, 0), Version(511, 7, number).pack(), 1)
        for number, value in enumerate([VIRAL, VIRAL + 100, (1 << 53) + 1, top])
    ]
    stats.write(large)
    assert stats.read(511, ["large"]) == {"large": large}


def test_reading_many_knows_what_is_missing_and_generations_do_not_mix(session: CassandraSession) -> None:
    stats = ContentStats(session)
    stats.write([total(f"many-{number}", likes=number) for number in range(1_000)])
    asked = [f"many-{number}" for number in range(0, 2_000, 2)]
    found = stats.read(1, [*asked, *asked])
    assert list(found) == asked
    assert [rows[0].pn.likes_p if rows else None for rows in found.values()] == [
        *range(0, 1_000, 2),
        *[None] * 500,
    ]
    assert not any(stats.read(2, asked).values())
    assert stats.read(1, []) == {}
    stats.write([])


def test_scanning_yields_each_row_of_the_generation_once(
    session: CassandraSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.cassandra.stats._SCAN_PAGE_ROWS", 7)
    stats = ContentStats(session)
    written = [
        RegionTotal(f"scan-{number}", region, PnCount(number), Version(9, 1, number).pack(), number)
        for number in range(500)
        for region in ("eu", "us")
    ]
    stats.write(written)
    stats.write([total("of another generation")])
    scanned = list(stats.scan(9))
    assert sorted(scanned, key=lambda row: (row.as_of_ms, row.region)) == written
    assert list(stats.scan(10)) == []


def test_user_likes_keep_the_largest_register(session: CassandraSession) -> None:
    likes = UserLikes(session)
    tie = [pack(1_700_000_000_000, reaction, 0) for reaction in Reaction]
    likes.upsert([UserLike("u1", "v1", register) for register in reversed(tie)])
    likes.upsert([UserLike("u1", "v1", min(tie)), UserLike("u1", STRANGE_IDS[0], 1)])
    assert likes.read("u1") == {"v1": max(tie), STRANGE_IDS[0]: 1}
    assert likes.read("nobody") == {}
    likes.upsert([])


def test_an_attempt_shares_one_epoch_and_each_attempt_has_a_newer_one(session: CassandraSession) -> None:
    fences = Fences(session)
    assert fences.read(100) == Fence()
    with pytest.raises(Superseded, match="belongs to no run"):
        fences.take(100, "run", 0)
    assert fences.claim(100, "run") == Fence(0, "run")
    fences.begin(100, "run", "checkpoints/a/chk-1")
    taken = at_once(8, lambda _: [fences.take(100, "run", 0) for _ in range(2)])
    assert {epoch for mine in taken for epoch in mine} == {1}
    assert fences.take(100, "run", 3) == 2
    with pytest.raises(Superseded, match="attempt 3 has begun"):
        fences.take(100, "run", 2)
    fences.claim(100, "next")
    assert fences.read(100) == Fence(2, "next", -1, "run", "checkpoints/a/chk-1")
    with pytest.raises(Superseded, match="may not begin"):
        fences.begin(100, "run", "")
    with pytest.raises(Superseded, match="belongs to next"):
        fences.take(100, "run", 4)
    assert fences.take(100, "next", 0) == 3


def test_a_take_whose_answer_is_lost_has_taken_its_epoch(
    session: CassandraSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    fences = Fences(session)
    fences.claim(102, "run")
    lose_answers(session, monkeypatch, 1)
    assert fences.take(102, "run", 0) == 1
    assert fences.read(102) == Fence(1, "run", 0)


def test_epochs_end_by_name(session: CassandraSession) -> None:
    last = "UPDATE {keyspace}.epochs SET latest = ?, owner = ?, attempt = ? WHERE generation = ? IF latest = NULL"
    session.rows(last, ((1 << 21) - 1, "run", 0, 103))
    with pytest.raises(PartOverflow, match="epoch 2097152"):
        Fences(session).take(103, "run", 1)


def test_the_pointer_moves_only_from_where_it_is(session: CassandraSession, monkeypatch: pytest.MonkeyPatch) -> None:
    pointer = Pointer(session)
    assert pointer.read() is None
    assert not pointer.compare_and_set(1, 2)
    assert sorted(at_once(4, lambda index: pointer.compare_and_set(None, index + 1))) == [False, False, False, True]
    live = pointer.read()
    assert live is not None
    assert not pointer.compare_and_set(None, 9)
    assert pointer.compare_and_set(live, 9)
    lose_answers(session, monkeypatch, 1)
    assert pointer.compare_and_set(9, 10)
    assert pointer.read() == 10


def test_generations_are_numbered_once_and_end_by_name(fresh_settings: FreshSettings) -> None:
    settings = fresh_settings()
    with open_session(settings) as opened:
        ensure_schema(opened, settings)
        generations = Generations(opened)
        assert generations.all() == []
        assert sorted(at_once(4, lambda index: generations.create_next(f"rules {index}", 1_700_000_000_123))) == [
            1,
            2,
            3,
            4,
        ]
        assert [known.generation for known in generations.all()] == [1, 2, 3, 4]
        assert sorted(known.rules for known in generations.all()) == [f"rules {index}" for index in range(4)]
        assert {known.created_at_ms for known in generations.all()} == {1_700_000_000_123}
        opened.rows("INSERT INTO {keyspace}.generations (generation, rules) VALUES (511, 'last') IF NOT EXISTS")
        with pytest.raises(Refused, match="all 511 generations"):
            generations.create_next("one more", 1)


def lease(name: str, owner: str) -> Lease:
    return Lease(name, owner, "host-a", 4321, f"job of {owner}", 1_700_000_000_123)


def test_a_lease_has_one_owner_who_may_renew_and_release_it(session: CassandraSession) -> None:
    leases = Leases(session)
    mine, theirs = lease("like-counts/1", "mine"), lease("like-counts/1", "theirs")
    assert leases.read("like-counts/1") is None
    assert leases.acquire(mine, 60) == mine
    assert leases.acquire(replace(mine, pid=1), 60) == mine
    assert leases.read("like-counts/1") == mine
    with pytest.raises(Refused, match=r"like-counts/1 is held by job of mine \(pid 4321 on host-a, since 2023-11-14"):
        leases.acquire(theirs, 60)
    assert leases.renew(mine, 60)
    assert not leases.renew(theirs, 60)
    leases.release(theirs)
    assert leases.read("like-counts/1") == mine
    leases.release(mine)
    assert leases.read("like-counts/1") is None
    assert not leases.renew(mine, 60)
    assert leases.acquire(theirs, 60) == theirs


def test_of_many_starters_one_gets_the_lease(session: CassandraSession) -> None:
    leases = Leases(session)

    def start(index: int) -> bool:
        try:
            leases.acquire(lease("race", f"job-{index}"), 60)
        except Refused:
            return False
        return True

    assert sum(at_once(8, start)) == 1


def test_a_lease_runs_out_unless_it_is_renewed(session: CassandraSession) -> None:
    leases = Leases(session)
    mine, theirs = lease("short", "mine"), lease("short", "theirs")
    leases.acquire(mine, 2)
    started = time.monotonic()
    while time.monotonic() - started < 3:
        assert leases.renew(mine, 2)
    assert leases.read("short") == mine
    wait_until(lambda: leases.read("short") is None, 10, what="the lease runs out")
    assert not leases.renew(mine, 2)
    assert leases.acquire(theirs, 60) == theirs


def test_lease_changes_whose_answer_is_lost_are_settled(
    session: CassandraSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = Leases(session)
    mine = lease("unsure", "mine")
    lose_answers(session, monkeypatch, 1)
    assert leases.acquire(mine, 60) == mine
    lose_answers(session, monkeypatch, 1)
    assert leases.renew(mine, 60)
    lose_answers(session, monkeypatch, 1)
    leases.release(mine)
    assert leases.read("unsure") is None


def test_a_write_that_cannot_be_answered_names_the_service(session: CassandraSession, stack_down: Settings) -> None:
    with (
        pytest.raises(ServiceUnavailable, match=r"Cassandra at 127\.0\.0\.1:1 does not answer"),
        open_session(stack_down),
    ):
        pass
    assert session.rows("SELECT release_version FROM system.local")  # ours is as it was


@pytest.fixture
def stack_down(fresh_settings: FreshSettings) -> Settings:
    return fresh_settings(
        cassandra={"hosts": "127.0.0.1", "port": 1}, retry={"attempts": 2, "initial_ms": 10, "max_ms": 10}
    )


def lose_answers(session: CassandraSession, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The next transactions happen, but their answers get lost, as after a timeout."""
    real = session.compare_and_set
    left = iter(range(number))

    def lossy(query: str, parameters: tuple[object, ...]) -> bool | None:
        answer = real(query, parameters)
        return answer if next(left, None) is None else None

    monkeypatch.setattr(session, "compare_and_set", lossy)

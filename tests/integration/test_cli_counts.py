"""`likes counts` against real stores that were written through the job's own writer."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
import redis

from connectors.cassandra import (
    CassandraSession,
    Fences,
    Generations,
    Lease,
    Leases,
    Pointer,
    ensure_schema,
    open_session,
)
from connectors.store import TotalsWriter, lease_name
from pipelines.domain.version import Version
from pipelines.settings import Settings
from tests.support import Likes

pytestmark = pytest.mark.integration

NOW_MS = 1_767_225_600_123
OWNER = "this test's job"


@pytest.fixture
def session(settings: Settings) -> Iterator[CassandraSession]:
    with open_session(settings) as opened:
        ensure_schema(opened, settings)
        yield opened


def count(settings: Settings, session: CassandraSession, generation: int, *rows: tuple[str, str, int, int]) -> int:
    """Store (content, region, likes, dislikes); returns the writer's epoch."""
    lease = Leases(session).acquire(Lease(lease_name(generation), OWNER, "here", 1, "test", NOW_MS), 60)
    ids, regions, likes, dislikes = zip(*rows, strict=True)
    zeros, changes = [0] * len(rows), [n + 1 for n in range(len(rows))]
    Fences(session).claim(generation, OWNER)
    with TotalsWriter(settings, generation, lease, 0) as writer:
        writer.write(ids, regions, likes, zeros, dislikes, zeros, changes, [NOW_MS + change for change in changes])
        return writer.epoch


def new_generation(session: CassandraSession, expected: int | None) -> int:
    generation = Generations(session).create_next("{}", NOW_MS)
    assert Pointer(session).compare_and_set(expected, generation)
    return generation


def test_counts_are_the_same_in_both_stores(likes: Likes, settings: Settings, session: CassandraSession) -> None:
    generation = new_generation(session, None)
    rows = [("v1", "us", 2**31 + 5, 1), ("v1", "eu", 3, 0), ("héllo [red]❤️", "us", 0, 2), ("-", "us", 9, 9)]
    epoch = count(settings, session, generation, *rows)
    ids = ["v1", "nobody", "héllo [red]❤️", "v1", "x" * 65, ""]
    done = likes("counts", *ids, "--json", settings=settings)
    assert (done.returncode, done.stderr) == (0, "")
    shown = json.loads(done.stdout)
    assert [content["content_id"] for content in shown] == ids
    assert [(content["likes"], content["dislikes"], content["known"]) for content in shown] == [
        (2**31 + 8, 1, True),
        (0, 0, False),
        (0, 2, True),
        (2**31 + 8, 1, True),
        (0, 0, False),
        (0, 0, False),
    ]
    assert shown[0] == {
        "content_id": "v1",
        "likes": 2**31 + 8,
        "dislikes": 1,
        "version": Version(generation, epoch, 2).pack(),
        "as_of": "2026-01-01T00:00:00.125Z",
        "known": True,
        "regions": {
            "eu": {
                "likes_p": 3,
                "likes_n": 0,
                "dislikes_p": 0,
                "dislikes_n": 0,
                "version": Version(generation, epoch, 2).pack(),
                "as_of": "2026-01-01T00:00:00.125Z",
            },
            "us": {
                "likes_p": 2**31 + 5,
                "likes_n": 0,
                "dislikes_p": 1,
                "dislikes_n": 0,
                "version": Version(generation, epoch, 1).pack(),
                "as_of": "2026-01-01T00:00:00.124Z",
            },
        },
        "source": "cassandra",
        "generation": generation,
    }
    cached = json.loads(likes("counts", *ids, "--from", "redis", "--json", settings=settings).stdout)
    assert [content["missing"] for content in cached] == [False, True, False, False, True, True]
    assert [content["likes"] for content in cached] == [2**31 + 8, None, 0, 2**31 + 8, None, None]
    assert cached[0] == {**shown[0], "source": "redis", "missing": False}

    table = likes("counts", *ids[:3], settings=settings).stdout.splitlines()
    assert " ".join(table[1].split()) == "v1 2147483656 1 2026-01-01T00:00:00.125Z eu 3 0 · us 2147483653 1"
    assert " ".join(table[2].split()) == "nobody 0 0 not known"
    assert table[3].startswith("héllo [red]❤️")
    cached_table = likes("counts", "nobody", "--from", "redis", settings=settings).stdout
    assert cached_table.splitlines()[1].split() == ["nobody", "missing", "missing"]


def test_ids_come_from_stdin_too(likes: Likes, settings: Settings, session: CassandraSession) -> None:
    count(settings, session, new_generation(session, None), ("v1", "us", 1, 0), (" ", "us", 2, 0))
    done = likes("counts", "v0", "-", "--json", settings=settings, stdin="v1\r\n \nhé".encode())
    assert [(content["content_id"], content["likes"]) for content in json.loads(done.stdout)] == [
        ("v0", 0),
        ("v1", 1),
        (" ", 2),
        ("hé", 0),
    ]
    done = likes("counts", "-", "--json", settings=settings, stdin=b"\xff\n")
    assert (done.returncode, done.stdout) == (6, "")


def test_a_redis_that_forgot_is_missing_and_no_number(
    likes: Likes, settings: Settings, session: CassandraSession
) -> None:
    count(settings, session, new_generation(session, None), ("v1", "us", 7, 1))
    with redis.Redis.from_url(settings.redis.url.get_secret_value()) as client:
        client.flushdb()
    (shown,) = json.loads(likes("counts", "v1", "--from", "redis", "--json", settings=settings).stdout)
    assert shown["missing"] is True
    assert shown["likes"] is None
    assert shown["known"] is False
    (shown,) = json.loads(likes("counts", "v1", "--json", settings=settings).stdout)
    assert shown["likes"] == 7


def test_the_live_generation_is_read_unless_another_is_named(
    likes: Likes, settings: Settings, session: CassandraSession
) -> None:
    first = new_generation(session, None)
    count(settings, session, first, ("v1", "us", 7, 1))
    second = new_generation(session, first)
    count(settings, session, second, ("v1", "us", 8, 1))
    for source in ("cassandra", "redis"):
        for wanted, number in (("live", 8), (str(first), 7), (str(second), 8)):
            arguments = ("counts", "v1", "--json", "--from", source, "--generation", wanted)
            (shown,) = json.loads(likes(*arguments, settings=settings).stdout)
            assert (shown["likes"], shown["version"] >> 54) == (number, shown["generation"])


def test_before_anything_was_counted_everything_is_unknown(likes: Likes, settings: Settings) -> None:
    for arguments in (["v1"], ["v1", "--generation", "3"]):
        done = likes("counts", *arguments, "--json", settings=settings)
        (shown,) = json.loads(done.stdout)
        assert done.returncode == 0
        assert (shown["likes"], shown["known"], shown["version"], shown["as_of"]) == (0, False, 0, None)
    (shown,) = json.loads(likes("counts", "v1", "--from", "redis", "--json", settings=settings).stdout)
    assert shown["missing"] is True
    with open_session(settings) as session:  # and asking has created nothing
        assert session.rows("SELECT * FROM system_schema.tables WHERE keyspace_name = ?", (session.keyspace,)) == []
        ensure_schema(session, settings)
    (shown,) = json.loads(likes("counts", "v1", "--json", settings=settings).stdout)
    assert (shown["known"], shown["generation"]) == (False, None)


def test_a_store_that_is_not_there_is_one_line(likes: Likes, settings: Settings) -> None:
    retry = settings.retry.model_copy(update={"attempts": 2})
    nowhere = settings.redis.model_validate({"url": "redis://127.0.0.1:1/0"})
    away = settings.model_copy(update={"redis": nowhere, "retry": retry})
    started = time.monotonic()
    done = likes("counts", "v1", "--from", "redis", "--generation", "1", settings=away)
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.splitlines()[-1].startswith("error: Redis at 127.0.0.1:1 does not answer")
    assert time.monotonic() - started < 60

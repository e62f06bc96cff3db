"""`likes dead-letters` on a real topic. The dead letters are written here as the job writes them, at least once."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from connectors.kafka import (
    Publisher,
    beginning_offsets,
    committed_offsets,
    end_offsets,
    ensure_topics,
    read_topic,
)
from pipelines.domain.dead_letters import DeadLetter
from pipelines.domain.events import REASONS
from pipelines.settings import Settings
from tests.support import FreshSettings, Likes

pytestmark = pytest.mark.integration

FIRST_MS = 1_767_225_600_000
MARS = b'{"content_id": "v1", "user_id": "u%d", "action": "LIKE", "region": "mars"}'
LOUD = b'{"content_id": "v1", "user_id": "u9", "action": "like", "event_time": 1767225600000}'
GROUP = "likes-dead-letters-replay"


def letter(reason: str, offset: int, value: bytes | None, partition: int = 0) -> DeadLetter:
    return DeadLetter(reason, REASONS[reason], "like-events", partition, offset, FIRST_MS + offset, value)


def write(settings: Settings, letters: Sequence[DeadLetter | bytes], key: bytes = b"one") -> None:
    """Put dead letters, or other bytes, into the topic; equal keys share a partition and so keep their order."""
    with Publisher(settings, settings.kafka.dead_letters_topic) as publisher:
        for item in letters:
            publisher.send(item if isinstance(item, bytes) else json.dumps(item.to_message()).encode(), key)


def sent(settings: Settings) -> list[bytes | None]:
    topic = settings.kafka.events_topic
    records = read_topic(settings, topic, beginning_offsets(settings, topic), end_offsets(settings, topic))
    return [record.value for record in records]


def replay(likes: Likes, settings: Settings, *arguments: str, code: int = 0) -> dict[str, object]:
    """Replay and return the summary."""
    done = likes("dead-letters", "replay", *arguments, "--json", settings=settings)
    assert done.returncode == code, done.stderr
    summary: dict[str, object] = json.loads(done.stdout)
    return summary


@pytest.fixture
def topics(settings: Settings) -> Settings:
    ensure_topics(settings, 1)
    return settings


def test_each_dead_letter_is_listed_once_in_order_of_time(likes: Likes, topics: Settings) -> None:
    letters = [
        letter("unknown_region", 2, MARS % 1),
        letter("not_utf8", 3, b"\xff\x1b[31m"),
        letter("tombstone", 4, None),
        letter("not_json", 1, "[red]é".encode(), partition=1),
    ]
    write(topics, [*letters, *letters, b"foreign"])
    write(topics, letters, b"another key")
    in_order = [letters[3], letters[0], letters[1], letters[2]]
    done = likes("dead-letters", "list", "--json", settings=topics)
    assert done.returncode == 0
    assert json.loads(done.stdout) == [found.to_message() for found in in_order]
    assert done.stderr.splitlines()[-1] == "note: records of the topic that are no dead letters: 1"
    newest = likes("dead-letters", "list", "--json", "--limit", "2", settings=topics)
    assert json.loads(newest.stdout) == [found.to_message() for found in in_order[2:]]
    one = likes("dead-letters", "list", "--json", "--reason", "not_json", settings=topics)
    assert json.loads(one.stdout) == [letters[3].to_message()]
    summary = likes("dead-letters", "list", "--summary", "--json", settings=topics)
    assert json.loads(summary.stdout) == {
        "total": 4,
        "reasons": {"unknown_region": 1, "not_utf8": 1, "tombstone": 1, "not_json": 1},
    }
    table = likes("dead-letters", "list", settings=topics).stdout
    assert "\x1b" not in table
    assert table.splitlines()[1].split(maxsplit=4) == [
        "like-events-1@1",
        "2026-01-01",
        "00:00:00",
        "not_json",
        "'[red]é'",
    ]
    assert "total" in likes("dead-letters", "list", "--summary", settings=topics).stdout


def test_no_dead_letters(likes: Likes, topics: Settings) -> None:
    done = likes("dead-letters", "list", settings=topics)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "no dead letters\n")
    assert json.loads(likes("dead-letters", "list", "--json", settings=topics).stdout) == []
    assert json.loads(likes("dead-letters", "list", "--summary", "--json", settings=topics).stdout)["total"] == 0
    assert replay(likes, topics, "--policy", "stop")["looked_at"] == 0


def test_drop_deals_with_them_and_a_second_replay_goes_on(likes: Likes, topics: Settings) -> None:
    letters = [letter("unknown_region", n, MARS % n) for n in range(5)]
    write(topics, letters)
    assert replay(likes, topics, "--policy", "drop", "--dry-run")["dropped"] == 5
    assert committed_offsets(topics, topics.kafka.dead_letters_topic, GROUP) == {}
    assert replay(likes, topics, "--policy", "drop", "--limit", "2")["dropped"] == 2
    # The job starts again and writes what it had written.
    write(topics, [*letters, letter("unknown_region", 9, MARS % 9)])
    summary = replay(likes, topics, "--policy", "drop")
    assert (summary["dropped"], summary["duplicates"]) == (4, 5)
    assert replay(likes, topics, "--policy", "drop")["looked_at"] == 0
    assert sent(topics) == []


def test_stop_resends_what_is_valid_by_now_until_something_is_not(likes: Likes, fresh_settings: FreshSettings) -> None:
    settings = fresh_settings(events={"regions": ("us", "mars")})
    ensure_topics(settings, 1)
    letters = [letter("unknown_region", n, MARS % n) for n in range(3)]
    write(settings, [letters[0], letters[0], letters[1], letter("unknown_action", 7, LOUD), letters[2]])
    done = likes("dead-letters", "replay", "--policy", "stop", settings=settings)
    assert done.returncode == 6
    assert done.stdout.startswith("3 dead letters: 2 resent, 0 dropped, 1 left")
    assert done.stderr.splitlines()[-1].startswith(
        "error: stopped at like-events-0@7: still rejected, unknown_action; "
    )
    dated = [(MARS % n).replace(b"}", b',"event_time":%d}' % (FIRST_MS + n)) for n in range(3)]
    assert sent(settings) == dated[:2]
    assert replay(likes, settings, "--policy", "stop", code=6)["resent"] == 0
    assert replay(likes, settings, "--policy", "drop", "--limit", "1")["dropped"] == 1
    assert replay(likes, settings, "--policy", "stop")["resent"] == 1
    assert sent(settings) == dated


def test_fix_resends_what_became_valid_and_leaves_the_rest(likes: Likes, topics: Settings) -> None:
    write(
        topics,
        [
            letter("unknown_action", 1, LOUD),
            letter("not_utf8", 2, b"\xff"),
            letter("unknown_action", 1, LOUD),
            letter("tombstone", 3, None),
            letter("unknown_action", 4, LOUD.replace(b"u9", b"u8")),
        ],
    )
    fix = ("--policy", "fix", "--fix", "sed s/like/LIKE/")
    planned = replay(likes, topics, *fix, "--dry-run", code=6)
    assert sent(topics) == []
    done = replay(likes, topics, *fix, code=6)
    assert done == {**planned, "dry_run": False}
    assert done == {
        "policy": "fix",
        "dry_run": False,
        "looked_at": 4,
        "resent": 2,
        "dropped": 0,
        "rejected": 1,
        "failed": 1,
        "left": 2,
        "duplicates": 1,
        "unreadable": 0,
    }
    fixed = [LOUD.replace(b"like", b"LIKE"), LOUD.replace(b"like", b"LIKE").replace(b"u9", b"u8")]
    assert sent(topics) == fixed
    # What was left is still there, and what comes after it in its partition is sent again: harmless.
    told = likes("dead-letters", "replay", *fix, settings=topics).stderr.splitlines()
    assert told[-3:-1] == [
        "left: like-events-0@2, still rejected, not_utf8",
        "left: like-events-0@3, the command wrote nothing",
    ]
    assert told[-1].startswith("error: dead letters left: 2, the first is like-events-0@2")
    assert sent(topics) == [*fixed, fixed[1]]


def test_a_left_one_is_not_forgotten_because_the_job_wrote_it_twice(likes: Likes, topics: Settings) -> None:
    hard = letter("not_utf8", 2, b"\xff")
    write(topics, [hard], b"one")
    write(topics, [hard, letter("unknown_action", 1, LOUD)], b"another key")
    fix = ("--policy", "fix", "--fix", "sed s/like/LIKE/")
    for _ in range(2):
        assert replay(likes, topics, *fix, code=6)["rejected"] == 1
    assert replay(likes, topics, "--policy", "drop")["looked_at"] == 2


def test_a_topic_that_does_not_exist_is_named(likes: Likes, settings: Settings) -> None:
    done = likes("dead-letters", "list", settings=settings)
    assert done.returncode == 4
    assert settings.kafka.dead_letters_topic in done.stderr

"""`likes events` against a real broker: what is in the log is what was sent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient

from connectors.kafka import Record, beginning_offsets, end_offsets, max_event_bytes, read_topic
from deploy.flink.local_stack import Stack
from pipelines.domain.events import LikeEvent, Rules, parse
from pipelines.settings import Settings
from tests.support import CLI, ROOT, Likes, cli_environment, wait_until

pytestmark = pytest.mark.integration

LINES = [
    b'{"content_id": "v1", "user_id": "u1", "action": "LIKE"}',
    b'{"video_id": "v1", "user_id": "u2", "action": "LIKE"}\r',
    b'\xef\xbb\xbf{"content_id": "h\xc3\xa9", "user_id": "u1", "action": "LIKE"}',
    b"",
    b"not json",
    b"\xff\xfe \x00",
    b'["v1"]',
]


def log(settings: Settings) -> list[Record]:
    topic = settings.kafka.events_topic
    return list(read_topic(settings, topic, beginning_offsets(settings, topic), end_offsets(settings, topic)))


def test_lines_reach_the_log_byte_for_byte(likes: Likes, settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n".join(LINES) + b"\n")
    done = likes("events", "send", str(file), settings=settings)
    assert done.returncode == 0
    assert done.stdout == f"sent 7 events to {settings.kafka.events_topic}\n"
    found = log(settings)
    assert Counter(record.value for record in found) == Counter(LINES)
    assert {record.value: record.key for record in found} == dict(
        zip(LINES, [b"v1", b"v1", b"h\xc3\xa9", None, None, None, None], strict=True)
    )
    v1 = [record for record in found if record.key == b"v1"]
    assert [record.value for record in v1] == LINES[:2]
    assert len({record.partition for record in v1}) == 1


def test_stdin_without_a_last_line_feed(likes: Likes, settings: Settings) -> None:
    done = likes("events", "send", "-", "--json", settings=settings, stdin=b"\n".join(LINES))
    assert json.loads(done.stdout) == {"sent": 7, "topic": settings.kafka.events_topic, "too_large": 0}
    assert Counter(record.value for record in log(settings)) == Counter(LINES)


def test_nothing_to_send_is_fine(likes: Likes, settings: Settings) -> None:
    done = likes("events", "send", "-", settings=settings)
    assert (done.returncode, done.stdout) == (0, f"sent 0 events to {settings.kafka.events_topic}\n")


def test_a_line_that_the_topic_does_not_take_is_named_and_the_others_are_sent(likes: Likes, settings: Settings) -> None:
    largest = max_event_bytes(settings)
    fits = os.urandom(largest - largest // 1000 - 512).replace(b"\n", b" ")  # what cannot be compressed
    stdin = b"\n".join([LINES[0], b"x" * (largest + 1), fits, b"y" * largest * 3, LINES[1]])
    done = likes("events", "send", "-", settings=settings, stdin=stdin)
    assert done.returncode == 6
    assert done.stdout == f"sent 3 events to {settings.kafka.events_topic}\n"
    assert Counter(record.value for record in log(settings)) == Counter([LINES[0], fits, LINES[1]])
    told = [line for line in done.stderr.splitlines() if not line.startswith("sent events: ")]
    assert told[0].startswith(f"line 2 has {largest + 1} bytes")
    assert told[1].startswith(f"line 4 has {largest * 3} bytes")
    assert told[2].startswith("error: too large for ")
    assert told[2].count("2 of the lines, the first is line 2") == 1
    assert len(told) == 3


def test_a_topic_that_takes_less_is_asked_first(likes: Likes, settings: Settings) -> None:
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap)
    configs = {"max.message.bytes": "100000", "message.timestamp.type": "LogAppendTime"}
    small = {"num_partitions": 1, "replication_factor": 1, "configs": configs}
    admin.create_topics({settings.kafka.events_topic: small}, wait_for_metadata=True)
    admin.close()
    done = likes("events", "send", "-", settings=settings, stdin=b"a\n" + b"x" * 100_000 + b"\nb")
    assert done.returncode == 6
    assert "line 2 has 100000 bytes" in done.stderr
    assert [record.value for record in log(settings)] == [b"a", b"b"]


def test_a_long_id_is_no_key_and_does_not_make_a_record_too_large(likes: Likes, settings: Settings) -> None:
    line = json.dumps({"content_id": "x" * 700_000}).encode()
    done = likes("events", "send", "-", settings=settings, stdin=line)
    assert done.returncode == 0
    assert [(record.value, record.key) for record in log(settings)] == [(line, None)]


def test_a_rate_is_kept(likes: Likes, settings: Settings) -> None:
    started = time.monotonic()
    done = likes("events", "send", "-", "--rate", "20", settings=settings, stdin=b"{}\n" * 61)
    assert done.returncode == 0
    assert time.monotonic() - started > 3
    times = sorted(record.timestamp_ms for record in log(settings))
    assert times[-1] - times[0] > 2_000


def test_a_missing_file_is_bad_input(likes: Likes, settings: Settings) -> None:
    done = likes("events", "send", "/no/such/file", settings=settings)
    assert (done.returncode, done.stdout) == (6, "")
    assert done.stderr == "error: /no/such/file cannot be read: No such file or directory\n"


def test_a_sample_is_made_of_events(likes: Likes, settings: Settings) -> None:
    done = likes("events", "sample", "--events", "5000", "--contents", "50", "--json", settings=settings)
    assert json.loads(done.stdout) == {"sent": 5_000, "topic": settings.kafka.events_topic, "too_large": 0}
    found = log(settings)
    assert len(found) == 5_000
    rules = Rules(settings.events.regions)
    assert all(isinstance(parse(record.value, record.timestamp_ms, rules), LikeEvent) for record in found)


def test_a_sample_at_a_rate_happens_now_and_an_interrupt_loses_nothing_told(stack: Stack, settings: Settings) -> None:
    command = [*CLI, "events", "sample", "--events", "1000000", "--rate", "200"]
    environment = cli_environment(stack, settings)
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: _topic_exists(settings) and len(log(settings)) > 300, 60, what="300 events")
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    found = log(settings)
    assert f"interrupted: {len(found)} events are in {settings.kafka.events_topic}\n" in told
    fresh = [record.timestamp_ms - json.loads(record.value or b"")["event_time"] for record in found]
    assert sum(delay < 5_000 for delay in fresh) > 0.9 * len(fresh)


def test_movielens_is_the_real_log(likes: Likes, settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "movielens.jsonl"
    before_ms = time.time_ns() // 1_000_000
    done = likes("events", "movielens", "--output", str(file), settings=settings)
    assert (done.returncode, done.stdout) == (0, f"wrote 100000 events to {file}\n")
    events = [json.loads(line) for line in file.read_bytes().splitlines()]
    times = [event["event_time"] for event in events]
    assert times == sorted(times)
    assert before_ms <= times[-1] <= time.time_ns() // 1_000_000
    assert times[-1] - times[0] == (893_286_638 - 874_724_710) * 1_000
    assert len({event["user_id"] for event in events}) == 943
    assert len({event["content_id"] for event in events}) == 1_682
    # Ratings of 4 and 5, of 1 and 2, and of 3, as the data's own summary gives them.
    assert Counter(event["action"] for event in events) == {
        "LIKE": 34_174 + 21_201,
        "DISLIKE": 6_110 + 11_370,
        "UNLIKE": 27_145,
    }
    # At most one rating for each person and film.
    assert len({(event["user_id"], event["content_id"]) for event in events}) == 100_000

    done = likes("events", "movielens", "--limit", "2000", "--speed", "10000000", "--json", settings=settings)
    assert json.loads(done.stdout)["sent"] == 2_000
    sent = Counter((event["user_id"], event["content_id"], event["action"]) for event in events[:2_000])
    found = [json.loads(record.value or b"") for record in log(settings)]
    assert Counter((event["user_id"], event["content_id"], event["action"]) for event in found) == sent


def test_a_broker_that_is_not_there_is_one_line(likes: Likes, settings: Settings) -> None:
    kafka = settings.kafka.model_copy(update={"bootstrap": "127.0.0.1:1"})
    done = likes("events", "send", "-", settings=settings.model_copy(update={"kafka": kafka}), stdin=b"{}")
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.splitlines()[-1].startswith("error: Kafka at 127.0.0.1:1 does not answer: ")


def _topic_exists(settings: Settings) -> bool:
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap)
    try:
        return settings.kafka.events_topic in admin.list_topics()
    finally:
        admin.close()

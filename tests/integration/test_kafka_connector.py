"""Topics, offsets, publishing and bounded reading on a real broker."""

from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.structs import OffsetAndMetadata, TopicPartition

from connectors.kafka import (
    Publisher,
    Record,
    beginning_offsets,
    committed_offsets,
    content_key,
    counts_topic,
    end_offsets,
    ensure_topics,
    max_dead_letter_bytes,
    max_event_bytes,
    offsets_for_times,
    read_topic,
)
from connectors.kafka.client import administer
from deploy.flink.local_stack import Stack
from pipelines.errors import BadInput, SettingError
from pipelines.settings import Settings
from tests.support import FreshSettings

pytestmark = pytest.mark.integration


@pytest.fixture
def events(settings: Settings) -> str:
    ensure_topics(settings, 1)
    return settings.kafka.events_topic


def everything(settings: Settings, topic: str) -> list[Record]:
    return list(read_topic(settings, topic, beginning_offsets(settings, topic), end_offsets(settings, topic)))


def config(settings: Settings, topic: str) -> dict[str, str]:
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap)
    answer = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
    admin.close()
    return {name: entry["value"] for name, entry in answer["topic"][topic].items()}


def test_topics_are_created_once_by_many(settings: Settings) -> None:
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(ensure_topics, settings, generation) for generation in (1, 1, 2, 2)]:
            done.result()
    events = config(settings, settings.kafka.events_topic)
    assert events["message.timestamp.type"] == "LogAppendTime"
    assert int(events["max.message.bytes"]) > settings.events.max_record_bytes
    assert config(settings, counts_topic(settings, 1))["cleanup.policy"] == "compact"
    assert config(settings, counts_topic(settings, 2))["cleanup.policy"] == "compact"
    assert end_offsets(settings, settings.kafka.events_topic) == {0: 0, 1: 0, 2: 0, 3: 0}
    assert end_offsets(settings, settings.kafka.dead_letters_topic) == {0: 0, 1: 0, 2: 0, 3: 0}


def test_a_topic_on_the_producers_clock_is_refused_until_it_is_altered(settings: Settings) -> None:
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap)
    topic = settings.kafka.events_topic
    admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
    with pytest.raises(SettingError, match=f"topic {topic} has message.timestamp.type=CreateTime") as raised:
        ensure_topics(settings, 1)
    assert f"--entity-name {topic} --add-config message.timestamp.type=LogAppendTime" in raised.value.remedy
    alter(settings, topic, **{"message.timestamp.type": "LogAppendTime"})
    admin.close()
    ensure_topics(settings, 1)


def alter(settings: Settings, topic: str, **change: str) -> None:
    wanted = [ConfigResource(ConfigResourceType.TOPIC, topic, change)]
    administer(settings, lambda admin: admin.alter_configs(wanted))


def test_records_that_their_producers_stamped_are_refused_whatever_the_topic_says_now(settings: Settings) -> None:
    topic, one = settings.kafka.events_topic, {"num_partitions": 1, "replication_factor": 1}
    administer(settings, lambda admin: admin.create_topics({topic: one}, wait_for_metadata=True))
    with Publisher(settings, topic) as publisher:
        publisher.send(b"{}", b"key")
    alter(settings, topic, **{"message.timestamp.type": "LogAppendTime"})
    with pytest.raises(
        SettingError, match=f"topic {topic} holds records that their producers have stamped, such as 0@0"
    ):
        ensure_topics(settings, 1)


def test_a_dead_letters_topic_that_takes_too_little_is_refused(settings: Settings) -> None:
    topic, needed = settings.kafka.dead_letters_topic, max_dead_letter_bytes(settings)
    plain = {"num_partitions": 1, "replication_factor": 1}
    administer(settings, lambda admin: admin.create_topics({topic: plain}, wait_for_metadata=True))
    with pytest.raises(SettingError, match=f"topic {topic} has max.message.bytes=.*may have {needed}") as raised:
        ensure_topics(settings, 1)
    assert f"--entity-name {topic} --add-config max.message.bytes={needed}" in raised.value.remedy
    alter(settings, topic, **{"max.message.bytes": str(needed)})
    ensure_topics(settings, 1)
    assert end_offsets(settings, topic) == {0: 0}


def test_lines_are_published_as_they_are(settings: Settings, events: str) -> None:
    lines = [
        b'{"content_id": "v1", "user_id": "u1", "action": "LIKE"}',
        b'{"video_id": "h\xc3\xa9 {}", "user_id": "u1"}\r',
        b"not json at all",
        b"\xff\xfe\x00 not utf-8",
        b"",
        b'{"content_id": "v1", "padding": "' + b"x" * (settings.events.max_record_bytes + 1) + b'"}',
    ]
    with Publisher(settings, events) as publisher:
        for line in lines:
            publisher.send(line, content_key(line))
        publisher.send(None, b"v1")  # a tombstone
        publisher.flush()
        assert (publisher.sent, publisher.acknowledged) == (7, 7)
    found = everything(settings, events)
    assert sorted(map(repr, (record.value for record in found))) == sorted(map(repr, [*lines, None]))
    of_v1 = [record for record in found if record.key == b"v1"]
    assert len({record.partition for record in of_v1}) == 1
    assert [record.value for record in of_v1] == [lines[0], lines[5], None]
    assert all(record.timestamp_ms > 1_700_000_000_000 and record.topic == events for record in found)


def test_equal_keys_share_the_partition_that_other_clients_choose(settings: Settings, events: str) -> None:
    keys = [f"video-{number}".encode() for number in range(200)]
    with Publisher(settings, events) as publisher:
        for key in keys:
            publisher.send(b"ours", key)
    producer = KafkaProducer(bootstrap_servers=settings.kafka.bootstrap)
    for key in keys:
        producer.send(events, b"theirs", key)
    producer.close()
    found = everything(settings, events)
    places = {
        name: {record.key: record.partition for record in found if record.value == name}
        for name in (b"ours", b"theirs")
    }
    assert len(places[b"ours"]) == len(keys)
    assert places[b"ours"] == places[b"theirs"]


def test_what_the_topic_does_not_take_is_bad_input(settings: Settings, events: str) -> None:
    with Publisher(settings, events) as publisher:
        with pytest.raises(BadInput, match=f"record 1 has .* takes {max_event_bytes(settings)}"):
            publisher.send(b"x" * (max_event_bytes(settings) + 1), None)
        publisher.send(b"the next one", None)
    assert [record.value for record in everything(settings, events)] == [b"the next one"]


def test_a_smaller_topic_says_so(settings: Settings) -> None:
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap)
    small = {"num_partitions": 1, "replication_factor": 1, "configs": {"max.message.bytes": "1000"}}
    admin.create_topics({settings.kafka.events_topic: small}, wait_for_metadata=True)
    admin.close()
    incompressible = bytes(range(256)) * 40 + b"".join(bytes([a ^ b]) for a in range(256) for b in range(0, 256, 7))
    with (
        pytest.raises(BadInput, match=r"larger than topic .* takes"),
        Publisher(settings, settings.kafka.events_topic) as publisher,
    ):
        publisher.send(incompressible, None)


def test_a_missing_topic_is_named(settings: Settings) -> None:
    with pytest.raises(SettingError, match=settings.kafka.events_topic):
        end_offsets(settings, settings.kafka.events_topic)
    with (
        pytest.raises(SettingError, match=settings.kafka.events_topic),
        Publisher(settings, settings.kafka.events_topic),
    ):
        pass


def test_offsets_by_time_group_and_end(settings: Settings, events: str) -> None:
    with Publisher(settings, events) as publisher:
        for number in range(40):
            publisher.send(b"%d" % number, b"key-%d" % number)
    ends = end_offsets(settings, events)
    assert sum(ends.values()) == 40
    assert beginning_offsets(settings, events) == {0: 0, 1: 0, 2: 0, 3: 0}
    last = max(record.timestamp_ms for record in everything(settings, events))
    assert offsets_for_times(settings, events, 0) == {0: 0, 1: 0, 2: 0, 3: 0}
    assert offsets_for_times(settings, events, last + 1) == ends

    assert committed_offsets(settings, events, "some group") == {}
    consumer = KafkaConsumer(bootstrap_servers=settings.kafka.bootstrap, group_id=events)
    consumer.assign([TopicPartition(events, 1), TopicPartition(events, 3)])
    consumer.commit({TopicPartition(events, 1): OffsetAndMetadata(2), TopicPartition(events, 3): OffsetAndMetadata(0)})
    consumer.close()
    assert committed_offsets(settings, events, events) == {1: 2, 3: 0}


def test_reading_stays_inside_its_range_and_skips_what_the_log_has_dropped(settings: Settings, events: str) -> None:
    with Publisher(settings, events) as publisher:
        for number in range(5_000):
            publisher.send(json.dumps({"n": number}).encode(), b"one key")
    (partition,) = [partition for partition, end in end_offsets(settings, events).items() if end]
    middle = list(read_topic(settings, events, {partition: 1_000}, {partition: 4_000}))
    assert [json.loads(record.value or b"")["n"] for record in middle] == list(range(1_000, 4_000))
    assert [record.offset for record in middle] == list(range(1_000, 4_000))

    admin = KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap)
    admin.delete_records({TopicPartition(events, partition): 4_500})
    admin.close()
    assert beginning_offsets(settings, events)[partition] == 4_500
    rest = list(read_topic(settings, events, dict.fromkeys(range(4), 0), end_offsets(settings, events)))
    assert [record.offset for record in rest] == list(range(4_500, 5_000))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_whatever_producers_compress_with_is_read(settings: Settings, events: str, codec: str) -> None:
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap, "compression.type": codec, "linger.ms": 50})
    sent = {b"%d " % number * 100 for number in range(200)}
    for value in sent:
        producer.produce(events, value)
    producer.flush()
    assert {record.value for record in everything(settings, events)} == sent
    ensure_topics(settings, 1)  # which looks at the oldest records


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # kafka-python's refused sockets
def test_a_broker_that_is_killed_costs_nothing_and_repeats_nothing(
    fresh_settings: FreshSettings, stack: Stack, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="kafka")
    settings = fresh_settings()
    ensure_topics(settings, 1)
    topic = settings.kafka.events_topic
    with Publisher(settings, topic) as publisher:
        for number in range(20_000):
            publisher.send(b"%d" % number, b"key-%d" % (number % 100))
            if number == 10_000:
                stack.services()["kafka"].kill()
                stack.services()["kafka"].start()
        publisher.flush()
        assert publisher.acknowledged == 20_000
    assert sorted(int(record.value or b"") for record in everything(settings, topic)) == list(range(20_000))

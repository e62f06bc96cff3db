"""The topics that the job reads and writes, created where they are missing and checked where they exist."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import TopicAlreadyExistsError

from connectors.kafka.admin import max_message_bytes
from connectors.kafka.client import administer, counts_topic, max_dead_letter_bytes, max_event_bytes
from connectors.kafka.offsets import beginning_offsets, described, end_offsets
from connectors.kafka.reader import read_topic
from pipelines.errors import SettingError

if TYPE_CHECKING:
    from pipelines.settings import Settings

_TIMESTAMP_TYPE = "message.timestamp.type"
_LOG_APPEND_TIME = "LogAppendTime"
_MAX_BYTES = "max.message.bytes"


def ensure_topics(settings: Settings, generation: int) -> None:
    """Create like-events, its dead letters and the generation's counts topic where they are missing.

    May be run by several processes at once; existing topics are left as they are.

    Raises:
        ServiceUnavailable: No broker answers.
        SettingError: like-events exists but keeps the producers' timestamps: a client's clock would decide what is too
            far in the future. Or it holds records that they have stamped. Or the dead letters' topic takes less than
            the largest dead letter.
    """
    kafka = settings.kafka
    wanted = {
        kafka.events_topic: {
            _TIMESTAMP_TYPE: _LOG_APPEND_TIME,
            _MAX_BYTES: str(max_event_bytes(settings)),
            # What is recounted from offset 0 must not expire.
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
        },
        kafka.dead_letters_topic: {_MAX_BYTES: str(max_dead_letter_bytes(settings))},
        counts_topic(settings, generation): {"cleanup.policy": "compact"},
    }
    administer(settings, lambda admin: _create_missing(admin, settings, wanted))
    found = administer(settings, lambda admin: _config(admin, kafka.events_topic, _TIMESTAMP_TYPE))
    if found != _LOG_APPEND_TIME:
        raise SettingError(
            f"topic {kafka.events_topic} has {_TIMESTAMP_TYPE}={found}, but events are judged by the broker's clock",
            _alter(settings, kafka.events_topic, f"{_TIMESTAMP_TYPE}={_LOG_APPEND_TIME}"),
        )

    _check_first_stamps(settings)
    needed, taken = max_dead_letter_bytes(settings), max_message_bytes(settings, kafka.dead_letters_topic)
    if taken < needed:
        raise SettingError(
            f"topic {kafka.dead_letters_topic} has {_MAX_BYTES}={taken}, but a dead letter may have {needed}",
            _alter(settings, kafka.dead_letters_topic, f"{_MAX_BYTES}={needed}"),
        )


def topic_id(settings: Settings, topic: str) -> str:
    """Kafka's own id of a topic: another one where a topic of that name was deleted and made anew.

    Raises:
        ServiceUnavailable: No broker answers.
        SettingError: The topic does not exist.
    """

    def ask(admin: Any) -> str:  # noqa: ANN401  untyped client
        return str(described(admin, topic)["topic_id"])

    found: str = administer(settings, ask)
    return found


def _check_first_stamps(settings: Settings) -> None:
    """Records that were written before the broker stamped them keep their producer's time, so the oldest tell."""
    topic = settings.kafka.events_topic
    first, end = beginning_offsets(settings, topic), end_offsets(settings, topic)
    filled = {partition: offset for partition, offset in first.items() if offset < end[partition]}
    oldest = list(read_topic(settings, topic, filled, {partition: offset + 1 for partition, offset in filled.items()}))
    # An offset may hold a transaction's mark; then the record after it is the oldest.
    for partition in filled.keys() - {record.partition for record in oldest}:
        bounds = {partition: filled[partition]}, {partition: end[partition]}
        oldest += itertools.islice(read_topic(settings, topic, *bounds), 1)
    if foreign := [record for record in oldest if not record.is_stamped_by_broker]:
        raise SettingError(
            f"topic {topic} holds records that their producers have stamped, such as"
            f" {foreign[0].partition}@{foreign[0].offset}",
            "copy them into a new topic and name that in kafka.events_topic",
        )


def _alter(settings: Settings, topic: str, config: str) -> str:
    return (
        f"run `kafka-configs.sh --bootstrap-server {settings.kafka.bootstrap} --alter --entity-type topics"
        f" --entity-name {topic} --add-config {config}`"
    )


def _create_missing(admin: Any, settings: Settings, wanted: dict[str, dict[str, str]]) -> None:  # noqa: ANN401
    existing = set(admin.list_topics())
    missing = {
        name: {
            "num_partitions": settings.kafka.partitions,
            "replication_factor": settings.kafka.replication,
            "configs": configs,
        }
        for name, configs in wanted.items()
        if name not in existing
    }
    for name, options in missing.items():
        try:
            admin.create_topics({name: options})
        except TopicAlreadyExistsError:
            continue  # somebody else was quicker
    admin.wait_for_topics(list(wanted))


def _config(admin: Any, topic: str, name: str) -> str:  # noqa: ANN401
    answer = admin.describe_configs(
        [ConfigResource(ConfigResourceType.TOPIC, topic, {name: None})], config_filter="all"
    )
    return str(answer["topic"][topic][name]["value"])

"""The topics that the job reads and writes, created where they are missing and checked where they exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import TopicAlreadyExistsError

from connectors.kafka.client import administer, counts_topic, max_dead_letter_bytes, max_event_bytes
from pipelines.errors import SettingError

if TYPE_CHECKING:
    from pipelines.settings import Settings

_TIMESTAMP_TYPE = "message.timestamp.type"
_LOG_APPEND_TIME = "LogAppendTime"


def ensure_topics(settings: Settings, generation: int) -> None:
    """Create like-events, its dead letters and the generation's counts topic where they are missing.

    May be run by several processes at once; existing topics are left as they are.

    Raises:
        ServiceUnavailable: No broker answers.
        SettingError: like-events exists but keeps the producers' timestamps: a client's clock would decide what is too
            far in the future.
    """
    kafka = settings.kafka
    wanted = {
        kafka.events_topic: {
            _TIMESTAMP_TYPE: _LOG_APPEND_TIME,
            "max.message.bytes": str(max_event_bytes(settings)),
            # What is recounted from offset 0 must not expire.
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
        },
        kafka.dead_letters_topic: {"max.message.bytes": str(max_dead_letter_bytes(settings))},
        counts_topic(settings, generation): {"cleanup.policy": "compact"},
    }
    administer(settings, lambda admin: _create_missing(admin, settings, wanted))
    found = administer(settings, lambda admin: _config(admin, kafka.events_topic, _TIMESTAMP_TYPE))
    if found != _LOG_APPEND_TIME:
        raise SettingError(
            f"topic {kafka.events_topic} has {_TIMESTAMP_TYPE}={found}, but events are judged by the broker's clock",
            f"run `kafka-configs.sh --bootstrap-server {kafka.bootstrap} --alter --entity-type topics --entity-name"
            f" {kafka.events_topic} --add-config {_TIMESTAMP_TYPE}={_LOG_APPEND_TIME}`",
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

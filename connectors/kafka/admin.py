"""Small administrative calls: a group's progress, and how large a message a topic takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import NoError
from kafka.structs import OffsetAndMetadata, TopicPartition

from connectors.kafka.client import administer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipelines.settings import Settings

_MAX_MESSAGE_BYTES = "max.message.bytes"


def commit_offsets(settings: Settings, topic: str, group: str, offsets: Mapping[int, int]) -> None:
    """Remember how far a consumer group without members has come. May be repeated.

    Args:
        settings: Where.
        topic: Which.
        group: Whose progress.
        offsets: The next offset to read, by partition.

    Raises:
        ServiceUnavailable: No broker answers.
        SettingError: The topic does not exist, or the user may not do this.
    """
    wanted = {TopicPartition(topic, partition): OffsetAndMetadata(offset) for partition, offset in offsets.items()}

    def commit(admin: Any) -> None:  # noqa: ANN401  untyped client
        for place, outcome in admin.alter_group_offsets(group, wanted).items():
            if outcome is not NoError:
                raise outcome(f"{group} on {place.topic}-{place.partition}")

    if wanted:
        administer(settings, commit)


def max_message_bytes(settings: Settings, topic: str) -> int:
    """How large a batch of messages the topic takes, and so a single one.

    Raises:
        ServiceUnavailable: No broker answers.
        SettingError: The topic does not exist, or the user may not do this.
    """
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, {_MAX_MESSAGE_BYTES: None})
    answer = administer(settings, lambda admin: admin.describe_configs([resource], config_filter="all"))
    return int(answer["topic"][topic][_MAX_MESSAGE_BYTES]["value"])

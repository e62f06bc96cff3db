"""Where topics begin and end, and how far groups have come. All answers are offsets by partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.admin import OffsetSpec
from kafka.errors import for_code
from kafka.structs import TopicPartition

from connectors.kafka.client import administer

if TYPE_CHECKING:
    from pipelines.settings import Settings


def partitions_of(settings: Settings, topic: str) -> list[int]:
    """The topic's partitions, in order.

    Raises:
        ServiceUnavailable: No broker answers.
        SettingError: The topic does not exist.
    """
    found: list[int] = administer(settings, lambda admin: _partitions(admin, topic))
    return found


def beginning_offsets(settings: Settings, topic: str) -> dict[int, int]:
    """The first offset of each partition that is still in the log.

    Raises:
        ServiceUnavailable: No broker answers.
        SettingError: The topic does not exist.
    """
    return _listed(settings, topic, OffsetSpec.EARLIEST)


def end_offsets(settings: Settings, topic: str) -> dict[int, int]:
    """The offset after the last record of each partition.

    Raises:
        ServiceUnavailable: No broker answers.
        SettingError: The topic does not exist.
    """
    return _listed(settings, topic, OffsetSpec.LATEST)


def offsets_for_times(settings: Settings, topic: str, timestamp_ms: int) -> dict[int, int]:
    """The first offset of each partition whose broker timestamp is at or after `timestamp_ms`; its end if none is.

    Raises:
        ServiceUnavailable: No broker answers.
        SettingError: The topic does not exist.
    """
    # The ends come first: a record that arrives in between is after them, and found or not, nothing is skipped.
    ends = end_offsets(settings, topic)
    found = _listed(settings, topic, timestamp_ms)
    return {partition: offset if offset >= 0 else ends[partition] for partition, offset in found.items()}


def committed_offsets(settings: Settings, topic: str, group: str) -> dict[int, int]:
    """How far a consumer group has come; partitions that it has not committed are left out.

    Raises:
        ServiceUnavailable: No broker answers.
    """
    answer = administer(settings, lambda admin: admin.list_group_offsets([group]))
    return {
        place.partition: committed.offset
        for place, committed in sorted(answer[group].items())
        if place.topic == topic and committed.offset >= 0
    }


def _listed(settings: Settings, topic: str, spec: int) -> dict[int, int]:
    def ask(admin: Any) -> Any:  # noqa: ANN401  untyped client
        places = [TopicPartition(topic, partition) for partition in _partitions(admin, topic)]
        return admin.list_partition_offsets(dict.fromkeys(places, spec))

    return {place.partition: found.offset for place, found in sorted(administer(settings, ask).items())}


def described(admin: Any, topic: str) -> dict[str, Any]:  # noqa: ANN401
    """What an admin client says of a topic; Kafka's own error where it says that there is none."""
    (found,) = admin.describe_topics([topic])
    if found["error_code"]:
        raise for_code(found["error_code"])(topic)
    return dict(found)


def _partitions(admin: Any, topic: str) -> list[int]:  # noqa: ANN401
    return sorted(partition["partition_index"] for partition in described(admin, topic)["partitions"])

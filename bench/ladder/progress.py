"""How far a design is in its topic: by what its consumer group has committed, so by what it will not read again."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, ConsumerGroupState, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from connectors.cassandra import CassandraSession, Fences, Generations, Pointer
from pipelines.jobs.names import group_of
from pipelines.jobs.prepare import live_counting
from pipelines.jobs.progress import group_of_run

_TIMEOUT_S = 10.0


class Progress:
    """Ends and committed offsets, by partition.

    Args:
        bootstrap: Of the broker.
        topic: Which exists.
        partitions: How many it has.
        group: Names the consumer group at each call, None while there is none.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, group: Callable[[], str | None]) -> None:
        self._bootstrap, self._topic, self._partitions, self._group = bootstrap, topic, range(partitions), group
        self._consumers: dict[str, Consumer] = {}

    def ends(self) -> dict[int, int]:
        """The offset after the last record, be it committed by its producer or not."""
        asking = self._consumer("")
        found = {}
        for partition in self._partitions:
            marks = asking.get_watermark_offsets(TopicPartition(self._topic, partition), _TIMEOUT_S)
            if marks is None:
                raise TimeoutError(f"the end of {self._topic} is not to be had")
            found[partition] = marks[1]
        return found

    def committed(self) -> dict[int, int]:
        """Where the group would go on; 0 where it has committed nothing."""
        group = self._group()
        if group is None:
            return dict.fromkeys(self._partitions, 0)
        places = [TopicPartition(self._topic, partition) for partition in self._partitions]
        return {place.partition: max(0, place.offset) for place in self._consumer(group).committed(places, _TIMEOUT_S)}

    def close(self) -> None:
        """Disconnect."""
        for consumer in self._consumers.values():
            consumer.close()

    def _consumer(self, group: str) -> Consumer:
        if group not in self._consumers:
            self._consumers[group] = Consumer(
                {
                    "bootstrap.servers": self._bootstrap,
                    "group.id": group or "bench-ladder",
                    "isolation.level": "read_uncommitted",
                }
            )
        return self._consumers[group]


def members(bootstrap: str, group: str) -> int:
    """How many members share a consumer group's partitions; 0 while they are still being shared out."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        found = admin.describe_consumer_groups([group])[group].result(_TIMEOUT_S)
    except KafkaException:
        return 0  # nobody has joined yet
    return len(found.members) if found.state == ConsumerGroupState.STABLE else 0


def share(committed: Mapping[int, int], begin: Mapping[int, int], end: Mapping[int, int]) -> float:
    """How much of what lies between two sets of offsets is committed, 0 to 1; 1 where nothing does. Pure.

    Partitions in which nothing was added are left out: what ends a transaction takes an offset that nobody commits.
    """
    added = [partition for partition in end if end[partition] > begin[partition]]
    total = sum(end[partition] - begin[partition] for partition in added)
    done = sum(
        min(max(committed[partition] - begin[partition], 0), end[partition] - begin[partition]) for partition in added
    )
    return done / total if total else 1.0


def group_of_job(session: CassandraSession) -> str | None:
    """The consumer group of the newest run of this project's job, None before the first."""
    live = live_counting(Generations(session), Pointer(session))
    if live is None:
        return None
    fence = Fences(session).read(live.generation)
    return group_of_run(group_of("like-counts", live.generation, live.identity), fence.saver) if fence.saver else None

"""The Kafka ends of the pipelines, as WITH options of Flink's Kafka connectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors import kafka
from pipelines.sinks import Sinks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipelines.settings import Settings


def source(settings: Settings, group: str, end: Mapping[int, int] | None) -> dict[str, str]:
    """The log, as far as transactions are committed.

    It begins where the group has committed, which whoever starts the job sees to, or where restored state says. An
    offset that the log no longer holds is an error: every other way to begin would jump to the earliest one silently.

    Args:
        settings: Where it is.
        group: The consumer group, under which progress is committed at each checkpoint too.
        end: Offset by partition where a bounded read ends, None for never.
    """
    options = {
        "connector": "kafka",
        "topic": settings.kafka.events_topic,
        "properties.group.id": group,
        "scan.topic-partition-discovery.interval": "60 s",
        "scan.startup.mode": "group-offsets",
        "properties.auto.offset.reset": "none",
        "properties.isolation.level": "read_committed",
        "format": "raw",
        **_connection(settings),
    }
    if end is not None:
        options |= {"scan.bounded.mode": "specific-offsets", "scan.bounded.specific-offsets": _offsets(end)}
    return options


def sinks(settings: Settings, generation: int) -> Sinks:
    """Totals and dead letters; both at least once."""
    connection = _connection(settings)
    return Sinks(
        counts={
            "connector": "upsert-kafka",
            "topic": kafka.counts_topic(settings, generation),
            "key.format": "json",
            "value.format": "json",
            "properties.linger.ms": "20",
            **connection,
        },
        dead_letters={
            "connector": "kafka",
            "topic": settings.kafka.dead_letters_topic,
            "format": "json",
            "properties.max.request.size": str(kafka.max_dead_letter_bytes(settings)),
            **connection,
        },
    )


def _offsets(offsets: Mapping[int, int]) -> str:
    return ";".join(f"partition:{partition},offset:{offset}" for partition, offset in sorted(offsets.items()))


def _connection(settings: Settings) -> dict[str, str]:
    wanted = settings.kafka
    options = {
        "properties.bootstrap.servers": wanted.bootstrap,
        "properties.security.protocol": wanted.security_protocol,
    }
    if wanted.sasl_mechanism:
        module = "plain.PlainLoginModule" if wanted.sasl_mechanism == "PLAIN" else "scram.ScramLoginModule"
        user, password = (_quoted(text) for text in (wanted.username, wanted.password.get_secret_value()))
        # The SQL connector carries its Kafka client under this name.
        options["properties.sasl.mechanism"] = wanted.sasl_mechanism
        options["properties.sasl.jaas.config"] = (
            f"org.apache.flink.kafka.shaded.org.apache.kafka.common.security.{module} required"
            f" username={user} password={password};"
        )
    if wanted.ca_file:
        options |= {"properties.ssl.truststore.type": "PEM", "properties.ssl.truststore.location": wanted.ca_file}
    return options


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

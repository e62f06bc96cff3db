"""What all Kafka clients share: how to connect, how topics are named and how large a message may be.

kafka-python ships without types: its objects are `Any` here.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import orjson
from kafka.admin import KafkaAdminClient
from kafka.errors import (
    AuthorizationError,
    KafkaError,
    SaslAuthenticationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedSaslMechanismError,
)
from kafka.net.compat import KafkaNetClient

from connectors.retry import Service, insist
from pipelines.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pipelines.settings import Settings

# kafka-python tries all brokers, with backoff, until this is over.
_BOOTSTRAP_MS = 10_000
_REQUEST_MS = 15_000
_DEFAULT_MESSAGE_BYTES = 1_048_588  # Kafka's own max.message.bytes
_ENVELOPE_BYTES = 65_536
_WORST_ESCAPE = 6  # bytes of \u0000 for one byte


class _Retriable(Exception):
    """A failure that Kafka itself calls worth another attempt."""


def counts_topic(settings: Settings, generation: int) -> str:
    """The compacted topic of a generation's totals: the configured name, with `.g<n>` after the first."""
    return settings.kafka.counts_topic if generation == 1 else f"{settings.kafka.counts_topic}.g{generation}"


def max_event_bytes(settings: Settings) -> int:
    """What like-events takes: a record over events.max_record_bytes must reach the log to become a dead letter."""
    return max(_DEFAULT_MESSAGE_BYTES, 2 * settings.events.max_record_bytes)


def max_dead_letter_bytes(settings: Settings) -> int:
    """What like-events.dlq takes: the largest event, every byte of it escaped, and where it came from."""
    return _WORST_ESCAPE * max_event_bytes(settings) + _ENVELOPE_BYTES


def content_key(line: bytes) -> bytes | None:
    """The key of an event, as well as a broken line allows: its content_id or video_id, None if it has neither.

    A key only chooses the partition; what counts is decided by the job.
    """
    try:
        event = orjson.loads(line.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError:
        return None
    if not isinstance(event, dict):
        return None
    content_id = event.get("content_id")
    if content_id is None:
        content_id = event.get("video_id")
    return content_id.encode() if isinstance(content_id, str) and content_id else None


def service_of(settings: Settings) -> Service:
    """How errors name this Kafka."""
    return Service("Kafka", settings.kafka.bootstrap, "kafka.bootstrap")


def connection(settings: Settings) -> dict[str, object]:
    """Arguments that every kafka-python client takes."""
    options = settings.kafka
    return {
        "bootstrap_servers": [server.strip() for server in options.bootstrap.split(",")],
        "bootstrap_timeout_ms": _BOOTSTRAP_MS,
        "request_timeout_ms": _REQUEST_MS,
        "reconnect_backoff_max_ms": 1_000,
        "security_protocol": options.security_protocol,
        "sasl_mechanism": options.sasl_mechanism or None,
        "sasl_plain_username": options.username or None,
        "sasl_plain_password": options.password.get_secret_value() or None,
        "ssl_cafile": options.ca_file or None,
    }


def make_client(kind: Callable[..., Any], settings: Settings, **options: object) -> Any:  # noqa: ANN401  untyped client
    """Make a producer, consumer or admin client; where that fails, close the connections and thread that it leaves."""
    networks: list[Any] = []

    def network(**configs: object) -> Any:  # noqa: ANN401
        networks.append(KafkaNetClient(**configs))
        return networks[-1]

    try:
        return kind(**connection(settings), kafka_client=network, **options)
    except BaseException:
        for opened in networks:
            opened.close()
        raise


@contextmanager
def explained(settings: Settings) -> Iterator[None]:
    """Turn Kafka's errors into ours, each with its remedy.

    Raises:
        ServiceUnavailable: No broker answers.
        SettingError: A topic does not exist, or the user may not do this.
    """
    try:
        yield
    except (SaslAuthenticationFailedError, UnsupportedSaslMechanismError, AuthorizationError) as error:
        raise SettingError(
            f"Kafka at {settings.kafka.bootstrap} refuses the user {settings.kafka.username!r}: {error}",
            "correct the settings kafka.username and kafka.password, or its ACLs",
        ) from error
    except UnknownTopicOrPartitionError as error:
        raise SettingError(
            f"Kafka at {settings.kafka.bootstrap} lacks a topic: {error}",
            "create it with `likes job run`, or correct its name in the settings",
        ) from error
    except KafkaError as error:
        if not error.retriable:
            raise
        raise service_of(settings).unavailable(error) from error


def administer(settings: Settings, call: Callable[[Any], Any]) -> Any:  # noqa: ANN401  untyped client
    """Call with an admin client that lives for this call, again where Kafka says that another attempt may help.

    Raises:
        ServiceUnavailable: No broker answers, after retries.
        SettingError: A topic does not exist, or the user may not do this.
    """

    def attempt() -> Any:  # noqa: ANN401
        try:
            return call(admin)
        except UnknownTopicOrPartitionError:
            raise
        except KafkaError as error:
            if error.retriable:
                raise _Retriable(str(error)) from error
            raise

    with explained(settings):
        # Connecting has its own retries, inside kafka-python.
        admin = make_client(KafkaAdminClient, settings)
        try:
            return insist(settings.retry, service_of(settings), (_Retriable,), attempt)
        finally:
            admin.close()

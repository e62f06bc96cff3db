"""Events to Kafka, acknowledged.

Guarantee: an event that `send` returns for is on all in-sync replicas (`acks=all`), in order and once per send (an
idempotent producer). One that raises may still be there; sending the same event again does no harm, since registers do
not count repetitions.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import zlib
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, Producer

from serving.dependency import Away
from serving.metrics import EVENTS, QUEUED

if TYPE_CHECKING:
    from pipelines.settings import Settings
    from serving.dependency import Dependency

_ACKNOWLEDGED = EVENTS.labels("acknowledged")
_LOG = logging.getLogger(__name__)
_POLL_S = 0.1
_LAST_POLLS = 3
_LINGER_MS = 5
_METADATA_S = 60.0


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Where an event lies.

    Fields:
        partition: Of the log.
        offset: In it.
    """

    partition: int
    offset: int


_Delivery = tuple["asyncio.Future[Acknowledged]", Any, Any]


def kafka_options(settings: Settings) -> dict[str, Any]:
    """How librdkafka connects."""
    wanted = settings.kafka
    options: dict[str, Any] = {
        "bootstrap.servers": wanted.bootstrap,
        "security.protocol": wanted.security_protocol,
        "reconnect.backoff.max.ms": 1_000,
        "log_level": 2,
    }
    if wanted.sasl_mechanism:
        options |= {
            "sasl.mechanism": wanted.sasl_mechanism,
            "sasl.username": wanted.username,
            "sasl.password": wanted.password.get_secret_value(),
        }
    if wanted.ca_file:
        options["ssl.ca.location"] = wanted.ca_file
    return options


def stable_hash(text: str) -> int:
    """The same in every process and on every day."""
    return zlib.crc32(text.encode())


def spread(content_id: str, user_id: str, over: int, partitions: int) -> int:
    """The partition of a hot content's event: one of a few, by user, so each user's events stay together.

    Args:
        content_id: What was tapped.
        user_id: By whom.
        over: How many partitions it may use.
        partitions: How many there are.
    """
    place = stable_hash(f"{user_id}\0{content_id}") % min(over, partitions)
    return (stable_hash(content_id) + place) % partitions


class EventProducer:
    """Sends events from an event loop; waiting is done by a thread.

    Args:
        settings: Of Kafka, its topic and how long to wait.
        service: Kafka, as a dependency.
    """

    def __init__(self, settings: Settings, service: Dependency) -> None:
        self._settings = settings
        self._service = service
        self._topic = settings.kafka.events_topic
        self._partitions = 0
        self._loop = asyncio.get_running_loop()
        self._delivered: list[_Delivery] = []
        self._is_broken = False
        # librdkafka gives up first.
        self._timeout_s = settings.serve.kafka_timeout_ms / 1000 + 1.0
        self._producer = self._new()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="kafka-acks", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Give what is queued a moment, then end."""
        self._producer.flush(self._settings.serve.kafka_timeout_ms / 1000)
        self._ends.set()
        self._thread.join()

    async def send(self, key: str, value: bytes, partition: int | None) -> Acknowledged:
        """Send an event and wait until Kafka has it.

        Args:
            key: The content id.
            value: The event.
            partition: Where to; None: by the key, as Kafka's own clients do.

        Raises:
            Away: Kafka has not acknowledged it in time, or too many events wait already.
        """
        answer: asyncio.Future[Acknowledged] = self._loop.create_future()

        def delivered(error: Any, message: Any) -> None:  # noqa: ANN401  untyped client
            self._delivered.append((answer, error, message))

        where: dict[str, Any] = {} if partition is None else {"partition": partition}
        try:
            with self._service.used((KafkaException, TimeoutError)):
                self._producer.produce(self._topic, value, key.encode(), on_delivery=delivered, **where)
                async with asyncio.timeout(self._timeout_s):
                    acknowledged = await answer
        except BufferError:
            EVENTS.labels("queue_full").inc()
            raise Away("too many events wait for Kafka") from None
        except Away as error:
            EVENTS.labels("failed").inc()
            self._note(error.__cause__)
            raise
        _ACKNOWLEDGED.inc()
        return acknowledged

    def spread(self, content_id: str, user_id: str) -> int | None:
        """See the function; None while the number of partitions is not known."""
        if not self._partitions:
            return None
        return spread(content_id, user_id, self._settings.serve.hot_partitions, self._partitions)

    def learn_partitions(self, timeout_s: float) -> None:
        """Ask how many partitions the log has. Blocks."""
        try:
            found = self._producer.list_topics(self._topic, timeout_s).topics[self._topic]
        except KafkaException as error:
            self._service.failed(str(error.args[0]))
            return
        if found.error is None:
            self._partitions = len(found.partitions)
            self._service.answered()
        else:
            self._service.failed(f"topic {self._topic}: {found.error}")

    def _failed(self, error: KafkaError) -> None:
        self._is_broken = self._is_broken or error.code() == KafkaError._FATAL or error.fatal()  # noqa: SLF001  public

    def _note(self, error: BaseException | None) -> None:
        if isinstance(error, KafkaException) and isinstance(error.args[0], KafkaError):
            self._failed(error.args[0])

    def _replace(self) -> None:
        """An idempotent producer that has failed for good sends nothing more."""
        _LOG.warning("the Kafka producer has failed for good; going on with another")
        failed, self._producer, self._is_broken = self._producer, self._new(), False
        failed.purge()
        for _ in range(_LAST_POLLS):
            with suppress(KafkaException):
                failed.poll(0)  # whoever waits for it hears of it

    def _new(self) -> Producer:
        return Producer(
            {
                **kafka_options(self._settings),
                "error_cb": self._failed,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": _LINGER_MS,
                "message.timeout.ms": self._settings.serve.kafka_timeout_ms,
                "queue.buffering.max.messages": self._settings.serve.kafka_queue,
                "partitioner": "murmur2_random",
                "topic.metadata.refresh.interval.ms": int(_METADATA_S * 1000),
            }
        )

    def _poll(self) -> None:
        while not self._ends.is_set():
            try:
                self._producer.poll(_POLL_S)
            except KafkaException as error:
                self._note(error)
            if self._is_broken:
                self._replace()
            if self._delivered:
                delivered, self._delivered = self._delivered, []
                self._loop.call_soon_threadsafe(_settle, delivered)  # waking the event loop once for all of them
            QUEUED.set(len(self._producer))


def _settle(delivered: list[_Delivery]) -> None:
    for answer, error, message in delivered:
        if answer.done():
            continue
        if error is not None:
            answer.set_exception(KafkaException(error))
        else:
            answer.set_result(Acknowledged(message.partition(), message.offset()))

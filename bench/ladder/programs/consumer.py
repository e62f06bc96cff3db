"""What all the programs share: their arguments, and taps from Kafka in batches.

Guarantee: at least once. Offsets are committed by hand, after what was read has been applied.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, KafkaException

from bench.ladder.taps import Tap, tap_of

_WAIT_S = 0.05
_LOST = (KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID)


class Taps:
    """A member of the consumer group.

    Args:
        options: As `arguments` returns them.
        settle: Called before partitions go to another member: applies what was read, and commits.
    """

    def __init__(self, options: argparse.Namespace, settle: Callable[[Taps], None]) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": options.bootstrap,
                "group.id": options.group,
                # Known by name, a member that was killed is back at once instead of after its session.
                "group.instance.id": f"{options.group}-{options.index}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._moved = False
        self._consumer.subscribe([options.topic], on_revoke=lambda *_: settle(self))

    def read(self, most: int) -> list[Tap]:
        """What there is, up to so many records; waits a moment for them. What is no event is left out.

        Raises:
            KafkaException: The broker refuses.
        """
        taps = []
        for message in self._consumer.consume(most, timeout=_WAIT_S):
            if error := message.error():
                if error.retriable():
                    continue
                raise KafkaException(error)
            self._moved = True
            partition = message.partition()
            if partition is not None and (tap := tap_of(message.value() or b"", partition)):
                taps.append(tap)
        return taps

    def commit(self) -> None:
        """Everything that was read has been applied.

        Raises:
            KafkaException: The broker refuses.
        """
        if self._moved:
            try:
                self._consumer.commit(asynchronous=False)
            except KafkaException as error:
                # Another member has the partitions and reads the batch again.
                if error.args[0].code() not in _LOST:
                    raise
            self._moved = False

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()


@contextmanager
def opened(options: argparse.Namespace, settle: Callable[[Taps], None] = Taps.commit) -> Iterator[Taps]:
    """Taps until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    taps = Taps(options, settle)
    try:
        yield taps
    finally:
        taps.close()


def count(options: argparse.Namespace, apply: Callable[[list[Tap]], None], batch: int) -> None:
    """Apply taps and commit them, a batch at a time, until SIGTERM."""
    with opened(options) as taps:
        while True:
            apply(taps.read(batch))
            taps.commit()


def arguments() -> argparse.Namespace:
    """What `bench.ladder.trial` says on the command line."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "topic", "group", "redis", "cassandra-hosts", "keyspace"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("index", "cassandra-port", "capacity"):
        parser.add_argument(f"--{name}", type=int, required=True)
    return parser.parse_args()

"""Bytewax: registers in keyed state by content and user, then counts in keyed state by content.

Recovery is on: state and Kafka offsets are snapshotted together every few seconds. Guarantee: after a crash everything
since the last snapshot is counted again from its state, so outputs repeat and end at the same totals.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import bytewax.operators as op
import orjson
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource, KafkaSourceMessage
from bytewax.dataflow import Dataflow
from bytewax.operators import StatefulBatchLogic
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main

_REACTIONS = {"LIKE": 1, "DISLIKE": 2, "UNLIKE": 3, "UNDISLIKE": 3}
_REGIONS = {name: code for code, name in enumerate(("us", "eu", "ap", "sa", "af", "me", "oc"))}
_NONE = 3
_SNAPSHOT_EVERY = timedelta(seconds=5)
_RECOVERY_PARTITIONS = 2

Delta = tuple[int, int]


class Register(StatefulBatchLogic[int, Delta, int]):
    """The newest register of a content and user; emits how it changes the content's counts."""

    def __init__(self, state: int | None) -> None:
        self.state = state or _NONE << 16

    def on_batch(self, values: list[int]) -> tuple[Iterable[Delta], bool]:
        """Take registers, in any order."""
        old, new = self.state, max(values)
        if new <= old:
            return (), StatefulBatchLogic.RETAIN
        self.state = new
        before, after = old >> 16 & 15, new >> 16 & 15
        if before == after:
            return (), StatefulBatchLogic.RETAIN
        return [((after == 1) - (before == 1), (after == 2) - (before == 2))], StatefulBatchLogic.RETAIN

    def snapshot(self) -> int:
        """What recovery keeps."""
        return self.state


class Count(StatefulBatchLogic[Delta, Delta, Delta]):
    """The counts of a content; emits them once for a batch."""

    def __init__(self, state: Delta | None) -> None:
        self.likes, self.dislikes = state or (0, 0)

    def on_batch(self, values: list[Delta]) -> tuple[Iterable[Delta], bool]:
        """Add changes."""
        for likes, dislikes in values:
            self.likes += likes
            self.dislikes += dislikes
        return [(self.likes, self.dislikes)], StatefulBatchLogic.RETAIN

    def snapshot(self) -> Delta:
        """What recovery keeps."""
        return self.likes, self.dislikes


def parse(messages: list[KafkaSourceMessage]) -> Iterable[tuple[str, int]]:
    """(content and user, register) of each event; what is none is left out."""
    for message in messages:
        try:
            event = orjson.loads(message.value)
            reaction = _REACTIONS[event["action"]]
            register = event["event_time"] << 20 | reaction << 16 | _REGIONS[event["region"]]
            yield event["content_id"] + "\x1f" + event["user_id"], register
        except (ValueError, KeyError, TypeError):
            continue


def rekey(changes: list[tuple[str, Delta]]) -> Iterable[tuple[str, Delta]]:
    """By content alone."""
    return [(key.partition("\x1f")[0], delta) for key, delta in changes]


def to_message(total: tuple[str, Delta]) -> KafkaSinkMessage:
    """A total as it is published."""
    content_id, (likes, dislikes) = total
    value = orjson.dumps({"content_id": content_id, "likes": likes, "dislikes": dislikes})
    return KafkaSinkMessage(content_id.encode(), value)


def build(bootstrap: str, topic: str, out: str) -> Dataflow:
    """The dataflow."""
    flow = Dataflow("likes")
    messages = op.input("read", flow, KafkaSource([bootstrap], [topic], batch_size=1_000))
    registers = op.flat_map_batch("parse", messages, parse)
    changes = op.stateful_batch("register", registers, Register)
    counts = op.stateful_batch("count", op.flat_map_batch("rekey", changes, rekey), Count)
    op.output("write", op.map("message", counts, to_message), KafkaSink([bootstrap], out, {"linger.ms": "20"}))
    return flow


def main() -> None:
    """Run until it is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "topic", "out", "group", "state", "redis", "index", "addresses"):
        parser.add_argument(f"--{name}")
    options = parser.parse_args()
    state, addresses = Path(options.state), options.addresses.split(";")
    if options.index == "0" and not any(state.glob("*.sqlite3")):
        init_db_dir(state, _RECOVERY_PARTITIONS)
    cli_main(
        build(options.bootstrap, options.topic, options.out),
        process_id=int(options.index) if len(addresses) > 1 else None,
        addresses=addresses if len(addresses) > 1 else None,
        epoch_interval=_SNAPSHOT_EVERY,
        recovery_config=RecoveryConfig(state, timedelta(0)),
    )


if __name__ == "__main__":
    main()

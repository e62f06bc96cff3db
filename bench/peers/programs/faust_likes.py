"""Faust: the topic is keyed by content, so tables of registers and counts share its partitions.

Tables are in RocksDB (rocksdict) with changelog topics; outputs, changelogs and offsets are one Kafka transaction per
partition and commit. RocksDB itself is written at once and knows of no transaction.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

import faust
import orjson

_REACTIONS = {"LIKE": 1, "DISLIKE": 2, "UNLIKE": 3, "UNDISLIKE": 3}
_REGIONS = {name: code for code, name in enumerate(("us", "eu", "ap", "sa", "af", "me", "oc"))}
_NONE = 3
_PARTITIONS = 4
_PACK = 1 << 32  # likes and dislikes in one number, since a table holds models or plain values
_COMMIT_S, _COMMIT_EVERY = 5.0, 1_000_000


def parse(value: bytes) -> tuple[str, str, int] | None:
    """(content, user, register) of an event; None if it is none."""
    try:
        event = orjson.loads(value)
        reaction = _REACTIONS[event["action"]]
        register = event["event_time"] << 20 | reaction << 16 | _REGIONS[event["region"]]
        return event["content_id"], event["user_id"], register
    except (ValueError, KeyError, TypeError):
        return None


def build(bootstrap: str, topic: str, out: str, group: str, state: Path) -> faust.App:
    """The app."""
    app = faust.App(
        group,
        broker=f"kafka://{bootstrap}",
        store="rocksdb://",
        datadir=state,
        processing_guarantee="exactly_once",
        topic_partitions=_PARTITIONS,
        topic_replication_factor=1,
        consumer_auto_offset_reset="earliest",
        broker_session_timeout=10.0,
        broker_heartbeat_interval=3.0,
        broker_commit_interval=_COMMIT_S,
        broker_commit_every=_COMMIT_EVERY,
        producer_linger=0.0,
        stream_buffer_maxsize=16_384,
        stream_wait_empty=False,
        web_enabled=False,
    )
    raw = {"key_type": bytes, "value_type": bytes, "key_serializer": "raw", "value_serializer": "raw"}
    events = app.topic(topic, **raw)
    totals = app.topic(out, partitions=_PARTITIONS, **raw)
    registers = app.Table("registers", default=int, partitions=_PARTITIONS, key_type=str, value_type=int)
    counts = app.Table("counts", default=int, partitions=_PARTITIONS, key_type=str, value_type=int)

    async def count(stream: faust.StreamT[bytes]) -> None:
        async for value in stream:
            parsed = parse(value)
            if parsed is None:
                continue
            content_id, user_id, new = parsed
            key = f"{content_id}\x1f{user_id}"
            old = registers.get(key) or _NONE << 16
            if new <= old:
                continue
            registers[key] = new
            before, after = old >> 16 & 15, new >> 16 & 15
            if before == after:
                continue
            likes, dislikes = divmod(counts.get(content_id) or 0, _PACK)
            likes += (after == 1) - (before == 1)
            dislikes += (after == 2) - (before == 2)
            counts[content_id] = likes * _PACK + dislikes
            total = orjson.dumps({"content_id": content_id, "likes": likes, "dislikes": dislikes})
            await totals.send(key=content_id.encode(), value=total)

    app.agent(events)(count)
    return app


def main() -> None:
    """Run until SIGTERM, which Faust handles."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "topic", "out", "group", "state", "redis", "index"):
        parser.add_argument(f"--{name}")
    options = parser.parse_args()
    # Faust's root logger takes everything, and aiokafka describes every request: a tenth of the time.
    logging.getLogger("aiokafka").setLevel(logging.WARNING)
    folder = Path(options.state) / options.index
    app = build(options.bootstrap, options.topic, options.out, options.group, folder)
    faust.Worker(app, loglevel="WARNING").execute_from_commandline()


if __name__ == "__main__":
    main()

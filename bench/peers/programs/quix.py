"""Quix Streams: the topic is keyed by content, so registers and counts are keyed state of the message's key.

State is in RocksDB with changelog topics, and outputs, changelogs and offsets are one Kafka transaction per commit.
Guarantee: exactly once. Quix writes an output for each change; only its windows would merge them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from quixstreams import Application, State

_REACTIONS = {"LIKE": 1, "DISLIKE": 2, "UNLIKE": 3, "UNDISLIKE": 3}
_REGIONS = {name: code for code, name in enumerate(("us", "eu", "ap", "sa", "af", "me", "oc"))}
_NONE = 3
_COMMIT_S = 5.0


def count(event: dict[str, Any], state: State) -> dict[str, Any] | None:
    """The content's new counts, None if this event changes nothing or is none."""
    try:
        content_id, user_id, reaction = event["content_id"], event["user_id"], _REACTIONS[event["action"]]
        register = event["event_time"] << 20 | reaction << 16 | _REGIONS[event["region"]]
    except (KeyError, TypeError):
        return None
    key = f"u{user_id}"
    old = state.get(key, _NONE << 16)
    if register <= old:
        return None
    state.set(key, register)
    before = old >> 16 & 15
    if before == reaction:
        return None
    likes, dislikes = state.get("counts", [0, 0])
    likes += (reaction == 1) - (before == 1)
    dislikes += (reaction == 2) - (before == 2)
    state.set("counts", [likes, dislikes])
    return {"content_id": content_id, "likes": likes, "dislikes": dislikes}


def main() -> None:
    """Run until SIGTERM, which Quix handles."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "topic", "out", "group", "state", "redis", "index"):
        parser.add_argument(f"--{name}")
    options = parser.parse_args()
    app = Application(
        options.bootstrap,
        consumer_group=options.group,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=_COMMIT_S,
        state_dir=Path(options.state) / options.index,
        consumer_extra_config={"session.timeout.ms": 10_000},
        # A name that stays lets a restarted process abort what it left open, instead of waiting until it expires.
        producer_extra_config={
            "transactional.id": f"{options.group}-{options.index}",
            "linger.ms": 50,
            "compression.type": "lz4",
        },
        on_consumer_error=lambda *_: True,
        loglevel="WARNING",
    )
    events = app.topic(options.topic, key_deserializer="str", value_deserializer="json")
    counts = app.topic(options.out, key_serializer="str", value_serializer="json")
    changes = app.dataframe(events).apply(count, stateful=True)
    changes = changes.filter(lambda total: total is not None)
    changes.to_topic(counts)
    app.run()


if __name__ == "__main__":
    main()

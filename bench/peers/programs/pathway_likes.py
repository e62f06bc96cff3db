"""Pathway: the largest register by content and user, then sums by content, all in its Rust engine.

Its input is persisted to the file system, and replayed after a crash; persisting its operators instead takes a licence
key. Guarantee: at least once for outputs; totals are absolute.
"""

from __future__ import annotations

import argparse

import pathway as pw

_REACTIONS = {"LIKE": 1, "DISLIKE": 2, "UNLIKE": 3, "UNDISLIKE": 3}
_REGIONS = ("us", "eu", "ap", "sa", "af", "me", "oc")
_UNKNOWN = 15
_COMMIT_MS, _SNAPSHOT_MS = 500, 5_000
_BACKLOG = 200_000


class LikeEvent(pw.Schema, append_only=True):  # type: ignore[call-arg]
    """What is read of an event."""

    content_id: str
    user_id: str
    action: str
    event_time: int
    region: str


def build(bootstrap: str, topic: str, out: str, group: str) -> None:
    """The dataflow, from topic to topic."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": "10000",
        # Its offsets are in its snapshots, but it only returns to them when a partition has something to read: without
        # this, one that the group had committed to its end, ahead of the snapshot, would lose events in a crash.
        "enable.auto.commit": "false",
    }
    events = pw.io.kafka.read(
        settings,
        topic,
        schema=LikeEvent,
        format="json",
        autocommit_duration_ms=_COMMIT_MS,
        max_backlog_size=_BACKLOG,
        name="events",
    )
    reaction = pw.cast(int, _UNKNOWN)
    for action, code in _REACTIONS.items():
        reaction = pw.if_else(events.action == action, code, reaction)
    region = pw.cast(int, 0)
    for code, name in enumerate(_REGIONS):
        region = pw.if_else(events.region == name, code, region)
    packed = events.select(events.content_id, events.user_id, reaction=reaction, rest=region, at=events.event_time)
    known = packed.filter(packed.reaction != _UNKNOWN)
    # Pathway has no shifts of columns, so the fields are laid out by multiplication.
    register = known.select(
        known.content_id, known.user_id, register=known.at * 1_048_576 + known.reaction * 65_536 + known.rest
    )
    newest = register.groupby(register.content_id, register.user_id).reduce(
        register.content_id, register=pw.reducers.max(register.register)
    )
    winner = newest.select(newest.content_id, reaction=newest.register // 65_536 % 16)
    counts = winner.groupby(winner.content_id).reduce(
        winner.content_id,
        likes=pw.reducers.sum(pw.if_else(winner.reaction == 1, 1, 0)),
        dislikes=pw.reducers.sum(pw.if_else(winner.reaction == 2, 1, 0)),
    )
    pw.io.kafka.write(counts, {"bootstrap.servers": bootstrap}, out, format="json", name="counts")


def main() -> None:
    """Run until it is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "topic", "out", "group", "state", "redis", "index"):
        parser.add_argument(f"--{name}")
    options = parser.parse_args()
    build(options.bootstrap, options.topic, options.out, options.group)
    pw.run(
        monitoring_level=pw.MonitoringLevel.NONE,
        persistence_config=pw.persistence.Config(
            pw.persistence.Backend.filesystem(options.state),
            snapshot_interval_ms=_SNAPSHOT_MS,
            persistence_mode=pw.PersistenceMode.PERSISTING,
        ),
    )


if __name__ == "__main__":
    main()

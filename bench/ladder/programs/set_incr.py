"""A set of who likes and one of who dislikes for each content; INCR and DECR follow what SADD and SREM changed.

Two round trips for a batch: the sets, then the counters. Loses truth by taps that arrive after newer ones of the same
user. A kill between the two leaves users in a set whom no counter has, for ever. (One Lua call for both would close
that gap; the sets stay as large as everything that anyone likes.)
"""

from __future__ import annotations

import redis

from bench.ladder.programs.consumer import arguments, count
from bench.ladder.taps import STEPS, Tap

_BATCH = 2_000
_OPPOSITE = {"likes": "dislikes", "dislikes": "likes"}


def apply(client: redis.Redis, taps: list[Tap]) -> None:
    """Apply a batch."""
    pipeline = client.pipeline(transaction=False)
    changes: list[tuple[str, int]] = []
    for tap in taps:
        kind, step = STEPS[tap.action]
        counter, member = f"{kind}:{tap.content_id}", f"members:{kind}:{tap.content_id}"
        other = _OPPOSITE[kind]
        if step > 0:
            pipeline.sadd(member, tap.user_id)
        else:
            pipeline.srem(member, tap.user_id)
        # A new reaction replaces the other one, and taking back takes back either.
        pipeline.srem(f"members:{other}:{tap.content_id}", tap.user_id)
        changes += [(counter, step), (f"{other}:{tap.content_id}", -1)]
    changed = pipeline.execute()
    for (key, step), amount in zip(changes, changed, strict=True):
        if amount:
            (pipeline.incr if step > 0 else pipeline.decr)(key)
    pipeline.execute()


def main() -> None:
    """Run until SIGTERM."""
    options = arguments()
    client = redis.Redis.from_url(options.redis)
    count(options, lambda taps: apply(client, taps), _BATCH)


if __name__ == "__main__":
    main()

"""INCR or DECR on one of several keys for every tap, a batch in one round trip; a reader sums the keys.

Meant to take the heat from one key. Loses truth as `redis_incr` does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import redis

from bench.ladder.programs.consumer import arguments, count
from bench.ladder.taps import STEPS, Tap

SHARDS = 16
_BATCH = 2_000


def apply(client: redis.Redis, taps: list[Tap], shards: Iterator[int]) -> None:
    """Apply a batch."""
    pipeline = client.pipeline(transaction=False)
    for tap in taps:
        kind, step = STEPS[tap.action]
        (pipeline.incr if step > 0 else pipeline.decr)(f"{kind}:{tap.content_id}:{next(shards)}")
    pipeline.execute()


def main() -> None:
    """Run until SIGTERM."""
    options = arguments()
    client = redis.Redis.from_url(options.redis)
    shards = itertools.cycle(range(SHARDS))
    count(options, lambda taps: apply(client, taps, shards), _BATCH)


if __name__ == "__main__":
    main()

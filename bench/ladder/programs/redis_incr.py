"""INCR or DECR for every tap, a batch in one round trip.

Loses truth by duplicates, likes said twice, and unlikes of what was not liked. A kill applies a batch, or a part of
one, twice.
"""

from __future__ import annotations

import redis

from bench.ladder.programs.consumer import arguments, count
from bench.ladder.taps import STEPS, Tap

_BATCH = 2_000


def apply(client: redis.Redis, taps: list[Tap]) -> None:
    """Apply a batch."""
    pipeline = client.pipeline(transaction=False)
    for tap in taps:
        kind, step = STEPS[tap.action]
        (pipeline.incr if step > 0 else pipeline.decr)(f"{kind}:{tap.content_id}")
    pipeline.execute()


def main() -> None:
    """Run until SIGTERM."""
    options = arguments()
    client = redis.Redis.from_url(options.redis)
    count(options, lambda taps: apply(client, taps), _BATCH)


if __name__ == "__main__":
    main()

"""Taps add up in the process; every second the sums go to Redis by INCRBY, and then the offsets are committed.

Loses truth as `redis_incr` does. A kill between two flushes costs nothing, for the taps are read again; one between a
flush and its commit applies a second's taps twice. (Committed when read, as is often done, any kill would lose them.)
"""

from __future__ import annotations

import time
from collections import Counter

import redis

from bench.ladder.programs.consumer import Taps, arguments, opened
from bench.ladder.taps import STEPS, Tap

_BATCH = 2_000
_FLUSH_S = 1.0


class Buffer:
    """Sums that are not in Redis yet."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._sums: Counter[str] = Counter()

    def take(self, tap: Tap) -> None:
        """Add one tap."""
        kind, step = STEPS[tap.action]
        self._sums[f"{kind}:{tap.content_id}"] += step

    def flush(self, taps: Taps) -> None:
        """Write everything, then commit."""
        pipeline = self._client.pipeline(transaction=False)
        for key, amount in self._sums.items():
            if amount:
                pipeline.incrby(key, amount)
        pipeline.execute()
        self._sums.clear()
        taps.commit()


def main() -> None:
    """Run until SIGTERM."""
    options = arguments()
    buffer = Buffer(redis.Redis.from_url(options.redis))
    flush_at = time.monotonic() + _FLUSH_S
    with opened(options, buffer.flush) as taps:
        while True:
            for tap in taps.read(_BATCH):
                buffer.take(tap)
            if time.monotonic() >= flush_at:
                buffer.flush(taps)
                flush_at = time.monotonic() + _FLUSH_S


if __name__ == "__main__":
    main()

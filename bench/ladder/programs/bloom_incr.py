"""A Bloom filter of who liked and disliked what, in front of INCR; one filter in Redis for each partition.

BITFIELD sets an element's bits and returns the old ones, so a batch takes two round trips: the filter, then the
counters. Loses truth by likes that the filter takes for seen, its false positives, and by likes that come again after
they were taken back, for a filter forgets nothing. A kill between the two round trips loses the batch: read again, all
of it has been seen.
"""

from __future__ import annotations

import redis

from bench.ladder.bloom import Size, element, positions, size_for
from bench.ladder.programs.consumer import arguments, count
from bench.ladder.taps import STEPS, Tap

_BATCH = 2_000
ERROR = 0.01


def apply(client: redis.Redis, size: Size, taps: list[Tap]) -> None:
    """Apply a batch."""
    pipeline = client.pipeline(transaction=False)
    for tap in taps:
        kind, step = STEPS[tap.action]
        places = positions(element(tap.content_id, tap.user_id, kind), size)
        if step > 0:
            setting = pipeline.bitfield(f"seen:{tap.partition}")
            for place in places:
                setting.set("u1", place, 1)
            setting.execute()
        else:
            first, *others = places
            pipeline.bitfield_ro(f"seen:{tap.partition}", "u1", first, [("u1", place) for place in others])
    answers = pipeline.execute()
    for tap, bits in zip(taps, answers, strict=True):
        kind, step = STEPS[tap.action]
        # A like counts if it was not seen, and is taken back if it was.
        if all(bits) == (step < 0):
            (pipeline.decr if step < 0 else pipeline.incr)(f"{kind}:{tap.content_id}")
    pipeline.execute()


def main() -> None:
    """Run until SIGTERM."""
    options = arguments()
    client = redis.Redis.from_url(options.redis)
    size = size_for(options.capacity, ERROR)
    count(options, lambda taps: apply(client, size, taps), _BATCH)


if __name__ == "__main__":
    main()

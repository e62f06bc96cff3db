"""Which taps the simple designs get wrong, without any store: `python -m bench.ladder.causes`.

    .venv/bin/python -m bench.ladder.causes --events 300000

Prints for each workload how many taps of each kind there are, and how far plain increments are off when these are left
out, one kind after the other: what a cleaner stream of taps would do for them.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterable, Iterator

from bench.difference import difference
from bench.ladder.log import LOADS, Parts
from bench.ladder.reference import Increments
from bench.ladder.taps import STEPS, Tap, tap_of

RESENT, TAKES_NOTHING, SAID_AGAIN, CHANGED = "sent twice", "takes back nothing", "said again", "changed mind"
PLAIN = "as a counter expects"
TROUBLE = (RESENT, TAKES_NOTHING, SAID_AGAIN, CHANGED)


def kinds(lines: Iterable[bytes]) -> Iterator[tuple[Tap, str]]:
    """Each tap with what it is to a counter that knows nobody, given those before it. Pure."""
    seen: set[bytes] = set()
    held: dict[tuple[str, str], str] = {}
    for line in lines:
        tap = tap_of(line, 0)
        if tap is None:
            continue
        if line in seen:
            yield tap, RESENT
            continue
        seen.add(line)
        kind, step = STEPS[tap.action]
        before = held.pop((tap.content_id, tap.user_id), None)
        if step > 0:
            held[tap.content_id, tap.user_id] = kind
            yield tap, PLAIN if before is None else SAID_AGAIN if before == kind else CHANGED
        else:
            yield tap, PLAIN if before == kind else TAKES_NOTHING


def main() -> None:
    """Print both workloads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=300_000, help="in each log")
    arguments = parser.parse_args()
    for load in LOADS:
        parts = Parts(load, [arguments.events], time.time_ns() // 1_000_000)
        truth = parts.truth(1)
        taps = list(kinds(parts.lines(0)))
        amounts = Counter(kind for _, kind in taps)
        print(f"{load.name}: {arguments.events:,} taps, {sum(map(sum, truth.values())):,} true likes and dislikes")
        for without in range(len(TROUBLE) + 1):
            reference, left_out = Increments(), TROUBLE[:without]
            for tap, kind in taps:
                if kind not in left_out:
                    reference.take(tap)
            wrong = difference(reference.counts(), truth)
            name = f"without {amounts[left_out[-1]]:,} {left_out[-1]!r}" if left_out else "all taps"
            print(f"  {name:<44} too few {wrong.lost:>7,}  too many {wrong.gained:>7,}")


if __name__ == "__main__":
    main()

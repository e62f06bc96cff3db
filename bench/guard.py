"""`make bench-guard`: ratios that a slow machine leaves as they are and a mistake in the plan does not.

    .venv/bin/python -m bench.guard

Each floor is about half of what is usual, so noise does not reach it; work that is done twice does. Starts a stack of
its own in a temporary folder and removes it. Exit code 1 where a ratio is below its floor.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from bench.harness import at_least, own_stack
from bench.workloads import VIRAL, ZIPF

if TYPE_CHECKING:
    from bench.counting import Bench


@dataclass(frozen=True, slots=True)
class Ratio:
    """Two rates of one run, divided.

    Fields:
        name: Of what over what.
        value: Measured.
        floor: Below this something is wrong.
    """

    name: str
    value: float
    floor: float

    @property
    def holds(self) -> bool:
        """Whether it is not below its floor."""
        return self.value >= self.floor


def ratios(bench: Bench, events: int, runs: int) -> list[Ratio]:
    """Measure; every count is asserted exact on the way."""
    zipf, viral = bench.fill(ZIPF, events), bench.fill(VIRAL, events)
    validating = median(rate for _, rate in bench.staged(zipf, ["parse"], runs))
    counting = median(run.rate for run in bench.counted(zipf, stores=False, runs=runs))
    hot = median(run.rate for run in bench.counted(viral, stores=False, runs=runs))
    return [
        Ratio("counting over validating alone", counting / validating, 0.25),
        Ratio("one video over Zipf", hot / counting, 0.6),
    ]


def main() -> None:
    """Measure and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=at_least(500_000), default=1_000_000, help="in each log")
    parser.add_argument("--runs", type=at_least(1), default=2, help="of each rate")
    arguments = parser.parse_args()
    with own_stack() as bench:
        found = ratios(bench, arguments.events, arguments.runs)
    for ratio in found:
        print(f"{ratio.name:<34} {ratio.value:>6.2f}  (floor {ratio.floor})  {'ok' if ratio.holds else 'TOO LOW'}")
    sys.exit(0 if all(ratio.holds for ratio in found) else 1)


if __name__ == "__main__":
    main()

"""`python -m bench.ladder`: the designs that engineers argue about, each counting the same taps on the same stores.

    .venv/bin/python -m bench.ladder --only redis_incr,likes_counter --runs 1

Starts a stack of its own in a temporary folder and removes it. Progress goes to stderr. See docs/designs.md.
"""

from __future__ import annotations

from bench.harness import compare_command
from bench.ladder.designs import DESIGNS
from bench.ladder.report import table
from bench.ladder.run import run_ladder

if __name__ == "__main__":
    compare_command(__doc__, [design.name for design in DESIGNS], run_ladder, table)

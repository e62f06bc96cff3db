"""`python -m bench.ladder`: the designs that engineers argue about, each counting the same taps on the same stores.

    .venv/bin/python -m bench.ladder --only redis_incr,likes_counter --runs 1

Starts a stack of its own in a temporary folder and removes it. Progress goes to stderr. See docs/designs.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.harness import names_of, own_stack, save
from bench.ladder.designs import DESIGNS
from bench.ladder.report import Row, table
from bench.ladder.run import run_ladder

_NAMES = tuple(design.name for design in DESIGNS)


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=names_of(_NAMES), default=_NAMES, help=f"of {', '.join(_NAMES)}, with commas")
    parser.add_argument("--events", type=int, help="in each run; default: by design, for runs of about 5 s")
    parser.add_argument("--runs", type=int, default=3, help="of each design and workload")
    parser.add_argument("--no-kill", action="store_true", help="leave out the part with a kill")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    arguments = parser.parse_args()
    rows: list[Row] = []
    with own_stack() as bench:
        for row in run_ladder(
            bench, arguments.runs, only=arguments.only, events=arguments.events, kill=not arguments.no_kill
        ):
            rows.append(row)
            if arguments.json:  # after each, so that an interrupted bench leaves what it has
                save(arguments.json, [row.as_json() for row in rows])
    print(table(rows))


if __name__ == "__main__":
    main()

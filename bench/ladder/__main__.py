"""`python -m bench.ladder`: the designs that engineers argue about, each counting the same taps on the same stores.

    .venv/bin/python -m bench.ladder --only redis_incr,likes_counter --runs 1

Starts a stack of its own in a temporary folder and removes it. Progress goes to stderr. See docs/designs.md.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from pathlib import Path

from bench import machine
from bench.ladder.designs import DESIGNS
from bench.ladder.report import Row, table
from bench.ladder.run import run_ladder
from deploy.flink.local_stack import Stack

_NAMES = tuple(design.name for design in DESIGNS)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _names(text: str) -> list[str]:
    names = text.split(",")
    if unknown := sorted(set(names) - set(_NAMES)):
        raise argparse.ArgumentTypeError(f"{unknown[0]} is none of {', '.join(_NAMES)}")
    return names


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=_names, default=list(_NAMES), help=f"of {', '.join(_NAMES)}, with commas")
    parser.add_argument("--events", type=int, help="in each run; default: by design, for runs of about 5 s")
    parser.add_argument("--runs", type=int, default=3, help="of each design and workload")
    parser.add_argument("--no-kill", action="store_true", help="leave out the part with a kill")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell started us in the background
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that everything is taken down
    _tell(json.dumps(machine.describe()))
    began = time.monotonic()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="likes-ladder-") as folder:
        stack = Stack(Path(folder) / "stack")
        try:
            stack.up(_tell)
            for row in run_ladder(
                stack,
                arguments.runs,
                _tell,
                only=arguments.only,
                events=arguments.events,
                kill=not arguments.no_kill,
            ):
                rows.append(row)
                if arguments.json:  # after each, so that an interrupted bench leaves what it has
                    text = json.dumps([row.as_json() for row in rows], indent=1)
                    arguments.json.write_text(text + "\n", encoding="utf-8")
        finally:
            stack.down(purge=True)
    _tell(f"took {time.monotonic() - began:.0f} s")
    print(table(rows))


if __name__ == "__main__":
    main()

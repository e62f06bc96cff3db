"""`python -m bench.peers`: how fast this project and its peers count the same log, and what two kills do to them.

    .venv/bin/python -m bench.peers --only quix,bytewax --runs 1

Starts a stack of its own in a temporary folder and removes it. What peers need is installed below the user's cache
folder at the first run, about 1.7 GB for all of them. Progress goes to stderr.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.harness import names_of, own_stack, save
from bench.peers.contenders import NAMES, compare
from bench.report import Row, table


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=names_of(NAMES), default=NAMES, help=f"of {', '.join(NAMES)}, with commas")
    parser.add_argument("--events", type=int, help="in each log; default: by peer, for runs of about 10 s")
    parser.add_argument("--runs", type=int, default=3, help="of each")
    parser.add_argument("--no-kill", action="store_true", help="leave out the run with kills")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    arguments = parser.parse_args()
    rows: list[Row] = []
    with own_stack() as bench:
        for row in compare(
            bench, arguments.runs, names=arguments.only, events=arguments.events, kill=not arguments.no_kill
        ):
            rows.append(row)
            if arguments.json:  # after each, so that an interrupted bench leaves what it has
                save(arguments.json, [row.as_json() for row in rows])
    print(table(rows))


if __name__ == "__main__":
    main()

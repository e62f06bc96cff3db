"""`python -m bench.peers`: how fast this project and its peers count the same log, and what two kills do to them.

    .venv/bin/python -m bench.peers --only quix,bytewax --runs 1

Starts a stack of its own in a temporary folder and removes it. What peers need is installed below the user's cache
folder at the first run, about 1.7 GB for all of them. Progress goes to stderr.
"""

from __future__ import annotations

from bench.harness import compare_command
from bench.peers.contenders import NAMES, compare
from bench.report import table

if __name__ == "__main__":
    compare_command(__doc__, NAMES, compare, table)

"""Bounded counting runs in a process of their own, with or without the stores; prints the outcome of each as JSON.

Settings come from the environment, as for `likes`. Without the stores everything else is the same plan: reading,
validating, dedup, counting, checkpoints, the Python function, and `content-counts`. Several runs share one JVM, so that
only the first has its warm-up; each counts the same topic from the beginning into names of its own, and begins once a
line comes in.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any

import pandas as pd
import redis
from pyflink.table.udf import ScalarFunction

from bench.fresh import numbered
from bench.machine import cpu_s
from cli.common import settings_from_process
from pipelines.jobs.plan import Request
from pipelines.jobs.run import run


class NoStores(ScalarFunction):
    """Takes totals as the store step does and writes nothing; the version is the number of changes."""

    def is_deterministic(self) -> bool:
        """As the real one."""
        return False

    def eval(self, *columns: pd.Series[Any]) -> pd.Series[Any]:
        """Returns the changes."""
        return columns[6]


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-stores", action="store_true", help="write content-counts alone")
    parser.add_argument("--runs", type=int, default=1)
    arguments = parser.parse_args()
    settings = settings_from_process()
    for number in range(arguments.runs):
        if number:
            sys.stdin.readline()
        function = NoStores() if arguments.no_stores else None
        if function is None:
            with redis.Redis.from_url(settings.redis.url.get_secret_value()) as client:
                client.flushdb()  # every run is a first generation, and its versions are no newer than the last one's
        before = cpu_s()
        outcome = run(numbered(settings, number), Request(bounded=True), _tell, function)
        print(json.dumps(asdict(outcome) | {"cpu_s": round(cpu_s() - before, 2)}), flush=True)


def _tell(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    main()

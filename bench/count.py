"""Bounded counting runs in a process of their own, with or without the stores; prints the outcome of each as JSON.

Counts once with the settings of the environment, as `likes` has them; or, with `--asked`, once for each line of stdin,
a JSON object with `environment` (the settings) and `stores`, all in one JVM. Without the stores everything else is the
same plan: reading, validating, dedup, counting, checkpoints, the Python function, and `content-counts`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from typing import Any

import pandas as pd
from pyflink.table.udf import ScalarFunction

from bench.machine import cpu_s
from cli.common import settings_from_process
from pipelines.domain.version import Version
from pipelines.jobs.plan import Request
from pipelines.jobs.run import run

_PREFIX = "LIKES_"
_GENERATION = 1


class NoStores(ScalarFunction):
    """Takes totals as the store step does and writes nothing; gives them versions as it would.

    Args:
        epoch: Higher than that of a run which was killed before.
    """

    def __init__(self, epoch: int) -> None:
        self._before = Version(_GENERATION, epoch, 0).pack()

    def is_deterministic(self) -> bool:
        """As the real one."""
        return False

    def eval(self, *columns: pd.Series[Any]) -> pd.Series[Any]:
        """Returns the versions."""
        return columns[6] + self._before


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-stores", action="store_true", help="write content-counts alone")
    parser.add_argument("--epoch", type=int, default=1, help="of versions without the stores, higher after each kill")
    parser.add_argument("--asked", action="store_true", help="count what lines of stdin ask for")
    arguments = parser.parse_args()
    if not arguments.asked:
        _count(stores=not arguments.no_stores, epoch=arguments.epoch)
        return
    for line in sys.stdin:
        asked = json.loads(line)
        for name in [name for name in os.environ if name.startswith(_PREFIX)]:
            del os.environ[name]
        os.environ.update(asked["environment"])
        _count(stores=asked["stores"], epoch=arguments.epoch)


def _count(*, stores: bool, epoch: int) -> None:
    before = cpu_s()
    outcome = run(settings_from_process(), Request(bounded=True), _tell, None if stores else NoStores(epoch))
    print(json.dumps(asdict(outcome) | {"cpu_s": round(cpu_s() - before, 2)}), flush=True)


def _tell(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    main()

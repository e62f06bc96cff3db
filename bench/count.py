"""One bounded counting run in a process of its own, with or without the stores; prints its outcome as JSON.

Settings come from the environment, as for `likes`. Without the stores everything else is the same plan: reading,
validating, dedup, counting, checkpoints, the Python function, and `content-counts`.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any

import pandas as pd
from pyflink.table.udf import ScalarFunction

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
    """Run once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-stores", action="store_true", help="write content-counts alone")
    arguments = parser.parse_args()
    function = NoStores() if arguments.no_stores else None
    outcome = run(settings_from_process(), Request(bounded=True), lambda line: print(line, file=sys.stderr), function)
    print(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()

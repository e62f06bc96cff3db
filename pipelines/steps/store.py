"""Store: each changed total overwrites Cassandra and Redis, then goes to `content-counts`.

The function that stores is a pandas UDF: it gets a batch of totals as Arrow columns, writes both stores before it
returns, and returns the version under which it wrote. A bundle ends before the checkpoint barrier, so what a checkpoint
covers has been written. Exactly one INSERT consumes it and selects its result: a result that nobody selects is pruned
and writes nothing, and a view that feeds two sinks is planned twice and writes everything twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
from pyflink.table import DataTypes
from pyflink.table.udf import FunctionContext, ScalarFunction, udf

from connectors.cassandra import Lease
from connectors.store import TotalsWriter
from pipelines.steps import sql
from pipelines.steps.count import TOTALS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyflink.table import TableEnvironment

    from pipelines.settings import Settings

COUNTS = "content_counts"
STORE_TOTAL = "store_total"


class StoreTotals(ScalarFunction):
    """Writes totals through a `TotalsWriter` that lives as long as the subtask's attempt.

    Args:
        settings: Of the job.
        generation: Which counting.
        lease: Of the job; its owner has claimed the generation's fence.
    """

    def __init__(self, settings: Settings, generation: int, lease: Lease) -> None:
        self._settings = settings
        self._generation = generation
        self._lease = lease
        self._writer: TotalsWriter | None = None

    def is_deterministic(self) -> bool:
        """No: the same totals stored again get a newer version."""
        return False

    def open(self, function_context: FunctionContext) -> None:
        """Take the epoch of this attempt, which its subtasks share."""
        attempt = function_context.get_attempt_number()
        self._writer = TotalsWriter(self._settings, self._generation, self._lease, attempt)
        self._writer.open()

    def close(self) -> None:
        """Disconnect."""
        if self._writer is not None:
            self._writer.close()

    def eval(self, *columns: pd.Series[Any]) -> pd.Series[int]:
        """Store a batch of totals; returns their versions."""
        if self._writer is None:
            raise RuntimeError("the function is not open")
        return pd.Series(self._writer.write(*columns), dtype="int64")


def store(env: TableEnvironment, function: ScalarFunction, generation: int, connector: Mapping[str, str]) -> str:
    """Create the sink table `content_counts` and return the INSERT that stores every total on its way there.

    Args:
        env: Where.
        function: Stores (content_id, region, likes_p, likes_n, dislikes_p, dislikes_n, changes, as_of_ms), returns the
            version; `StoreTotals`, or a stand-in that measures without stores.
        generation: Which counting.
        connector: The WITH options of a sink that takes upserts.
    """
    env.execute_sql(
        f"""CREATE TEMPORARY TABLE {COUNTS} (
    content_id STRING, region STRING, generation INT, likes_p BIGINT, likes_n BIGINT, dislikes_p BIGINT,
    dislikes_n BIGINT, version BIGINT, as_of_ms BIGINT, PRIMARY KEY (content_id, region) NOT ENFORCED
) WITH (
    {sql.options(connector)})"""
    )
    wrapped = udf(function, result_type=DataTypes.BIGINT(), func_type="pandas", name=STORE_TOTAL)
    env.create_temporary_function(STORE_TOTAL, wrapped)
    return f"""INSERT INTO {COUNTS}
SELECT content_id, region, {generation}, likes_p, likes_n, dislikes_p, dislikes_n,
    {STORE_TOTAL}(content_id, region, likes_p, likes_n, dislikes_p, dislikes_n, changes, as_of_ms), as_of_ms
FROM {TOTALS}"""

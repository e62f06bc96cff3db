"""Store reactions: each tap upserts the user's own row in `user_likes`, in the register's own order.

Cassandra takes the register as the write's timestamp, so the largest register stays whatever the order of arrival, and
a user's row never disagrees with the count, ties included. No state in Flink: the merge is the store's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
from pyflink.table import DataTypes
from pyflink.table.udf import FunctionContext, ScalarFunction, udf

from connectors.cassandra import CassandraSession, Lease, UserLike, UserLikes, connect
from connectors.lease_keeper import LeaseKeeper
from pipelines.steps import sql
from pipelines.steps.validate import CHECKED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyflink.table import TableEnvironment

    from pipelines.settings import Settings

STORED = "stored_reactions"
STORE_REACTION = "store_reaction"


class StoreReactions(ScalarFunction):
    """Writes a batch of registers, only the largest of each (user, content), while the job's lease is its owner's."""

    def __init__(self, settings: Settings, lease: Lease) -> None:
        self._settings = settings
        self._held = lease
        self._session: CassandraSession | None = None
        self._lease: LeaseKeeper | None = None

    def is_deterministic(self) -> bool:
        """No: it writes."""
        return False

    def open(self, function_context: FunctionContext) -> None:  # noqa: ARG002 - Flink's signature
        """Connect, and keep the job's lease from now on."""
        self._session = connect(self._settings)
        self._lease = LeaseKeeper(self._session, self._held)
        self._lease.start()

    def close(self) -> None:
        """Disconnect."""
        if self._lease is not None:
            self._lease.close()
        if self._session is not None:
            self._session.cluster.shutdown()

    def eval(self, users: pd.Series[str], contents: pd.Series[str], registers: pd.Series[int]) -> pd.Series[int]:
        """Store a batch; returns the registers."""
        if self._session is None or self._lease is None:
            raise RuntimeError("the function is not open")
        self._lease.check()
        largest: dict[tuple[str, str], int] = {}
        for user, content, register in zip(users, contents, registers, strict=True):
            if largest.get((user, content), -1) < register:
                largest[user, content] = int(register)
        UserLikes(self._session).upsert([UserLike(*key, register) for key, register in largest.items()])
        return registers


def store_reactions(env: TableEnvironment, function: ScalarFunction, connector: Mapping[str, str]) -> str:
    """Create the table `stored_reactions` and return the INSERT that stores every reaction on its way there."""
    env.execute_sql(
        f"""CREATE TEMPORARY TABLE {STORED} (user_id STRING, content_id STRING, register BIGINT) WITH (
    {sql.options(connector)})"""
    )
    wrapped: Any = udf(function, result_type=DataTypes.BIGINT(), func_type="pandas", name=STORE_REACTION)
    env.create_temporary_function(STORE_REACTION, wrapped)
    return f"""INSERT INTO {STORED}
SELECT user_id, content_id, {STORE_REACTION}(user_id, content_id, register)
FROM {CHECKED}
WHERE reason IS NULL"""

"""The second pipeline: from the same log, each user's own reactions, so that "which of these did I like" is one read.

    like_events ─ validate ─ store_reactions ──► Cassandra user_likes

Dead letters are the counting job's business; here they are passed over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.steps.store_reactions import store_reactions
from pipelines.steps.validate import validate

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyflink.table import StatementSet, TableEnvironment
    from pyflink.table.udf import ScalarFunction

    from pipelines.settings import EventSettings

DISCARD = {"connector": "blackhole"}


def build(
    env: TableEnvironment,
    source: Callable[[TableEnvironment], None],
    rules: EventSettings,
    function: ScalarFunction,
) -> StatementSet:
    """Plan the job; nothing runs before the result is executed. Arguments as in `pipelines.like_counts.build`."""
    source(env)
    validate(env, rules)

    statements = env.create_statement_set()
    statements.add_insert_sql(store_reactions(env, function, DISCARD))
    return statements

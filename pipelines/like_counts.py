"""The counting job: taps from Kafka to exact totals in Cassandra, Redis and `content-counts`.

    like_events ─ validate ─┬─ touch ─ dedup ─ changes ─ count ─ store ──► Cassandra, Redis, content-counts
                            └─ dead_letters ─────────────────────► like-events.dlq

Read `build` first: a line per step, a file per line under `pipelines/steps`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.steps.changes import changes
from pipelines.steps.count import count
from pipelines.steps.dead_letters import dead_letters
from pipelines.steps.dedup import dedup
from pipelines.steps.store import store
from pipelines.steps.touch import TOUCHED, touch
from pipelines.steps.validate import validate

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyflink.table import StatementSet, TableEnvironment
    from pyflink.table.udf import ScalarFunction

    from pipelines.settings import EventSettings
    from pipelines.sinks import Sinks


def build(
    env: TableEnvironment,
    source: Callable[[TableEnvironment], None],
    sinks: Sinks,
    rules: EventSettings,
    function: ScalarFunction,
    generation: int,
) -> StatementSet:
    """Plan the job; nothing runs and no connection is made before the result is executed.

    Args:
        env: A streaming table environment.
        source: Creates the table `like_events` (see `pipelines.steps.read`).
        sinks: Where totals and dead letters go.
        rules: What a valid event may hold.
        function: Stores a batch of totals and returns their versions (see `pipelines.steps.store`).
        generation: Which counting this is.
    """
    source(env)
    validate(env, rules)
    touch(env, rules)
    dedup(env, TOUCHED)
    changes(env, rules)
    count(env)

    statements = env.create_statement_set()
    statements.add_insert_sql(store(env, function, generation, sinks.counts))
    statements.add_insert_sql(dead_letters(env, sinks.dead_letters))
    return statements

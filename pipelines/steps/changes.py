"""Changes: what each register change does to the counters of its region, and which counters to write again.

A register that takes on LIKE adds one to P, one that gives it up adds one to N; the same for dislikes.

Savepoints depend on two things here. The function's `uid`: without it Flink names its operator, and so every operator
after it, by a number that changes with how often the process has planned. And `region` as STRING: left alone its type
is as long as the longest name in the settings, and a state's types may not change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.domain.register import REACTION_BITS, REACTION_SHIFT, REGION_BITS, TIME_SHIFT, Reaction
from pipelines.steps import sql
from pipelines.steps.dedup import REGISTERS
from pipelines.steps.touch import IS_TOUCH

if TYPE_CHECKING:
    from pyflink.table import TableEnvironment

    from pipelines.settings import EventSettings

CHANGES = "changes"
CHANGELOG_UID = "register-changes"
_ADDED, _REMOVED = ("INSERT", "UPDATE_AFTER"), ("DELETE", "UPDATE_BEFORE")


def changes(env: TableEnvironment, rules: EventSettings) -> None:
    """Create the append-only view `changes`: content_id, region STRING, likes_p, likes_n, dislikes_p, dislikes_n and
    event_ms BIGINT, the time of the tap.
    """
    reaction = f"MOD(register / {1 << REACTION_SHIFT}, {1 << REACTION_BITS})"
    names = [(str(code), sql.literal(name)) for code, name in enumerate(rules.regions)]
    code = f"MOD(register, {1 << REGION_BITS})"
    region = f"CAST({sql.cases(code, names)} AS STRING)"
    deltas = ", ".join(
        f"CAST(CASE WHEN op IN {ops} AND {reaction} = {int(value)} THEN 1 ELSE 0 END AS BIGINT) AS {column}"
        for column, ops, value in (
            ("likes_p", _ADDED, Reaction.LIKE),
            ("likes_n", _REMOVED, Reaction.LIKE),
            ("dislikes_p", _ADDED, Reaction.DISLIKE),
            ("dislikes_n", _REMOVED, Reaction.DISLIKE),
        )
    )
    sql.view(
        env,
        CHANGES,
        f"""SELECT content_id, {region} AS region, {deltas},
    CASE WHEN {IS_TOUCH} THEN CAST(0 AS BIGINT) ELSE register / {1 << TIME_SHIFT} END AS event_ms
FROM TO_CHANGELOG(input => TABLE {REGISTERS}, uid => {sql.literal(CHANGELOG_UID)})
WHERE op <> 'UPDATE_BEFORE' OR NOT ({IS_TOUCH})""",
    )

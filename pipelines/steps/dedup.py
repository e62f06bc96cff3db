"""Dedup: one last-writer-wins register per (content, user), the largest packed value that was seen.

Keyed by both, so one viral video spreads over every subtask. State: RocksDB or heap, without expiry, since an expired
register would count its user again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.steps import sql

if TYPE_CHECKING:
    from pyflink.table import TableEnvironment

REGISTERS = "registers"


def dedup(env: TableEnvironment, events: str) -> None:
    """Create the view `registers`: content_id, user_id STRING, register BIGINT, an updating table.

    Args:
        env: Where.
        events: The view to group, with the same columns.
    """
    sql.view(
        env,
        REGISTERS,
        f"""SELECT content_id, user_id, MAX(register) AS register
FROM {events}
GROUP BY content_id, user_id""",
    )

"""Count: the PN-counter of each (content, region), all 64-bit, with how often it changed.

Aggregated locally first, then globally, so a hot content's key sees one partial sum per subtask and window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.steps import sql
from pipelines.steps.changes import CHANGES

if TYPE_CHECKING:
    from pyflink.table import TableEnvironment

TOTALS = "totals"


def count(env: TableEnvironment) -> None:
    """Create the view `totals`: content_id, region STRING, likes_p, likes_n, dislikes_p, dislikes_n, changes, as_of_ms
    BIGINT, an updating table with the key (content_id, region).
    """
    sql.view(
        env,
        TOTALS,
        f"""SELECT content_id, region,
    SUM(likes_p) AS likes_p, SUM(likes_n) AS likes_n,
    SUM(dislikes_p) AS dislikes_p, SUM(dislikes_n) AS dislikes_n,
    COUNT(*) AS changes, MAX(event_ms) AS as_of_ms
FROM {CHANGES}
GROUP BY content_id, region""",
    )

"""Read: the raw bytes of each record with where they came from and when the broker had them.

The time that drives windows is the broker's (`message.timestamp.type=LogAppendTime`), never a client's, so a clock in
2099 holds nothing back; a partition that falls silent is marked idle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.steps import sql

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyflink.table import TableEnvironment

LIKE_EVENTS = "like_events"
IDLE_TIMEOUT = "1 s"
COLUMNS = """
    `value` BYTES,
    topic STRING METADATA VIRTUAL,
    `partition` INT METADATA VIRTUAL,
    `offset` BIGINT METADATA VIRTUAL,
    broker_time TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
    WATERMARK FOR broker_time AS broker_time"""


def read(env: TableEnvironment, connector: Mapping[str, str]) -> None:
    """Create the source table `like_events`.

    Args:
        env: Where.
        connector: The WITH options of a source that gives raw values and the four metadata columns.
    """
    env.execute_sql(f"CREATE TEMPORARY TABLE {LIKE_EVENTS} ({COLUMNS}\n) WITH (\n    {sql.options(connector)})")

"""Read: the raw bytes of each record with where they came from and when the broker had them.

The broker's time (`message.timestamp.type=LogAppendTime`) is what an event without a time of its own gets, and what an
event's own time may not be far ahead of. No watermark: nothing downstream waits for event time, so neither a silent
partition nor a clock in 2099 can hold a total back (docs/decisions/0004-windows.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.steps import sql

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyflink.table import TableEnvironment

LIKE_EVENTS = "like_events"
COLUMNS = """
    `value` BYTES,
    topic STRING METADATA VIRTUAL,
    `partition` INT METADATA VIRTUAL,
    `offset` BIGINT METADATA VIRTUAL,
    broker_time TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL"""


def read(env: TableEnvironment, connector: Mapping[str, str]) -> None:
    """Create the source table `like_events`.

    Args:
        env: Where.
        connector: The WITH options of a source that gives raw values and the four metadata columns.
    """
    env.execute_sql(f"CREATE TEMPORARY TABLE {LIKE_EVENTS} ({COLUMNS}\n) WITH (\n    {sql.options(connector)})")

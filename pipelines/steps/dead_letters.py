"""Dead letters: every record that is not an event, with its reason, its origin and its exact bytes.

At least once; a dead letter's identity is topic, partition and offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.domain.events import REASONS
from pipelines.steps import sql
from pipelines.steps.usual import TEXT
from pipelines.steps.validate import CHECKED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyflink.table import TableEnvironment

DEAD_LETTERS = "dead_letters"


def dead_letters(env: TableEnvironment, connector: Mapping[str, str]) -> str:
    """Create the sink table `dead_letters` and return the INSERT that fills it.

    `value` holds the text where the bytes are UTF-8; otherwise `value_base64` holds the bytes.
    """
    env.execute_sql(
        f"""CREATE TEMPORARY TABLE {DEAD_LETTERS} (
    reason STRING, message STRING, topic STRING, `partition` INT, `offset` BIGINT, `timestamp` BIGINT,
    `value` STRING, value_base64 BYTES
) WITH (
    {sql.options(connector)})"""
    )
    sentences = [(sql.literal(reason), sql.literal(sentence)) for reason, sentence in REASONS.items()]
    utf8 = f"ENCODE({TEXT}, 'UTF-8') = `value`"
    return f"""INSERT INTO {DEAD_LETTERS}
SELECT reason, {sql.cases("reason", sentences, "reason")}, DECODE(topic, 'UTF-8'), `partition`, `offset`, broker_ms,
    CASE WHEN {utf8} THEN {TEXT} END, CASE WHEN NOT ({utf8}) THEN `value` END
FROM {CHECKED}
WHERE reason IS NOT NULL"""

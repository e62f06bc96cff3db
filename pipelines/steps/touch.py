"""Touch: what an earlier run may have stored is stored again, even where a replay sees no change.

When a user's region moves from A to B and back inside one window, a replay that merges the taps never visits B, yet the
run before the crash may have stored B. So every event from outside the home region touches its own region and the home
region (docs/decisions/0002-touches.md).

A touch is a row like an event's own, of nobody: its user is named by a control character, the partition and the region,
which no real user can be, and its register has the record's offset for a time and no reaction. Offsets grow, so each
touch wins over the one before, and dedup reports it as a change of a register that likes nothing. So touches ride with
the events through the same operators: at most one per content, region, partition and bundle, and one register of each
in the state. As rows of their own into the count they were a third of the job's work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.domain.register import REGION_BITS, TIME_SHIFT
from pipelines.steps import sql
from pipelines.steps.validate import CHECKED

if TYPE_CHECKING:
    from pyflink.table import TableEnvironment

    from pipelines.settings import EventSettings

TOUCHED = "touched_events"
NOBODY = "\1"
"""What the user of a touch begins with."""
_NOBODY = f"U&'\\{ord(NOBODY):04X}'"
IS_TOUCH = f"SUBSTRING(user_id, 1, 1) = {_NOBODY}"
"""Whether a row is a touch."""


def touch(env: TableEnvironment, rules: EventSettings) -> None:
    """Create the view `touched_events`: content_id, user_id STRING, register BIGINT; valid events and touches."""
    home = rules.regions.index(rules.home_region)
    code = f"MOD(register, {1 << REGION_BITS})"
    event = "ROW(user_id, register)"
    touches = ", ".join(_touch(region) for region in (code, str(home)))
    sql.view(
        env,
        TOUCHED,
        f"""SELECT content_id, row_user AS user_id, row_register AS register
FROM {CHECKED} CROSS JOIN UNNEST(
    CASE WHEN {code} = {home} THEN ARRAY[{event}] ELSE ARRAY[{event}, {touches}] END
) AS rows_of_event (row_user, row_register)
WHERE reason IS NULL""",
    )


def _touch(region: str) -> str:
    user = f"CONCAT({_NOBODY}, CAST(`partition` AS STRING), ':', CAST({region} AS STRING))"
    return f"ROW({user}, `offset` * {1 << TIME_SHIFT} + {region})"

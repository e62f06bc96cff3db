r"""Usual: proves at once what most producers send, and leaves everything else to `validate`.

One regular expression proves a flat JSON object of printable ASCII without escapes, with the fields that we know in the
order of the README, each at most once, and any others after them. What it matches ends before those others and, where
there is a region, before the quote that closes it; so splitting it at quotes puts every field at a known place. What is
not proved so is not bad; it is looked at more closely.

Java runs a greedy loop over one class of characters much faster than a possessive or a bounded one; here none can match
what may come after it, so going back finds nothing and costs no more than the loop. Loops over groups are possessive
and bounded, since Java recurses in others.

The match is carried as BYTES: operators copy each STRING and ARRAY that they pass on, but no BYTES (decision 0009).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.domain.events import EARLIEST_EVENT_TIME_MS, MAX_ID_CHARACTERS
from pipelines.domain.register import REACTION_OF_ACTION, REACTION_SHIFT, TIME_SHIFT
from pipelines.steps import sql
from pipelines.steps.read import LIKE_EVENTS

if TYPE_CHECKING:
    from pyflink.table import TableEnvironment

    from pipelines.settings import EventSettings

USUAL = "usual_events"
TEXT = "DECODE(`value`, 'UTF-8')"
"""The text of a record; bytes that are not UTF-8 are replaced."""
FIELDS = ("content_id", "video_id", "user_id", "action", "event_time", "region")
NUMBER = r"-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,99})?(?:[eE][+-]?[0-9]{1,3})?"
# Every printable ASCII character but quote and backslash, one by one: Java looks single characters up in a table, and
# asks ranges one after the other.
ASCII = "[" + "".join(rf"\x{code:02x}" for code in range(0x20, 0x7F) if chr(code) not in '"\\') + "]"

_NAMES = "|".join(FIELDS)
_OTHERS = 8
_OTHER = rf', ?"(?!(?:{_NAMES})"){ASCII}{{0,64}}" ?: ?(?:"{ASCII}{{0,256}}"|{NUMBER}|true|false|null)'
_END = rf"(?:{_OTHER}){{0,{_OTHERS}}}+\}}\z"
_ACTIONS = "|".join(REACTION_OF_ACTION)
PATTERN = (
    rf'\A\{{ ?"(?:content|video)_id"(: ?)"{ASCII}+"'
    rf', ?"user_id" ?: ?"{ASCII}+"'
    rf', ?"action" ?: ?"(?:{_ACTIONS})"'
    r'(?:, ?"event_time"\1[1-9][0-9]{12})?+'
    rf'(?:, ?"region" ?: ?"{ASCII}*(?="{_END})|(?={_END}))'
)
# Where split at quotes; what may be missing is asked for by name, and the region from the end.
FOUND = "SPLIT(DECODE(usual, 'UTF-8'), '\"')"
"""The column `found` ARRAY<STRING> of the expressions below: what was matched, split at its quotes."""
CONTENT_ID, USER_ID = "found[4]", "found[8]"
"""Of a proved event."""
_COLON, _ACTION, _TIME_NAME, _TIME = (f"found[{place}]" for place in (3, 12, 14, 15))
_REGION_NAME, _REGION = "found[CARDINALITY(found) - 2]", "found[CARDINALITY(found)]"
# The longest text that matches, ids and region aside.
_LONGEST = _OTHERS * 560 + 1_000


def usual(env: TableEnvironment, rules: EventSettings) -> None:
    """Create the view `usual_events`.

    Columns: the record's `value` and `topic` BYTES, `partition` INT, `offset` BIGINT and `broker_ms` BIGINT; `usual`
    BYTES, what was matched, and `proved` BOOLEAN, whether something was.
    """
    origin = "`value`, {topic}, `partition`, `offset`"
    broker_ms = "EXTRACT(EPOCH FROM broker_time) * 1000 + EXTRACT(MILLISECOND FROM broker_time)"
    text = TEXT
    longest = _LONGEST + 2 * MAX_ID_CHARACTERS + max(map(len, rules.regions))
    if longest > rules.max_record_bytes:
        text = f"CASE WHEN CHAR_LENGTH({text}) <= {rules.max_record_bytes} THEN {text} END"
    sql.view(
        env,
        "matched_events",
        f"""SELECT {origin.format(topic="CAST(topic AS BYTES) AS topic")}, {sql.once(broker_ms)} AS broker_ms,
    ENCODE(REGEXP_SUBSTR({text}, {sql.literal(PATTERN)}), 'UTF-8') AS usual
FROM {LIKE_EVENTS}""",
    )
    # Naming broker_ms twice keeps the match apart: it is made once.
    sql.view(
        env,
        USUAL,
        f"""SELECT {origin.format(topic="topic")}, broker_ms, usual,
    broker_ms IS NOT NULL AND usual IS NOT NULL AS proved
FROM matched_events""",
    )


def is_too_large(rules: EventSettings) -> str:
    """Whether a record has more bytes than an event may have."""
    return f"CHAR_LENGTH(DECODE(`value`, 'ISO-8859-1')) > {rules.max_record_bytes}"


def reason(rules: EventSettings) -> str:
    """Why a proved event is none after all, or NULL. Only an id or a region can have made it too large."""

    def unless_too_large(other: str) -> str:
        return f"CASE WHEN {is_too_large(rules)} THEN 'record_too_large' ELSE '{other}' END"

    return f"""CASE WHEN CHAR_LENGTH({CONTENT_ID}) > {MAX_ID_CHARACTERS} THEN {unless_too_large("content_id_too_long")}
            WHEN CHAR_LENGTH({USER_ID}) > {MAX_ID_CHARACTERS} THEN {unless_too_large("user_id_too_long")}
            WHEN {_region_code(rules)} IS NULL THEN {unless_too_large("unknown_region")}
            WHEN {_TIME_NAME} <> 'event_time' THEN NULL
            WHEN {_time_ms()} < {EARLIEST_EVENT_TIME_MS} THEN 'event_time_before_2005'
            WHEN {_time_ms()} > broker_ms + {rules.max_ahead_ms} THEN 'event_time_in_future' END"""


def register(rules: EventSettings) -> str:
    """Of a proved event without a reason."""
    reactions = [(sql.literal(name), str(int(r))) for name, r in REACTION_OF_ACTION.items()]
    event_ms = f"CASE WHEN {_TIME_NAME} = 'event_time' THEN {_time_ms()} ELSE broker_ms END"
    return (
        f"{event_ms} * {1 << TIME_SHIFT} + {sql.cases(_ACTION, reactions)} * {1 << REACTION_SHIFT}"
        f" + {_region_code(rules)}"
    )


def _time_ms() -> str:
    # After a colon like the first one. Trimming would take longer than all the rest.
    return f"TRY_CAST(SUBSTRING({_TIME}, CHAR_LENGTH({_COLON}) + 1, 13) AS BIGINT)"


def _region_code(rules: EventSettings) -> str:
    home = rules.regions.index(rules.home_region)
    codes = sql.cases(_REGION, [(sql.literal(name), str(code)) for code, name in enumerate(rules.regions)])
    return f"CASE WHEN {_REGION_NAME} = 'region' THEN {codes} ELSE {home} END"

r"""Usual: reads at once what most producers send, and leaves everything else to `validate`.

One regular expression proves a good event: a flat JSON object of printable ASCII without escapes, with the fields that
we know in the order of the README, each at most once, and any others between them. One more pass over the text reads
all their values, in that order. What is not proved so is not bad; it is looked at more closely.

Java runs a greedy loop over one class of characters much faster than a possessive or a bounded one; here none can match
what may come after it, so going back finds nothing and costs no more than the loop. Loops over groups are possessive
and bounded, since Java recurses in others.
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
FIELDS = ("content_id", "video_id", "user_id", "action", "event_time", "region")
NUMBER = r"-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,99})?(?:[eE][+-]?[0-9]{1,3})?"
# Every printable ASCII character but quote and backslash, one by one: Java looks single characters up in a table, and
# asks ranges one after the other.
ASCII = "[" + "".join(rf"\x{code:02x}" for code in range(0x20, 0x7F) if chr(code) not in '"\\') + "]"

_NAMES = "|".join(FIELDS)
_OTHERS = 8
_OTHER = rf' ?"(?!(?:{_NAMES})"){ASCII}{{0,64}}" ?: ?(?:"{ASCII}{{0,256}}"|{NUMBER}|true|false|null)'
_MORE = rf"(?:,{_OTHER}){{0,{_OTHERS}}}+"
_ACTIONS = "|".join(REACTION_OF_ACTION)
PATTERN = (
    rf"\A\{{(?:{_OTHER},){{0,{_OTHERS}}}+"
    rf' ?"(?:content|video)_id" ?: ?"{ASCII}+"{_MORE}'
    rf', ?"user_id" ?: ?"{ASCII}+"{_MORE}'
    rf', ?"action" ?: ?"(?:{_ACTIONS})"{_MORE}'
    rf'(?:, ?"event_time" ?: ?[1-9][0-9]{{12}}{_MORE})?+'
    rf'(?:, ?"region" ?: ?"[A-Za-z]{ASCII}*"{_MORE})?+'
    r"\}\z"
)
_VALUES = rf'"(?:{_NAMES})" ?: ?"?((?<=")[^"]*|[0-9]*)'
"""The values of known fields, where `PATTERN` matches. From the fourth on, what begins with a letter is the region."""
# The longest text that matches, ids and region aside: six places for others, of 560 characters at the most each.
_LONGEST = 6 * _OTHERS * 560 + 1_000


def usual(env: TableEnvironment, rules: EventSettings) -> None:
    """Create the view `usual_events`.

    Columns: the record's `value` BYTES, `topic` STRING, `partition` INT, `offset` BIGINT, its `text` STRING (bytes that
    are not UTF-8 replaced) and `broker_ms` BIGINT; `found` ARRAY<STRING> and `usual` BIGINT. Where `usual` is not NULL
    it is the register of a good event, whose content and user are the first two of `found`.
    """
    origin = "`value`, topic, `partition`, `offset`"
    broker_ms = "EXTRACT(EPOCH FROM broker_time) * 1000 + EXTRACT(MILLISECOND FROM broker_time)"
    sql.view(
        env,
        "decoded_events",
        f"""SELECT {origin}, DECODE(`value`, 'UTF-8') AS text, {sql.once(broker_ms)} AS broker_ms
FROM {LIKE_EVENTS}""",
    )
    sql.view(
        env,
        "proved_events",
        f"""SELECT {origin}, text, broker_ms, REGEXP_EXTRACT_ALL(text, {sql.literal(_VALUES)}, 1) AS found,
    {sql.once(_proof(rules))} AS proved
FROM decoded_events""",
    )
    sql.view(
        env,
        "timed_events",
        f"""SELECT {origin}, text, broker_ms, found, {sql.once("proved")} AS proved, {_reaction()} AS reaction,
    found[CASE WHEN found[4] >= 'A' THEN 4 ELSE 5 END] AS region,
    CASE WHEN NOT proved THEN NULL WHEN found[4] < 'A' THEN TRY_CAST(found[4] AS BIGINT) ELSE broker_ms END AS event_ms
FROM proved_events""",
    )
    sql.view(
        env,
        USUAL,
        f"""SELECT {origin}, text, broker_ms, found, {sql.once(_register(rules))} AS usual
FROM timed_events""",
    )


def _proof(rules: EventSettings) -> str:
    proof = f"REGEXP(text, {sql.literal(PATTERN)})"
    longest = _LONGEST + 2 * MAX_ID_CHARACTERS + max(map(len, rules.regions))
    return proof if longest <= rules.max_record_bytes else f"CHAR_LENGTH(text) <= {rules.max_record_bytes} AND {proof}"


def _reaction() -> str:
    return sql.cases("found[3]", [(sql.literal(name), str(int(r))) for name, r in REACTION_OF_ACTION.items()])


def _register(rules: EventSettings) -> str:
    home = rules.regions.index(rules.home_region)
    codes = sql.cases("region", [(sql.literal(name), str(code)) for code, name in enumerate(rules.regions)])
    short = " AND ".join(f"CHAR_LENGTH(found[{place}]) <= {MAX_ID_CHARACTERS}" for place in (1, 2))
    return f"""CASE WHEN proved AND {short}
        AND event_ms >= {EARLIEST_EVENT_TIME_MS} AND event_ms <= broker_ms + {rules.max_ahead_ms}
        THEN event_ms * {1 << TIME_SHIFT} + reaction * {1 << REACTION_SHIFT}
            + CASE WHEN region IS NULL THEN {home} ELSE {codes} END END"""

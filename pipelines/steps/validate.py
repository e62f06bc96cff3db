r"""Validate: every record becomes either a packed register or a reason, just as `pipelines.domain.events.parse` says.

All of it runs in the JVM. A record takes one of three ways, each exact, the first by far the quickest:

1. *plain*: one regular expression proves that the text is a flat JSON object of strings without escapes, numbers and
   words. Then a field's value is what follows its name; no string can hide a quote.
2. *canonical*: any other text that is strictly one JSON object is cut down by `JSON_QUERY` to the fields that we know,
   which also drops nested strangers, decodes escapes and lets the last of equal names win. Often the result is plain.
3. *nested*: what still has escapes or nesting is asked field by field.

"Strictly one": Jackson, below `IS JSON`, ignores what follows the first value. Text that is JSON both inside `[…]` and
inside `{"d":…}` has nothing after it: a rest would have to start with `,` and be an element here and a member there.

Java's regular expressions recurse once per turn of a group, so groups are bounded; character loops are not recursive.
`\p{Cntrl}` in a class costs 17 µs a record where the ranges cost 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.domain.events import EARLIEST_EVENT_TIME_MS, MAX_ID_CHARACTERS
from pipelines.domain.register import REACTION_OF_ACTION, REACTION_SHIFT, TIME_SHIFT
from pipelines.steps import sql
from pipelines.steps.read import LIKE_EVENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyflink.table import TableEnvironment

    from pipelines.settings import EventSettings

SHAPED = "shaped_events"
CHECKED = "checked_events"

_SPACE = r"[ \t\r\n]*+"
_STRING = r'"[^"\\\x00-\x1f\x7f-\x9f]*+"'
_NUMBER = r"-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,99})?(?:[eE][+-]?[0-9]{1,3})?"
_MEMBER = f"{_SPACE}{_STRING}{_SPACE}:{_SPACE}(?:{_STRING}|{_NUMBER}|true|false|null){_SPACE}"
# A replacement character may stand for bytes that are not UTF-8; the slower ways look closer.
PLAIN = (
    rf"\A(?![^\x{{FFFD}}]*+\x{{FFFD}})\x{{FEFF}}?+{_SPACE}\{{(?:{_MEMBER}(?:,(?=[^}}])|(?=\}}))){{1,32}}+\}}{_SPACE}\z"
)
# Half a surrogate pair, once escaped backslashes have been replaced.
LONE_SURROGATE = (
    r"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|[c-fC-F][0-9a-fA-F]{2}(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))"
)
CONTROL = r"[\x00-\x1f\x7f-\x9f]"
INTEGER = r"\A-?(?:0|[1-9][0-9]*+)\z"
FIELDS = ("content_id", "video_id", "user_id", "action", "event_time", "region")
_KNOWN = '$["' + '","'.join(FIELDS) + '"]'
_REPLACEMENT, _NUL, _BOM = r"U&'\FFFD'", r"U&'\0000'", r"U&'\FEFF'"
# The text without a leading byte order mark. Only the slower ways ask for it.
_BODY = f"CASE WHEN SUBSTRING(text, 1, 1) = {_BOM} THEN SUBSTRING(text, 2) ELSE text END"


def validate(env: TableEnvironment, rules: EventSettings) -> None:
    """Create the view `checked_events`.

    Columns: the record's `value` BYTES, `topic` STRING, `partition` INT, `offset` BIGINT, its `text` STRING (bytes that
    are not UTF-8 replaced) and `broker_ms` BIGINT; then `reason` STRING, and where that is NULL `content_id`,
    `user_id`, `region` STRING (the event's) and `register` BIGINT, which elsewhere mean nothing.

    In two views because a row behind several correlations is a chain of joins that every access walks.
    """
    plain = "plain IS NOT NULL"
    canonical = f"JSON_QUERY({_BODY}, {sql.literal(_KNOWN)})"
    shape = sql.once(
        document=f"CASE WHEN {plain} THEN plain ELSE {canonical} END",
        flat=f"{plain} OR {_is_plain(canonical)}",
        malformed=f"CASE WHEN {plain} AND {_is_surely_small(rules)} THEN NULL ELSE {_malformed(rules)} END",
    )
    sql.view(
        env,
        SHAPED,
        f"""SELECT `value`, topic, `partition`, `offset`, broker_time, text, document, flat, malformed
FROM {LIKE_EVENTS}
{sql.once(text="DECODE(`value`, 'UTF-8')")}
{sql.once(plain=f"CASE WHEN {_is_plain('text')} THEN text END")}
{shape}""",
    )
    values = sql.once(
        content_json=f"COALESCE({_last('content_id')}, {_last('video_id')})",
        content_id=_string(f"COALESCE({_last('content_id')}, {_last('video_id')})"),
        conflicting=f"{_last('content_id')} <> {_last('video_id')}",
        user_json=_last("user_id"),
        user_id=_string(_last("user_id")),
        action_json=_last("action"),
        reaction=sql.cases(_last("action"), [(f"'\"{a}\"'", str(int(r))) for a, r in REACTION_OF_ACTION.items()]),
        region=_region(rules, [sql.literal(name) for name in rules.regions]),
        region_code=_region(rules, [str(code) for code in range(len(rules.regions))]),
        broker_ms="EXTRACT(EPOCH FROM broker_time) * 1000 + EXTRACT(MILLISECOND FROM broker_time)",
        event_time_json=_last("event_time"),
        event_ms=f"CASE WHEN {_is_integer(_last('event_time'))} THEN TRY_CAST({_last('event_time')} AS BIGINT) END",
    )
    sql.view(
        env,
        CHECKED,
        f"""SELECT `value`, topic, `partition`, `offset`, text, broker_ms, content_id, user_id, region,
    COALESCE(malformed, {_reason(rules)}) AS reason,
    COALESCE(event_ms, broker_ms) * {1 << TIME_SHIFT} + reaction * {1 << REACTION_SHIFT} + region_code AS register
FROM {SHAPED}
{sql.once(**{f"{name}s": _tokens(name) for name in FIELDS})}
{values}""",
    )


def _is_plain(expression: str) -> str:
    return f"REGEXP({expression}, {sql.literal(PLAIN)})"


def _is_surely_small(rules: EventSettings) -> str:
    # Four bytes a character at the most, so a short text needs no counting of bytes.
    return f"CHAR_LENGTH(text) <= {rules.max_record_bytes // 4}"


def _is_integer(token: str) -> str:
    return f"REGEXP({token}, {sql.literal(INTEGER)})"


def _malformed(rules: EventSettings) -> str:
    lone = f"REGEXP(REPLACE(text, '\\\\', 'x'), {sql.literal(LONE_SURROGATE)})"
    strict = f"""CONCAT('[', {_BODY}, ']') IS JSON AND CONCAT('{{"d":', {_BODY}, '}}') IS JSON"""
    return f"""CASE
            WHEN `value` IS NULL THEN 'tombstone'
            WHEN CHAR_LENGTH(DECODE(`value`, 'ISO-8859-1')) > {rules.max_record_bytes} THEN 'record_too_large'
            WHEN POSITION({_REPLACEMENT} IN text) > 0 AND ENCODE(text, 'UTF-8') <> `value` THEN 'not_utf8'
            WHEN POSITION({_NUL} IN text) > 0 THEN 'nul_character'
            WHEN NOT ({strict}) OR {lone} THEN 'not_json'
            WHEN NOT (({_BODY}) IS JSON OBJECT) THEN 'not_an_object' END"""


def _tokens(name: str) -> str:
    """All values of a field as JSON tokens; of equal names a plain text may have several."""
    pattern = sql.literal(f'"{name}"[ \\t\\r\\n]*+:[ \\t\\r\\n]*+("[^"]*+"|[^ ,\\t\\r\\n}}]++)')
    nested = f"JSON_QUERY(document, '$.{name}' WITH UNCONDITIONAL ARRAY WRAPPER)"
    return (
        f"CASE WHEN flat THEN REGEXP_EXTRACT_ALL(document, {pattern}, 1)\n"
        f"            ELSE ARRAY[REGEXP_REPLACE({nested}, '^\\[|\\]$', '')] END"
    )


def _last(name: str) -> str:
    """The token of a field that counts, NULL where it is absent or null."""
    return f"NULLIF({name}s[CARDINALITY({name}s)], 'null')"


def _string(token: str) -> str:
    """The text of a JSON string token, NULL for any other."""
    text = f"CASE WHEN flat THEN SUBSTRING({token}, 2, CHAR_LENGTH({token}) - 2) ELSE JSON_UNQUOTE({token}) END"
    return f"CASE WHEN SUBSTRING({token}, 1, 1) = '\"' THEN {text} END"


def _region(rules: EventSettings, results: Sequence[str]) -> str:
    """One of the results, in the order of the regions; NULL for an unknown region."""
    home = results[rules.regions.index(rules.home_region)]
    known = zip((sql.literal(f'"{name}"') for name in rules.regions), results, strict=True)
    return f"CASE WHEN {_last('region')} IS NULL THEN {home} ELSE {sql.cases(_last('region'), known)} END"


def _reason(rules: EventSettings) -> str:
    return f"""CASE
            WHEN content_json IS NULL THEN 'missing_content_id'
            WHEN conflicting THEN 'conflicting_ids'
            {_id_reasons("content_id", "content_id")}
            WHEN user_json IS NULL THEN 'missing_user_id'
            {_id_reasons("user_id", "user_id")}
            WHEN action_json IS NULL THEN 'missing_action'
            WHEN reaction IS NULL THEN 'unknown_action'
            WHEN region_code IS NULL THEN 'unknown_region'
            WHEN event_time_json IS NULL THEN NULL
            WHEN event_ms IS NULL AND NOT {_is_integer("event_time_json")} THEN 'event_time_not_integer'
            WHEN event_ms IS NULL THEN 'event_time_out_of_64_bits'
            WHEN event_ms < {EARLIEST_EVENT_TIME_MS} THEN 'event_time_before_2005'
            WHEN event_ms > broker_ms + {rules.max_ahead_ms} THEN 'event_time_in_future' END"""


def _id_reasons(column: str, name: str) -> str:
    return f"""WHEN {column} IS NULL THEN '{name}_not_string'
            WHEN {column} = '' THEN '{name}_empty'
            WHEN CHAR_LENGTH({column}) > {MAX_ID_CHARACTERS} THEN '{name}_too_long'
            WHEN NOT flat AND POSITION({_NUL} IN {column}) > 0 THEN 'nul_character'
            WHEN NOT flat AND REGEXP({column}, {sql.literal(CONTROL)}) THEN '{name}_control_character'"""

r"""Validate: every record becomes either a packed register or a reason, just as `pipelines.domain.events.parse` says.

All of it runs in the JVM. A record takes one of four ways, each exact, the first by far the quickest:

1. *usual*: see `pipelines.steps.usual`.
2. *plain*: one regular expression proves that the text is a flat JSON object of ASCII strings without escapes, numbers
   and words. Then a field's value is what follows its name; no string can hide a quote.
3. *canonical*: any other text that is strictly one JSON object is cut down by `JSON_QUERY` to the fields that we know,
   which also drops nested strangers, decodes escapes and lets the last of equal names win. Often the result is flat,
   and is read the same way.
4. *nested*: what still has escapes or nesting is asked field by field.

"Strictly one": Jackson, below `IS JSON`, ignores what follows the first value. Text that is JSON both inside `[…]` and
inside `{"d":…}` has nothing after it: a rest would have to start with `,` and be an element here and a member there.

Java's regular expressions recurse once per turn of a group, so groups are bounded; character loops are not recursive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.domain.events import EARLIEST_EVENT_TIME_MS, MAX_ID_CHARACTERS
from pipelines.domain.register import REACTION_OF_ACTION, REACTION_SHIFT, TIME_SHIFT
from pipelines.domain.strict_json import HALF_PAIR, MAX_EXPONENT_DIGITS, MAX_NAME_UTF16_UNITS, MAX_NUMBER_CHARACTERS
from pipelines.steps import sql, usual
from pipelines.steps.usual import ASCII, NUMBER

if TYPE_CHECKING:
    from pyflink.table import TableEnvironment

    from pipelines.settings import EventSettings

CHECKED = "checked_events"

_SPACE = r"[ \t\r\n]*+"


def _object_of(string: str) -> str:
    member = f"{_SPACE}{string}{_SPACE}:{_SPACE}(?:{string}|{NUMBER}|true|false|null){_SPACE}"
    return rf"\A{_SPACE}\{{(?:{member}(?:,(?=[^}}])|(?=\}}))){{1,32}}+\}}{_SPACE}\z"


PLAIN = _object_of(f'"{ASCII}*"')
FLAT = _object_of(r'"[^"\\\x00-\x1f\x7f-\x9f]*+"')
# A number outside strings that Jackson takes or refuses depending on where it lies.
LONG_NUMBER = rf"[-+.0-9eE]{{{MAX_NUMBER_CHARACTERS + 1}}}|[eE][-+]?[0-9]{{{MAX_EXPONENT_DIGITS + 1}}}"
# Also in strings, where it does no harm; but not in an escape such as \u00e9.
EXPONENT = r"(?<=[0-9])(?<!\\u[0-9a-fA-F]{0,2}[0-9])[eE][-+]?[0-9]+"
CONTROL = r"[\x00-\x1f\x7f-\x9f]"
INTEGER = r"\A-?(?:0|[1-9][0-9]*+)\z"
_KNOWN = '$["' + '","'.join(usual.FIELDS) + '"]'
_REPLACEMENT, _NUL, _BOM = r"U&'\FFFD'", r"U&'\0000'", r"U&'\FEFF'"
# The text without a leading byte order mark. Only the slower ways ask for it.
_BODY = f"CASE WHEN SUBSTRING(text, 1, 1) = {_BOM} THEN SUBSTRING(text, 2) ELSE text END"


def validate(env: TableEnvironment, rules: EventSettings) -> None:
    """Create the view `checked_events`.

    Columns: the record's `value` and `topic` BYTES, `partition` INT, `offset` BIGINT and `broker_ms` BIGINT; then
    `reason` STRING, and where that is NULL `content_id`, `user_id` STRING and `register` BIGINT, which elsewhere mean
    nothing.
    """
    usual.usual(env, rules)
    origin = "`value`, topic, `partition`, `offset`, broker_ms, usual, proved"
    # Where the record is proved, the columns from here on are NULL, or of no meaning and cheap.
    sql.view(
        env,
        "decoded_events",
        f"SELECT {origin}, CASE WHEN NOT proved THEN {usual.TEXT} END AS text FROM {usual.USUAL}",
    )
    plain = sql.once(f"CASE WHEN NOT proved THEN {_is(PLAIN, 'text')} END")
    sql.view(env, "plain_events", f"SELECT {origin}, text, {plain} AS plain FROM decoded_events")
    canonical = f"JSON_QUERY({_BODY}, {sql.literal(_KNOWN)})"
    sql.view(
        env,
        "shaped_events",
        f"""SELECT {origin}, text,
    CASE WHEN proved THEN NULL WHEN plain THEN text ELSE {canonical} END AS document,
    {sql.once(f"proved OR plain IS TRUE OR {_is(FLAT, canonical)} IS TRUE")} AS flat,
    NOT proved AND plain IS NOT TRUE AND {_is(EXPONENT, "text")} AS exponents,
    CASE WHEN proved OR (plain AND {_is_surely_small(rules)}) THEN NULL
        ELSE {_malformed(rules)} END AS malformed
FROM plain_events""",
    )
    tokens = [f"{_token(name)} AS {name}_token" for name in usual.FIELDS]
    columns = ",\n    ".join([f"{origin}, text, {sql.once('flat')} AS flat, exponents, malformed", *tokens])
    sql.view(env, "found_events", f"SELECT {columns}\nFROM shaped_events")
    sql.view(
        env,
        "read_events",
        f"""SELECT {origin}, {usual.FOUND} AS found, {sql.once("flat")} AS flat, malformed,
    COALESCE({_last("content_id")}, {_last("video_id")}) AS content_json,
    {_string(f"COALESCE({_last('content_id')}, {_last('video_id')})")} AS content_id,
    {_last("content_id")} <> {_last("video_id")} AND {_either_is_string()} AS conflicting,
    {_last("user_id")} AS user_json, {_string("user_id_token")} AS user_id,
    {_last("action")} AS action_json, {_reaction("action_token")} AS reaction,
    {_region_code(rules)} AS region_code,
    {_event_time()} AS event_time_json,
    CASE WHEN {_is(INTEGER, _event_time())} THEN TRY_CAST(event_time_token AS BIGINT) END AS event_ms
FROM found_events""",
    )
    register = f"COALESCE(event_ms, broker_ms) * {1 << TIME_SHIFT} + reaction * {1 << REACTION_SHIFT} + region_code"
    sql.view(
        env,
        CHECKED,
        f"""SELECT `value`, topic, `partition`, `offset`, broker_ms,
    CASE WHEN proved THEN {usual.CONTENT_ID} ELSE content_id END AS content_id,
    CASE WHEN proved THEN {usual.USER_ID} ELSE user_id END AS user_id,
    CASE WHEN proved THEN {usual.reason(rules)} ELSE COALESCE(malformed, {_reason(rules)}) END AS reason,
    {sql.once(f"CASE WHEN proved THEN {usual.register(rules)} ELSE {register} END")} AS register
FROM read_events""",
    )


def _reaction(token: str) -> str:
    return sql.cases(token, [(sql.literal(f'"{name}"'), str(int(r))) for name, r in REACTION_OF_ACTION.items()])


def _is(pattern: str, expression: str) -> str:
    return f"REGEXP({expression}, {sql.literal(pattern)})"


def _is_surely_small(rules: EventSettings) -> str:
    # Four bytes and two UTF-16 units a character at the most, so a short text needs no counting.
    return f"CHAR_LENGTH(text) <= {min(rules.max_record_bytes // 4, MAX_NAME_UTF16_UNITS // 2)}"


def _malformed(rules: EventSettings) -> str:
    half_pair = f"REGEXP(REPLACE(text, '\\\\', 'x'), {sql.literal(HALF_PAIR)})"
    no_strings = """REGEXP_REPLACE(REPLACE(REPLACE(text, '\\\\', 'x'), '\\"', 'x'), '"[^"]*+"', '""')"""
    long_number = f"{_is(LONG_NUMBER, 'text')} AND {_is(LONG_NUMBER, no_strings)}"
    strict = f"""CONCAT('[', {_BODY}, ']') IS JSON AND CONCAT('{{"d":', {_BODY}, '}}') IS JSON"""
    return f"""CASE
            WHEN `value` IS NULL THEN 'tombstone'
            WHEN {usual.is_too_large(rules)} THEN 'record_too_large'
            WHEN POSITION({_REPLACEMENT} IN text) > 0 AND ENCODE(text, 'UTF-8') <> `value` THEN 'not_utf8'
            WHEN POSITION({_NUL} IN text) > 0 THEN 'nul_character'
            WHEN NOT ({strict}) OR {half_pair} OR ({long_number}) THEN 'not_json'
            WHEN NOT (({_BODY}) IS JSON OBJECT) THEN 'not_an_object' END"""


def _token(name: str) -> str:
    """The value of a field as a JSON token. Of equal names a flat text may have several, and the last one counts."""
    pattern = sql.literal(f'"{name}"[ \\t\\r\\n]*+:[ \\t\\r\\n]*+("[^"]*+"|[^ ,\\t\\r\\n}}]++)')
    return (
        f"CASE WHEN flat THEN ARRAY_REVERSE(REGEXP_EXTRACT_ALL(document, {pattern}, 1))[1]\n"
        f"            ELSE {_wrapped('document', name)} END"
    )


def _wrapped(document: str, name: str) -> str:
    """A field's value as a JSON token. `JSON_QUERY` gives a scalar only when it may wrap it."""
    nested = f"JSON_QUERY({document}, '$.{name}' WITH UNCONDITIONAL ARRAY WRAPPER)"
    return f"REGEXP_REPLACE({nested}, '^\\[|\\]$', '')"


def _last(name: str) -> str:
    """The token of a field, NULL where it is absent or null."""
    return f"NULLIF({name}_token, 'null')"


def _event_time() -> str:
    """The token of event_time; where the text has an exponent, one that is no integer: `JSON_QUERY` makes 1.5e1 15."""
    token = _last("event_time")
    fractions = f"REGEXP_REPLACE({_BODY}, {sql.literal(EXPONENT)}, 'e-9')"
    return (
        f"CASE WHEN exponents AND {_is(INTEGER, token)}\n"
        f"            THEN COALESCE({_wrapped(fractions, 'event_time')}, {token}) ELSE {token} END"
    )


def _either_is_string() -> str:
    # Of two ids that are no strings the one is spelled as in the text or as Jackson writes it; neither matters.
    return """(content_id_token LIKE '"%' OR video_id_token LIKE '"%')"""


def _string(token: str) -> str:
    """The text of a JSON string token, NULL for any other."""
    text = f"CASE WHEN flat THEN TRIM(BOTH '\"' FROM {token}) ELSE JSON_UNQUOTE({token}) END"
    return f"CASE WHEN {token} LIKE '\"%' THEN {text} END"


def _region_code(rules: EventSettings) -> str:
    """The region's place in the list; NULL for an unknown region."""
    home = rules.regions.index(rules.home_region)
    known = [(sql.literal(f'"{name}"'), str(code)) for code, name in enumerate(rules.regions)]
    return f"CASE WHEN {_last('region')} IS NULL THEN {home} ELSE {sql.cases('region_token', known)} END"


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
            WHEN event_ms IS NULL AND NOT {_is(INTEGER, "event_time_json")} THEN 'event_time_not_integer'
            WHEN event_ms IS NULL THEN 'event_time_out_of_64_bits'
            WHEN event_ms < {EARLIEST_EVENT_TIME_MS} THEN 'event_time_before_2005'
            WHEN event_ms > broker_ms + {rules.max_ahead_ms} THEN 'event_time_in_future' END"""


def _id_reasons(column: str, name: str) -> str:
    return f"""WHEN {column} IS NULL THEN '{name}_not_string'
            WHEN {column} = '' THEN '{name}_empty'
            WHEN CHAR_LENGTH({column}) > {MAX_ID_CHARACTERS} THEN '{name}_too_long'
            WHEN NOT flat AND POSITION({_NUL} IN {column}) > 0 THEN 'nul_character'
            WHEN NOT flat AND REGEXP({column}, {sql.literal(CONTROL)}) THEN '{name}_control_character'"""

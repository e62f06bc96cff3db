"""SQL text from Python values: nothing that a setting holds can leave its literal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import SettingError
from pipelines.settings import load_settings
from pipelines.steps import sql


def test_quotes_are_doubled() -> None:
    assert sql.literal("plain") == "'plain'"
    assert sql.literal("it's '' ") == "'it''s '''' '"
    assert sql.identifier("a`b") == "`a``b`"


@given(st.text())
def test_a_literal_is_one_token(text: str) -> None:
    """It starts and ends with its quote, and every quote inside has its twin."""
    literal = sql.literal(text)
    assert literal[0] == literal[-1] == "'"
    assert literal[1:-1].replace("''", "").count("'") == 0
    assert literal[1:-1].replace("''", "'") == text


def test_options_quote_names_and_values() -> None:
    assert sql.options({"topic": "a'b", "properties.x": "1"}) == "'topic' = 'a''b',\n    'properties.x' = '1'"


def test_cases() -> None:
    assert (
        sql.cases("code", [("0", "'us'"), ("1", "'eu'")]) == "CASE code WHEN 0 THEN 'us' WHEN 1 THEN 'eu' ELSE NULL END"
    )
    assert sql.cases("code", [("0", "1")], "code") == "CASE code WHEN 0 THEN 1 ELSE code END"


@pytest.mark.parametrize("name", ["o'brien", "us'); DROP", "`us`", 'u"s', "us\n", "", "ünited", "US"])
def test_no_region_can_be_named_like_sql(name: str) -> None:
    with pytest.raises(SettingError, match=r"events.*region"):
        load_settings({}, flags={"events": {"regions": ("us", name)}})

from __future__ import annotations

import json

import pytest
import typer

from cli.counts import entry
from cli.generation import parse_generation
from cli.main import invoke
from pipelines.domain.counter import PnCount, RegionTotal
from pipelines.domain.version import Version

NOW_MS = 1_767_225_600_123
US = RegionTotal("v1", "us", PnCount(2_147_483_650, 1, 5, 5), Version(2, 3, 10).pack(), NOW_MS)
EU = RegionTotal("v1", "eu", PnCount(2, 0, 1, 0), Version(2, 4, 2).pack(), NOW_MS - 1_000)


def test_regions_are_summed_and_the_newest_version_and_time_shown() -> None:
    assert entry("v1", [US, EU], "cassandra", 2) == {
        "content_id": "v1",
        "likes": 2_147_483_651,
        "dislikes": 1,
        "version": EU.version,
        "as_of": "2026-01-01T00:00:00.123Z",
        "known": True,
        "regions": {
            "eu": {
                "likes_p": 2,
                "likes_n": 0,
                "dislikes_p": 1,
                "dislikes_n": 0,
                "version": EU.version,
                "as_of": "2025-12-31T23:59:59.123Z",
            },
            "us": {
                "likes_p": 2_147_483_650,
                "likes_n": 1,
                "dislikes_p": 5,
                "dislikes_n": 5,
                "version": US.version,
                "as_of": "2026-01-01T00:00:00.123Z",
            },
        },
        "source": "cassandra",
        "generation": 2,
    }


def test_an_unknown_content_is_an_explicit_zero() -> None:
    shown = entry("v1", [], "cassandra", None)
    assert (shown["likes"], shown["dislikes"], shown["version"], shown["as_of"]) == (0, 0, 0, None)
    assert (shown["known"], shown["regions"], shown["generation"]) == (False, {}, None)
    assert "missing" not in shown


def test_what_the_cache_has_not_is_missing_and_no_number() -> None:
    shown = entry("v1", None, "redis", 1)
    assert shown.items() >= {"likes": None, "dislikes": None, "known": False, "missing": True, "regions": {}}.items()
    assert entry("v1", [US], "redis", 1)["missing"] is False


def test_every_field_survives_json() -> None:
    shown = entry("v1", [US, EU], "redis", 2)
    assert json.loads(json.dumps(shown)) == shown


def test_generations_are_numbers_or_live() -> None:
    assert parse_generation("live") is None
    assert parse_generation("511") == 511
    for wrong in ("0", "512", "-1", "LIVE", "1.0", "", "٣"):
        with pytest.raises(typer.BadParameter, match="neither 'live' nor a number"):
            parse_generation(wrong)


@pytest.mark.parametrize("arguments", [["counts", "v1"], ["cache", "rebuild"]])
def test_a_wrong_generation_is_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([*arguments, "--generation", "newest"], debug=False) == 2
    assert "--generation" in capsys.readouterr().err


def test_an_id_that_is_not_utf8_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["counts", "v\udcff"], debug=False) == 6
    assert capsys.readouterr().err == "error: content id 'v\\udcff' is not UTF-8; content ids are text\n"

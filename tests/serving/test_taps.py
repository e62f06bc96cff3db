"""Taps that come in over HTTP, all the way to the counts."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import httpx
import pytest

from connectors.kafka import end_offsets
from deploy.flink.local_stack import Stack
from pipelines.settings import Settings
from tests.jobs import QUICK, JobRun
from tests.serving.conftest import Serve, Served, bearer
from tests.support import wait_until

pytestmark = pytest.mark.integration

PAIRS = {"LIKE": (1, 0), "DISLIKE": (0, 1), "NONE": (0, 0)}


@pytest.fixture(scope="module")
def counted(stack: Stack, serve: Serve, service_settings: Callable[..., Settings]) -> Iterator[Served]:
    """A service with a counting job beside it."""
    settings = service_settings(job=dict(QUICK))
    with JobRun(stack, settings) as job, serve(settings) as served:
        job.until(lambda: served.client.get("/v1/operations").json()["generation"], what="a generation")
        yield served


def count(served: Served, content_id: str, **headers: str) -> dict[str, object]:
    answer = served.client.get("/v1/counts", params={"id": content_id}, headers=headers)
    assert answer.status_code == 200, answer.text
    (found,) = answer.json()["counts"]
    return dict(found)


def tap(served: Served, user: str, content_id: str, reaction: str, **headers: str) -> dict[str, str]:
    answer = served.client.put(
        f"/v1/reactions/{content_id}", json={"reaction": reaction}, headers={**bearer(user), **headers}
    )
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


def test_a_tap_is_seen_at_once_by_its_user_and_soon_by_everybody(counted: Served) -> None:
    accepted = tap(counted, "ada", "v1", "LIKE")
    assert uuid.UUID(accepted["event_id"]).version == 7
    mine = count(counted, "v1", **bearer("ada"), **{"Read-Your-Write": accepted["token"]})
    assert (mine["likes"], mine["dislikes"], mine["my_reaction"]) == (1, 0, "LIKE")
    wait_until(lambda: count(counted, "v1")["likes"] == 1, 60, what="the count")
    for _ in range(20):
        mine = count(counted, "v1", **bearer("ada"), **{"Read-Your-Write": accepted["token"]})
        assert (mine["likes"], mine["my_reaction"]) == (1, "LIKE")
    assert "my_reaction" not in count(counted, "v1")


def test_every_change_of_mind_is_seen_in_order(counted: Served) -> None:
    """A user alone on a content must always see what the last tap says, whatever has been counted meanwhile."""
    for number in range(60):
        reaction = ("LIKE", "DISLIKE", "NONE", "LIKE", "NONE", "DISLIKE")[number % 6]
        accepted = tap(counted, "bob", "v2", reaction)
        for _ in range(3):
            mine = count(counted, "v2", **bearer("bob"), **{"Read-Your-Write": accepted["token"]})
            assert (mine["likes"], mine["dislikes"]) == PAIRS[reaction], (number, mine)
            assert mine["my_reaction"] == reaction
    wait_until(lambda: count(counted, "v2")["dislikes"] == 1, 60, what="the last tap")


def test_shorthands(counted: Served) -> None:
    for method, word, reaction in (
        ("POST", "like", "LIKE"),
        ("DELETE", "like", "NONE"),
        ("POST", "dislike", "DISLIKE"),
        ("DELETE", "dislike", "NONE"),
    ):
        answer = counted.client.request(method, f"/v1/videos/v3/{word}", headers=bearer("eve"))
        assert answer.status_code == 202
        assert answer.json()["reaction"] == reaction
        assert answer.json()["content_id"] == "v3"
        assert count(counted, "v3", **bearer("eve"))["my_reaction"] == reaction


def test_a_retry_with_its_key_is_the_same_event(counted: Served) -> None:
    key = {"Idempotency-Key": "k1"}
    first = tap(counted, "kim", "v4", "LIKE", **key)
    again = tap(counted, "kim", "v4", "LIKE", **key)
    assert (again["event_id"], again["event_time"]) == (first["event_id"], first["event_time"])
    later = tap(counted, "kim", "v4", "NONE")
    old = tap(counted, "kim", "v4", "LIKE", **key)
    assert old["event_time"] == first["event_time"]
    mine = count(counted, "v4", **bearer("kim"), **{"Read-Your-Write": f"{old['token']},{later['token']}"})
    assert (mine["likes"], mine["my_reaction"]) == (0, "NONE")
    other = counted.client.put("/v1/reactions/v4", json={"reaction": "DISLIKE"}, headers={**bearer("kim"), **key})
    assert other.status_code == 422
    assert other.json()["title"] == "idempotency_conflict"


def test_two_tabs_at_once_agree_in_the_end(counted: Served) -> None:
    """Each tab knows of its own taps alone; what is counted is what the user tapped last, and only that."""

    def tab(number: int) -> list[tuple[int, str]]:
        chosen, made, token = random.Random(number), [], ""
        with httpx.Client(base_url=counted.url, timeout=30) as client:
            for _ in range(25):
                reaction = chosen.choice(("LIKE", "DISLIKE", "NONE"))
                headers = bearer("two") | ({"Read-Your-Write": token} if token else {})
                answer = client.put("/v1/reactions/v5", json={"reaction": reaction}, headers=headers)
                assert answer.status_code == 202, answer.text
                token = answer.json()["token"]
                made.append((answer.json()["event_time"], reaction))
                headers = bearer("two") | {"Read-Your-Write": token}
                (seen,) = client.get("/v1/counts?ids=v5", headers=headers).json()["counts"]
                assert seen["likes"] + seen["dislikes"] <= 1, seen
        return made

    with ThreadPoolExecutor(2) as tabs:
        taps = [tap for made in tabs.map(tab, (1, 2)) for tap in made]
    assert len({at for at, _ in taps}) == len(taps), "two taps of one user have the same time"
    last = max(taps)[1]
    wait_until(lambda: shown(counted, "v5") == PAIRS[last], 60, what=f"the last tap, {last}")
    assert count(counted, "v5", **bearer("two"))["my_reaction"] == last


def test_a_hot_content_spreads_over_partitions_and_cools_down_safely(
    stack: Stack, serve: Serve, service_settings: Callable[..., Settings]
) -> None:
    """Every user taps while it is cold, hot, and cold again; each event of a user replaces the one before."""
    hot = {"hot_writes_per_s": 5, "hot_partitions": 4}
    settings = service_settings(job=dict(QUICK), serve=hot)
    users = [f"u{number}" for number in range(40)]
    wanted: dict[str, str] = {}
    chosen = random.Random(7)
    with JobRun(stack, settings) as job, serve(settings) as served:
        job.until(lambda: served.client.get("/v1/operations").json()["generation"], what="a generation")

        def all_tap() -> None:
            for user in users:
                wanted[user] = chosen.choice(("LIKE", "DISLIKE", "NONE"))
                tap(served, user, "warm", wanted[user])

        def is_hot() -> bool:
            return any(it["content_id"] == "warm" for it in served.client.get("/v1/operations").json()["hot_writes"])

        def heats_up() -> bool:
            all_tap()
            return is_hot()

        all_tap()
        cold = used_partitions(settings)
        assert len(cold) == 1
        wait_until(heats_up, 60, what="heat")
        all_tap()
        assert len(used_partitions(settings)) > 1
        wait_until(lambda: not is_hot(), 60, what="cooling down")
        before = used_partitions(settings)
        all_tap()
        assert {part for part, end in used_partitions(settings).items() if end != before[part]} == set(cold)
        values = list(wanted.values())
        truth = values.count("LIKE"), values.count("DISLIKE")
        wait_until(lambda: shown(served, "warm") == truth, 60, what=f"the counts {truth}")


def used_partitions(settings: Settings) -> dict[int, int]:
    """Ends of the partitions of the log that have events."""
    return {part: end for part, end in end_offsets(settings, settings.kafka.events_topic).items() if end}


def shown(served: Served, content_id: str) -> tuple[object, object]:
    found = count(served, content_id)
    return found["likes"], found["dislikes"]


def test_ids_of_every_kind(counted: Served) -> None:
    for content_id in ("a/b", "ünï ❤️", "a,b", "?x=1&y", "%2F", "..", "{a}:b"):
        accepted = counted.client.put(
            f"/v1/reactions/{_quoted(content_id)}", json={"reaction": "LIKE"}, headers=bearer("zoe")
        )
        assert accepted.status_code == 202, accepted.text
        assert accepted.json()["content_id"] == content_id
        mine = count(counted, content_id, **bearer("zoe"), **{"Read-Your-Write": accepted.json()["token"]})
        assert (mine["content_id"], mine["likes"], mine["my_reaction"]) == (content_id, 1, "LIKE")


def _quoted(text: str) -> str:
    return quote(text, safe="") if text != ".." else "%2E%2E"

"""The plans are what they are meant to be, and what savepoints depend on has not changed."""

from __future__ import annotations

import re

import pytest

from pipelines.settings import EventSettings
from tests.minicluster.golden_plan import COMMAND, GOLDEN, PIPELINES, Planned, plan
from tests.minicluster.support import MiniCluster

pytestmark = pytest.mark.minicluster

BREAKS_SAVEPOINTS = f"""
This change breaks savepoints: a job that runs could not be stopped and resumed with it, because Flink would not find
the state of an operator, or not understand it. Ids depend on all operators upstream: one step more in `validate` is
enough. If it is meant, run
    {COMMAND}
commit what it writes, and say in CHANGELOG.md that the next start must count a new generation
(`likes job run --generation new`)."""
IS_ANOTHER_PLAN = f"""
The plan has changed. Where the test of the state passes, savepoints still fit. If it is meant, run
    {COMMAND}
and commit what it writes."""


@pytest.fixture(scope="module", params=PIPELINES)
def named(
    request: pytest.FixtureRequest, cluster: MiniCluster, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Planned]:
    return request.param, plan(cluster, request.param, tmp_path_factory.mktemp("plan"))


def test_state(named: tuple[str, Planned]) -> None:
    pipeline, planned = named
    assert planned.state_text() == golden(f"{pipeline}.state.txt"), BREAKS_SAVEPOINTS


def test_plan(named: tuple[str, Planned]) -> None:
    pipeline, planned = named
    assert planned.plan_text() == golden(f"{pipeline}.plan.txt"), IS_ANOTHER_PLAN


def test_each_record_is_read_and_checked_once_and_stored_in_one_place(named: tuple[str, Planned]) -> None:
    pipeline, planned = named
    function = {"like_counts": "store_total", "user_likes": "store_reaction"}[pipeline]
    assert len(planned.operators("Source")) == 1
    assert len(planned.operators("PythonCalc")) == 1
    every = [node["description"] for node in planned.nodes]
    assert sum(f"{function}(" in text for text in every) == 1
    assert sum("REGEXP_SUBSTR(" in text for text in every) == 1


def test_two_phases_of_two_aggregates(named: tuple[str, Planned]) -> None:
    pipeline, planned = named
    groups = ["content_id, user_id", "content_id, region"] if pipeline == "like_counts" else []
    for kind in ("LocalGroupAggregate", "GlobalGroupAggregate"):
        assert len(planned.operators(kind)) == len(groups)
        assert re.findall(r"groupBy=\[(.*?)\]", " ".join(planned.descriptions(kind))) == groups


def test_a_region_may_be_appended_and_a_process_may_plan_again(
    cluster: MiniCluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Neither a longer name nor the numbers that Flink counts up may reach the state."""
    rules = EventSettings(regions=(*EventSettings().regions, "antarctica"))
    planned = plan(cluster, "like_counts", tmp_path_factory.mktemp("plan"), rules)
    assert planned.state_text() == golden("like_counts.state.txt"), BREAKS_SAVEPOINTS


def golden(name: str) -> str:
    return (GOLDEN / name).read_text(encoding="utf-8")

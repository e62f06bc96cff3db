"""`--target cluster` on a real standalone cluster, whose Python has apache-flink but none of our code or libraries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.settings import Settings
from tests.cluster.standalone import StandaloneCluster, can_import, flink_python
from tests.exactness import assert_dead_letters, assert_exact, is_exact, truth
from tests.jobs import publish, quick_settings, run_bounded
from tests.logs import hostile, taps
from tests.support import FreshSettings, Likes, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SEED, EVENTS = 66, 3_000
SHIPPED = ("pipelines", "connectors", "schemas", "cassandra", "kafka", "pydantic", "tenacity")
COUNTED_S = 250.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return flink_python(tmp_path_factory.mktemp("python"))


@pytest.fixture
def on_cluster(fresh_settings: FreshSettings, cluster: StandaloneCluster, python: Path) -> Settings:
    return quick_settings(fresh_settings, flink_rest=cluster.rest_url, cluster_python=str(python))


def test_the_workers_python_has_nothing_of_ours(python: Path) -> None:
    assert can_import(python, "pyflink")
    assert not [module for module in SHIPPED if can_import(python, module)]


def test_counts_are_exact_on_a_cluster(on_cluster: Settings, likes: Likes, cluster: StandaloneCluster) -> None:
    publish(on_cluster, hostile(SEED, EVENTS))
    done = likes("job", "run", "--bounded", "--target", "cluster", settings=on_cluster, timeout_s=COUNTED_S)
    assert done.returncode == 0, done.stderr + cluster.logs()
    expected = truth(on_cluster)
    assert_exact(on_cluster, expected)
    assert_dead_letters(on_cluster, expected)

    # An unbounded run is handed over: the command returns, the job goes on.
    publish(on_cluster, taps(SEED + 1, EVENTS))
    started = likes("job", "run", "--target", "cluster", "--json", settings=on_cluster, timeout_s=COUNTED_S)
    assert started.returncode == 0, started.stderr + cluster.logs()
    assert json.loads(started.stdout)["state"] == "RUNNING"
    expected = truth(on_cluster)
    wait_until(lambda: is_exact(on_cluster, expected), COUNTED_S, what="counts of the cluster's job")
    again = likes("job", "run", "--bounded", settings=on_cluster)
    assert again.returncode == 3, again.stderr
    (running, _) = json.loads(likes("job", "list", "--json", settings=on_cluster).stdout)
    assert running["state"] == "RUNNING"
    stopped = likes("job", "stop", "--savepoint", settings=on_cluster)
    assert stopped.returncode == 0, stopped.stderr

    # What a cluster has saved, this machine can resume.
    publish(on_cluster, taps(SEED + 2, EVENTS))
    run_bounded(likes, on_cluster)
    expected = truth(on_cluster)
    assert_exact(on_cluster, expected)
    assert_dead_letters(on_cluster, expected)

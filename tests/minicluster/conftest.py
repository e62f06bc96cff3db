"""One JVM for the whole session: PyFlink's gateway belongs to the process."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.jobs.saved_state import StateFolders
from tests.minicluster.support import MiniCluster


def pytest_configure(config: pytest.Config) -> None:
    # Beam's reader of a Python worker's channel does not expect that the channel closes when a job is over.
    config.addinivalue_line(
        "filterwarnings",
        "ignore:Exception in thread read_grpc_client_inputs:pytest.PytestUnhandledThreadExceptionWarning",
    )


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> MiniCluster:
    cluster = MiniCluster(tmp_path_factory.mktemp("flink"))
    with pytest.MonkeyPatch.context() as patch:
        # Jobs of a few seconds: most of the time would go into optimising code that is then thrown away.
        patch.setenv("JVM_ARGS", "-Xmx1g -XX:+UseSerialGC -XX:TieredStopAtLevel=1")
        cluster.environment(StateFolders(tmp_path_factory.mktemp("unused")))
    return cluster


@pytest.fixture
def folders(tmp_path: Path) -> StateFolders:
    return StateFolders(tmp_path / "state")

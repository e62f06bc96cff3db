"""Law: a job that fails, or is stopped with a savepoint and resumes at another parallelism, still ends exact."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from pipelines import like_counts
from pipelines.domain.counting import Reactions, Record, count
from pipelines.jobs.saved_state import SavedState, StateFolders
from pipelines.sinks import Sinks
from tests.minicluster.collisions import some_log
from tests.minicluster.support import (
    DISCARD,
    GENERATION,
    RULE_SETTINGS,
    UNBOUNDED,
    MiniCluster,
    RecordTotals,
    log_in,
    nonzero,
    stop,
    write_log,
)
from tests.property.strategies import RULES
from tests.support import wait_until

pytestmark = pytest.mark.minicluster

DEADLINE_S = 60.0


class Run:
    """A growing log, the job on it, and what the job has stored."""

    def __init__(self, cluster: MiniCluster, folders: StateFolders, folder: Path) -> None:
        self._cluster, self._folders, self._log = cluster, folders, folder / "log"
        self._log.mkdir()
        self._records: list[Record] = []
        self.function = RecordTotals(folder / "totals")

    def start(self, parallelism: int) -> Any:  # noqa: ANN401 - PyFlink has no types
        env = self._cluster.environment(
            self._folders, UNBOUNDED, parallelism=parallelism, restore=self._folders.latest()
        )
        sinks = Sinks(DISCARD, DISCARD)
        source = log_in(self._log, grows=True)
        job = like_counts.build(env, source, sinks, RULE_SETTINGS, self.function, GENERATION)
        return job.execute().get_job_client()

    def stop(self, client: Any) -> None:  # noqa: ANN401
        stop(client, self._folders.stops / str(client.get_job_id()))
        assert self.is_exact(), "what came before a savepoint was not stored before it"
        for file in self._log.iterdir():
            file.unlink()  # who resumes must know it from the state

    def grow(self, name: str, records: list[Record]) -> None:
        self._records += records
        write_log(self._log / f"{name}.json", records)

    def is_exact(self) -> bool:
        return self.function.totals() == self.truth()

    def truth(self) -> dict[tuple[str, str], Reactions]:
        return nonzero(count(self._records, RULES).totals)

    def await_exact(self) -> None:
        wait_until(self.is_exact, DEADLINE_S, what="exact totals")

    def await_checkpoint(self) -> SavedState:
        """One that began after this call."""
        last = self._folders.latest()
        first = last.checkpoint_id + 2 if last else 2

        def newer() -> SavedState | None:
            state = self._folders.latest()
            return state if state and state.checkpoint_id >= first else None

        found = wait_until(newer, DEADLINE_S, what=f"checkpoint {first}")
        assert found is not None
        return found


def test_a_store_that_fails_once(cluster: MiniCluster, folders: StateFolders, tmp_path: Path) -> None:
    """After it has written and before Flink knows: what follows the last checkpoint is counted again, once."""
    run = Run(cluster, folders, tmp_path)
    before, after = some_log(random.Random(21), 400, 2)
    client = run.start(parallelism=2)
    run.grow("before", before)
    run.await_exact()
    run.await_checkpoint()
    run.function.fail_once()
    run.grow("after", after)
    wait_until(lambda: run.function.epochs() == 4, DEADLINE_S, what="both subtasks to start again")
    run.await_exact()
    run.stop(client)


def test_stopped_with_a_savepoint_and_resumed_at_another_parallelism(
    cluster: MiniCluster, folders: StateFolders, tmp_path: Path
) -> None:
    run = Run(cluster, folders, tmp_path)
    parts = some_log(random.Random(22), 600, 3)
    for number, parallelism in enumerate((1, 2, 1)):
        client = run.start(parallelism)
        run.grow(f"part {number}", parts[number])
        run.await_exact()
        run.await_checkpoint()
        run.stop(client)
    assert run.function.epochs() == 1 + 2 + 1

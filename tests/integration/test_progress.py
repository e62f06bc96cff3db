"""How far a pipeline is: its newest run's commits, until there are some those of the run whose state it resumes."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from connectors import kafka
from connectors.kafka.admin import commit_offsets
from pipelines.jobs.progress import forget_others, group_of_run, progress, progress_of_run
from pipelines.jobs.saved_state import SavedState
from pipelines.settings import Settings

pytestmark = pytest.mark.integration

OLD, NEW, OTHER = "a" * 32, "b" * 32, "c" * 32


@pytest.fixture
def settings(settings: Settings) -> Settings:
    kafka.ensure_topics(settings, 1)
    return settings


def commit(settings: Settings, pipeline: str, run: str, offsets: dict[int, int]) -> None:
    commit_offsets(settings, settings.kafka.events_topic, group_of_run(pipeline, run), offsets)


def test_a_run_that_starts_is_as_far_as_what_it_resumes(settings: Settings) -> None:
    pipeline = f"like-counts.g1.{settings.cassandra.keyspace}"
    state = SavedState(Path(f"/state/checkpoints/{OLD}/chk-7"), "checkpoint", 7)
    assert progress(settings, pipeline, NEW, None) == {}
    commit(settings, pipeline, OLD, {0: 5, 1: 7})
    assert progress(settings, pipeline, NEW, state) == {0: 5, 1: 7}
    assert progress(settings, pipeline, "", state) == {0: 5, 1: 7}
    assert progress(settings, pipeline, NEW, None) == {}
    commit(settings, pipeline, NEW, {0: 6, 1: 7})
    assert progress(settings, pipeline, NEW, state) == {0: 6, 1: 7}


def test_a_checkpoint_counts_before_kafka_has_heard_of_it(settings: Settings, tmp_path: Path) -> None:
    def split(partition: int, offset: int) -> bytes:
        topic = settings.kafka.events_topic.encode()
        return struct.pack(">H", len(topic)) + topic + struct.pack(">iqq", partition, offset, -(1 << 63))

    pipeline = f"like-counts.g1.{settings.cassandra.keyspace}"
    state = SavedState(tmp_path / NEW / "chk-8", "checkpoint", 8)
    state.path.mkdir(parents=True)
    (state.path / "_metadata").write_bytes(split(0, 9) + split(2, 4) + split(1, 6))
    commit(settings, pipeline, NEW, {0: 6, 1: 7})
    assert progress(settings, pipeline, NEW, state) == {0: 9, 1: 7, 2: 4}
    assert progress_of_run(settings, group_of_run(pipeline, NEW), state) == {0: 9, 1: 7, 2: 4}
    shutil.rmtree(state.path)  # as Flink does once it has a newer one
    assert progress_of_run(settings, group_of_run(pipeline, NEW), state) == {0: 6, 1: 7}


def test_other_runs_are_forgotten_and_other_pipelines_are_not(settings: Settings) -> None:
    pipeline = f"like-counts.g1.{settings.cassandra.keyspace}"
    longer = f"{pipeline}0"
    for name, run in ((pipeline, OLD), (pipeline, NEW), (pipeline, OTHER), (longer, OTHER)):
        commit(settings, name, run, {0: 1})
    forget_others(settings, pipeline, {NEW, OLD})
    assert [progress(settings, pipeline, run, None) for run in (OLD, NEW, OTHER)] == [{0: 1}, {0: 1}, {}]
    assert progress(settings, longer, OTHER, None) == {0: 1}

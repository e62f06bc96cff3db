"""How far a pipeline has come: what its newest state holds, and what the consumer groups of its runs have committed.

A run commits at each checkpoint under a group of its own, so that what an earlier run committed never passes for its
own. Until its first checkpoint it is as far as the state that it resumes from, whose run has committed that.

Where the log is idle Kafka learns of a checkpoint up to 10 s late: the source's thread waits so long for records before
it sends a commit (POLL_TIMEOUT of Flink's KafkaPartitionSplitReader). The checkpoint itself knows at once.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from connectors import kafka
from connectors.cassandra import Fences, Leases
from pipelines.jobs.names import group_of, state_folders
from pipelines.jobs.saved_state import offsets_in, resumable

if TYPE_CHECKING:
    from connectors.cassandra import CassandraSession
    from pipelines.jobs.plan import Pipeline
    from pipelines.jobs.saved_state import SavedState
    from pipelines.settings import Settings

_RUN_DIGITS = 12


def group_of_run(pipeline_group: str, run: str) -> str:
    """The consumer group of one run of a pipeline; all of a pipeline's begin with `pipelines.jobs.names.group_of`."""
    return f"{pipeline_group}.{run[:_RUN_DIGITS]}"


def progress(settings: Settings, pipeline_group: str, run: str, state: SavedState | None) -> dict[int, int]:
    """Offsets by partition that are counted and saved; partitions of which nothing is known are left out.

    Args:
        settings: Of the topic.
        pipeline_group: What the groups of the pipeline's runs begin with.
        run: The newest run, "" where there is none.
        state: The newest, of that run or what it resumed from; None where there is none.

    Raises:
        ServiceUnavailable: No broker answers.
    """
    runs = dict.fromkeys(known for known in (run, state.run if state else "") if known)
    groups = (group_of_run(pipeline_group, known) for known in runs)
    committed = (kafka.committed_offsets(settings, settings.kafka.events_topic, group) for group in groups)
    return _furthest(next((offsets for offsets in committed if offsets), {}), settings, state)


def progress_of_run(settings: Settings, run_group: str, state: SavedState | None) -> dict[int, int]:
    """The same of one run alone.

    Args:
        settings: Of the topic.
        run_group: See `group_of_run`.
        state: Its own newest state, None where it has none yet.

    Raises:
        ServiceUnavailable: No broker answers.
    """
    return _furthest(kafka.committed_offsets(settings, settings.kafka.events_topic, run_group), settings, state)


def _furthest(committed: dict[int, int], settings: Settings, state: SavedState | None) -> dict[int, int]:
    saved: dict[int, int] = {}
    if state is not None:
        with suppress(OSError):  # a newer one has replaced it meanwhile
            saved = offsets_in(state, settings.kafka.events_topic)
    return {
        partition: max(committed.get(partition, 0), saved.get(partition, 0))
        for partition in sorted(committed.keys() | saved.keys())
    }


def standing(
    settings: Settings, session: CassandraSession, pipeline: Pipeline, generation: int | None, identity: str
) -> tuple[SavedState | None, dict[int, int]]:
    """The state that a pipeline's next run would resume, None if there is none, and how far the pipeline has come.

    Args:
        settings: Of the topic and the state's folders.
        session: Of the fence or the lease, which name the newest run.
        pipeline: Which.
        generation: What it counts; None for `user-likes`.
        identity: Of the generation, or for `user-likes` of the keyspace.

    Raises:
        ServiceUnavailable: Kafka or Cassandra does not answer.
    """
    folders = state_folders(settings, pipeline, generation, identity)
    if generation is None:
        held = Leases(session).read(pipeline)
        run, state = held.owner if held else "", folders.latest()
    else:
        fence = Fences(session).read(generation)
        run, state = fence.saver, resumable(folders, fence)
    return state, progress(settings, group_of(pipeline, generation, identity), run, state)


def forget_others(settings: Settings, pipeline_group: str, keep: set[str]) -> None:
    """Remove the groups of all runs but some.

    Args:
        settings: Of the topic.
        pipeline_group: What the groups of the pipeline's runs begin with.
        keep: Runs whose groups stay.

    Raises:
        ServiceUnavailable: No broker answers.
    """
    kept = {group_of_run(pipeline_group, run) for run in keep}
    kafka.forget_groups(settings, lambda group: group.startswith(f"{pipeline_group}.") and group not in kept)

"""How far a pipeline has come: what the consumer groups of its runs have committed.

A run commits at each checkpoint under a group of its own, so that what an earlier run committed never passes for its
own. Until its first checkpoint it is as far as the state that it resumes from, whose run has committed that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors import kafka
from connectors.cassandra import Fences, Leases
from pipelines.jobs.names import group_of, state_folders
from pipelines.jobs.saved_state import resumable

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
        state: What it resumed from, or would.

    Raises:
        ServiceUnavailable: No broker answers.
    """
    runs = dict.fromkeys(known for known in (run, state.run if state else "") if known)
    groups = (group_of_run(pipeline_group, known) for known in runs)
    committed = (kafka.committed_offsets(settings, settings.kafka.events_topic, group) for group in groups)
    return next((offsets for offsets in committed if offsets), {})


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

"""How far a pipeline has come: what the consumer groups of its runs have committed.

A run commits at each checkpoint under a group of its own, so that what an earlier run committed never passes for its
own. Until its first checkpoint it is as far as the state that it resumes from, whose run has committed that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors import kafka

if TYPE_CHECKING:
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

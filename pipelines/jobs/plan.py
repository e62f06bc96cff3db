"""What the parts of a run hand each other: the user's request, the plan of the run, its outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pipelines.jobs.prepare import EARLIEST, Counting, Start

if TYPE_CHECKING:
    from connectors.cassandra import Lease
    from pipelines.jobs.offsets import Position
    from pipelines.jobs.saved_state import StateFolders

Pipeline = Literal["like-counts", "user-likes"]
TargetName = Literal["local", "cluster"]
Tell = Callable[[str], None]
"""Gets lines for the user."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for.

    Fields:
        pipeline: Which one.
        bounded: Count to the topic's present end, keep the state, and stop.
        start: Where to start without state.
        end: Where the source ends, None for the present end (`bounded`) or never.
        new_generation: Count into a new generation.
        target: The embedded MiniCluster or a running cluster.
    """

    pipeline: Pipeline = "like-counts"
    bounded: bool = False
    start: Position = EARLIEST
    end: Position | None = None
    new_generation: bool = False
    target: TargetName = "local"


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything decided, nothing submitted.

    Fields:
        counting: The generation.
        group: The consumer group, of this run alone.
        folders: Where state lies.
        start: Where it begins and ends.
        lease: Held by this run.
        name: The job's name in Flink.
    """

    counting: Counting
    group: str
    folders: StateFolders
    start: Start
    lease: Lease
    name: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended, or where it goes on.

    Fields:
        generation: What it counted.
        job_id: Flink's id.
        state: FINISHED, CANCELED or RUNNING (on a cluster).
        savepoint: Where its state lies, None if it goes on or its source ended.
        events: Records that the run has behind it, over all partitions from offset 0; None if unknown.
        counting_s: Seconds from when the first task was deployed until everything was stored and checkpointed; None if
            unbounded.
        events_per_s: See `pipelines.jobs.pace`; 0 where there was nothing to count, None if unbounded.
    """

    generation: int
    job_id: str
    state: str
    savepoint: str | None
    events: int | None
    counting_s: float | None = None
    events_per_s: float | None = None

"""What belongs to a run, by name: its consumer group and where its state lies."""

from __future__ import annotations

import atexit
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from deploy.flink.local_stack import FLINK
from deploy.flink.local_stack.paths import stack_dir
from pipelines.jobs.saved_state import StateFolders

if TYPE_CHECKING:
    from pipelines.settings import Settings

_KEPT_LOGS = 10


def group_of(pipeline: str, generation: int | None, identity: str) -> str:
    """What the consumer groups of a pipeline's runs begin with, under which they commit how far they are.

    `identity` is unique to the generation's creation, so a group never speaks of another Cassandra's counting.
    """
    middle = "" if generation is None else f".g{generation}"
    return f"{pipeline}{middle}.{identity}"


def flink_dir() -> Path:
    """Where jobs that this machine starts keep logs and working files."""
    return stack_dir() / FLINK


def log_dir(run: str) -> Path:
    """A folder for the logs of one run; those of all but the newest runs are removed."""
    logs = flink_dir() / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    older = sorted((folder for folder in logs.iterdir() if folder.is_dir()), key=_written_at)
    for folder in older[: -_KEPT_LOGS + 1]:
        shutil.rmtree(folder, ignore_errors=True)
    return logs / run


def scratch_dir() -> Path:
    """This process's folder for working files. What killed processes have left is removed."""
    scratch = flink_dir() / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    for folder in scratch.iterdir():
        if not folder.name.isdecimal() or not psutil.pid_exists(int(folder.name)):
            shutil.rmtree(folder, ignore_errors=True)
    mine = scratch / str(os.getpid())
    atexit.register(shutil.rmtree, mine, ignore_errors=True)
    return mine


def _written_at(folder: Path) -> float:
    return max((file.stat().st_mtime for file in folder.glob("*")), default=folder.stat().st_mtime)


def state_folders(settings: Settings, pipeline: str, generation: int | None, identity: str) -> StateFolders:
    """Where the state of a pipeline lies, for one counting of one topic."""
    base = Path(settings.job.state_dir).resolve() if settings.job.state_dir else flink_dir() / "state"
    return StateFolders(base / settings.kafka.events_topic / group_of(pipeline, generation, identity))

"""What a generation can resume from: Flink's checkpoints and savepoints as they lie on disk.

    <state dir>/<topic>/<pipeline>.g<N>.<identity>/checkpoints/<job id>/chk-<n>/_metadata   of each run
    <state dir>/<topic>/<pipeline>.g<N>.<identity>/stops/savepoint-…/_metadata              made at the end of a run
    <state dir>/<topic>/<pipeline>.g<N>.<identity>/savepoints/savepoint-…/_metadata         asked for by the user

A run copies what it resumes from into its own first checkpoint and owns nothing of earlier runs. So when a run starts,
everything but the state that it resumes from can go (`prune`), and must: an abandoned line of history that was resumed
later would miss what has been written since. Only the user's savepoints are never touched.

Checkpoint ids go on counting when a job is restored, so the newest state is the one with the largest id, whatever the
clock says. The id stands in the head of `_metadata`: magic number and version (int each), then the id (long), all
big-endian (org.apache.flink.runtime.checkpoint.Checkpoints and MetadataV3Serializer).
"""

from __future__ import annotations

import shutil
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_HEAD = struct.Struct(">iiq")
_MAGIC = 0x4960672D
_FIRST_VERSION_WITH_ID_FIRST = 3

Kind = Literal["checkpoint", "stop", "savepoint"]


@dataclass(frozen=True, slots=True)
class SavedState:
    """One checkpoint or savepoint.

    Fields:
        path: Its folder.
        kind: `checkpoint`, `stop` (the savepoint that ends a bounded or stopped run) or `savepoint` (the user's own).
        checkpoint_id: Its place in the generation's history.
    """

    path: Path
    kind: Kind
    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class StateFolders:
    """Where the state of one job lies."""

    root: Path

    @property
    def checkpoints(self) -> Path:
        """Flink's own."""
        return self.root / "checkpoints"

    @property
    def stops(self) -> Path:
        """Savepoints that end a run."""
        return self.root / "stops"

    @property
    def savepoints(self) -> Path:
        """The user's savepoints."""
        return self.root / "savepoints"

    def latest(self) -> SavedState | None:
        """The newest complete state, None if there is none."""
        found = [
            *_states("checkpoint", self.checkpoints, "*/chk-*/_metadata"),
            *_states("stop", self.stops, "*/_metadata"),
            *_states("savepoint", self.savepoints, "*/_metadata"),
        ]
        # Of equal ids (a savepoint and its copy) prefer what the user asked for: it cannot have been half deleted.
        return max(found, key=lambda state: (state.checkpoint_id, state.kind == "savepoint"), default=None)

    def prune(self, keep: SavedState) -> None:
        """Remove the checkpoints and stops of all runs but the one that made `keep`."""
        runs = [*self.checkpoints.glob("*/"), *self.stops.glob("savepoint-*/")]
        for folder in runs:
            if not keep.path.is_relative_to(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _states(kind: Kind, folder: Path, pattern: str) -> list[SavedState]:
    found = ((metadata, _checkpoint_id(metadata)) for metadata in folder.glob(pattern))
    return [SavedState(metadata.parent, kind, number) for metadata, number in found if number is not None]


def _checkpoint_id(metadata: Path) -> int | None:
    """The id in a metadata file, None where the file is not (yet) one."""
    try:
        with metadata.open("rb") as opened:
            magic, version, number = _HEAD.unpack(opened.read(_HEAD.size))
    except (OSError, struct.error):
        return None
    return number if magic == _MAGIC and version >= _FIRST_VERSION_WITH_ID_FIRST else None

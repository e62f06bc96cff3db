"""What a generation can resume from: Flink's checkpoints and savepoints as they lie on disk.

    <state dir>/<topic>/<pipeline>.g<N>.<identity>/checkpoints/<run>/chk-<n>/_metadata
    <state dir>/<topic>/<pipeline>.g<N>.<identity>/stops/<run>/savepoint-…/_metadata        made at the end of a run
    <state dir>/<topic>/<pipeline>.g<N>.<identity>/savepoints/<run>/savepoint-…/_metadata   asked for by the user

A run is also Flink's job: it has the same id. It copies what it resumes from into its own first checkpoint and owns
nothing of earlier runs. So when a run starts, everything but the state that it resumes from can go (`prune`). Only the
user's savepoints are never touched. Which run's states may be resumed is told by the fence (`pipelines.domain.fence`).

Checkpoint ids go on counting when a job is restored, so the newest state is the one with the largest id, whatever the
clock says. The id stands in the head of `_metadata`: magic number and version (int each), then the id (long), all
big-endian (org.apache.flink.runtime.checkpoint.Checkpoints and MetadataV3Serializer).
"""

from __future__ import annotations

import re
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pipelines.domain.fence import Fence

_HEAD = struct.Struct(">iiq")
_MAGIC = 0x4960672D
_FIRST_VERSION_WITH_ID_FIRST = 3
_NEVER_STOPS = re.escape(struct.pack(">q", -(1 << 63)))

Kind = Literal["checkpoint", "stop", "savepoint"]
_FOLDERS: dict[Kind, str] = {"checkpoint": "checkpoints", "stop": "stops", "savepoint": "savepoints"}


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

    @property
    def run(self) -> str:
        """Whose it is."""
        return self.path.parent.name


@dataclass(frozen=True, slots=True)
class StateFolders:
    """Where the state of one job lies."""

    root: Path

    @property
    def checkpoints(self) -> Path:
        """Flink's own."""
        return self.root / _FOLDERS["checkpoint"]

    @property
    def stops(self) -> Path:
        """Savepoints that end a run."""
        return self.root / _FOLDERS["stop"]

    @property
    def savepoints(self) -> Path:
        """The user's savepoints."""
        return self.root / _FOLDERS["savepoint"]

    def latest(self, run: str = "*", base: str = "") -> SavedState | None:
        """The newest complete state, None if there is none.

        Args:
            run: Whose; by default anybody's.
            base: Besides, as `name_of` named it; where it is a checkpoint, older ones of its run too, in case it is
                damaged and was moved away.
        """
        found = [
            *_states("checkpoint", self.checkpoints, f"{run}/chk-*/_metadata"),
            *_states("stop", self.stops, f"{run}/*/_metadata"),
            *_states("savepoint", self.savepoints, f"{run}/*/_metadata"),
        ]
        if base:
            found += self._base(base)
        # Of equal ids (a savepoint and its copy) prefer what the user asked for: it cannot have been half deleted.
        return max(found, key=lambda state: (state.checkpoint_id, state.kind == "savepoint"), default=None)

    def _base(self, base: str) -> list[SavedState]:
        kind = next(kind for kind, folder in _FOLDERS.items() if base.startswith(f"{folder}/"))
        place = self.root / base
        if kind != "checkpoint":
            return _states(kind, place, "_metadata")
        newest = int(place.name.removeprefix("chk-"))
        return [state for state in _states(kind, place.parent, "chk-*/_metadata") if state.checkpoint_id <= newest]

    def name_of(self, state: SavedState | None) -> str:
        """A state's place in these folders, "" for none."""
        return state.path.relative_to(self.root).as_posix() if state else ""

    def prune(self, keep: SavedState) -> None:
        """Remove the checkpoints and stops of all runs but the one that made `keep`."""
        runs = [*self.checkpoints.glob("*/"), *self.stops.glob("*/")]
        for folder in runs:
            if not keep.path.is_relative_to(folder):
                shutil.rmtree(folder, ignore_errors=True)


def resumable(folders: StateFolders, fence: Fence) -> SavedState | None:
    """The newest state from which a generation may go on, None if it has to start from offset 0."""
    return folders.latest(fence.saver, fence.base) if fence.saver else None


def offsets_in(state: SavedState, topic: str) -> dict[int, int]:
    """Where a state's source goes on: offset by partition, without those of which it has read nothing yet.

    A split lies in the metadata as KafkaPartitionSplitSerializer writes it: topic (length and UTF-8), partition (int),
    offset and stopping offset (long each), big-endian. A source that never ends has the smallest long for the latter,
    and negative offsets stand for places that are not known yet.
    """
    name = topic.encode()
    split = re.compile(re.escape(struct.pack(">H", len(name)) + name) + b"(.{12})" + _NEVER_STOPS, re.DOTALL)
    found = (struct.unpack(">iq", match[1]) for match in split.finditer((state.path / "_metadata").read_bytes()))
    return {partition: offset for partition, offset in sorted(found, reverse=True) if offset >= 0}


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

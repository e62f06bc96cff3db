from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import pytest

from pipelines.domain.fence import Fence
from pipelines.jobs.saved_state import Kind, SavedState, StateFolders, offsets_in, resumable


def save(folder: Path, checkpoint_id: int, *, magic: int = 0x4960672D, version: int = 6) -> Path:
    folder.mkdir(parents=True)
    (folder / "_metadata").write_bytes(struct.pack(">iiq", magic, version, checkpoint_id) + b"rest")
    return folder


def test_the_newest_state_is_the_one_with_the_largest_id_whatever_the_clock_says(tmp_path: Path) -> None:
    folders = StateFolders(tmp_path)
    assert folders.latest() is None
    save(folders.checkpoints / "job1" / "chk-9", 9)
    newest = save(folders.checkpoints / "job2" / "chk-10", 10)
    save(folders.stops / "job1" / "savepoint-x", 8)
    os.utime(newest / "_metadata", (0, 0))
    assert folders.latest() == SavedState(newest, "checkpoint", 10)
    own = save(folders.savepoints / "job2" / "savepoint-y", 10)
    assert folders.latest() == SavedState(own, "savepoint", 10)
    stop = save(folders.stops / "job2" / "savepoint-z", 11)
    assert folders.latest() == SavedState(stop, "stop", 11)


def test_what_is_no_complete_metadata_is_passed_over(tmp_path: Path) -> None:
    folders = StateFolders(tmp_path)
    good = save(folders.checkpoints / "job" / "chk-1", 1)
    save(folders.checkpoints / "job" / "chk-2", 2, magic=0)
    save(folders.checkpoints / "job" / "chk-3", 3, version=2)
    half = folders.checkpoints / "job" / "chk-4"
    half.mkdir()
    (half / "_metadata").write_bytes(b"\x49\x60")
    (folders.checkpoints / "job" / "chk-5").mkdir()
    assert folders.latest() == SavedState(good, "checkpoint", 1)


def test_only_the_run_that_began_last_and_what_it_began_from_are_resumed(tmp_path: Path) -> None:
    folders = StateFolders(tmp_path)
    assert resumable(folders, Fence(3, "job3")) is None
    base = SavedState(save(folders.checkpoints / "job1" / "chk-5", 5), "checkpoint", 5)
    assert resumable(folders, Fence(3, "job3")) is None
    assert folders.name_of(base) == "checkpoints/job1/chk-5"
    begun = Fence(3, "job3", 0, saver="job2", base=folders.name_of(base))
    # The old run lives on: what it completes now may hold totals that job2 has since overwritten.
    save(folders.checkpoints / "job1" / "chk-6", 6)
    save(folders.stops / "job1" / "savepoint-x", 7)
    save(folders.savepoints / "job1" / "savepoint-y", 8)
    assert resumable(folders, begun) == base
    own = save(folders.checkpoints / "job2" / "chk-6", 6)
    assert resumable(folders, begun) == SavedState(own, "checkpoint", 6)
    shutil.rmtree(base.path)
    shutil.rmtree(own)
    assert resumable(folders, begun) is None
    assert resumable(folders, begun._replace(base="")) is None


def test_a_damaged_checkpoint_that_was_moved_away_leaves_the_one_before(tmp_path: Path) -> None:
    folders = StateFolders(tmp_path)
    before = SavedState(save(folders.checkpoints / "job1" / "chk-9", 9), "checkpoint", 9)
    base = SavedState(save(folders.checkpoints / "job1" / "chk-10", 10), "checkpoint", 10)
    begun = Fence(saver="job2", base=folders.name_of(base))
    save(folders.checkpoints / "job1" / "chk-11", 11)
    assert resumable(folders, begun) == base
    shutil.rmtree(base.path)
    assert resumable(folders, begun) == before


def test_offsets_are_read_from_the_splits_of_a_source_that_never_ends(tmp_path: Path) -> None:
    def split(topic: str, partition: int, offset: int, stop: int = -(1 << 63)) -> bytes:
        return struct.pack(">H", len(topic)) + topic.encode() + struct.pack(">iqq", partition, offset, stop)

    state = SavedState(save(tmp_path / "checkpoints" / "job" / "chk-1", 1), "checkpoint", 1)
    with (state.path / "_metadata").open("ab") as metadata:
        metadata.write(b"..." + split("events", 3, 77) + split("events", 0, (1 << 40) + 10) + b"\n")
        metadata.write(split("events", 1, -2) + split("events", 2, 5, stop=9) + split("other", 4, 1))
    assert offsets_in(state, "events") == {0: (1 << 40) + 10, 3: 77}


@pytest.mark.parametrize("kind", ["stop", "savepoint"])
def test_a_run_may_begin_from_any_kind_of_state(tmp_path: Path, kind: Kind) -> None:
    folders = StateFolders(tmp_path)
    folder = {"stop": folders.stops, "savepoint": folders.savepoints}[kind]
    base = SavedState(save(folder / "job1" / "savepoint-x", 5), kind, 5)
    assert resumable(folders, Fence(saver="job2", base=folders.name_of(base))) == base


def test_pruning_leaves_the_state_that_is_resumed_and_the_users_savepoints(tmp_path: Path) -> None:
    folders = StateFolders(tmp_path)
    save(folders.checkpoints / "job1" / "chk-1", 1)
    kept = save(folders.checkpoints / "job2" / "chk-5", 5)
    shared = folders.checkpoints / "job2" / "shared" / "file"
    shared.parent.mkdir()
    shared.touch()
    stop = save(folders.stops / "job1" / "savepoint-a", 2)
    own = save(folders.savepoints / "job1" / "savepoint-b", 3)
    folders.prune(SavedState(kept, "checkpoint", 5))
    assert shared.exists()
    assert own.exists()
    assert not (folders.checkpoints / "job1").exists()
    assert not stop.exists()

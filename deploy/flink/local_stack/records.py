"""What a stack remembers between commands: `stack.json`, and a lock so that commands do not interleave."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from pipelines.errors import BadInput

RECORD_FILE = "stack.json"
LOCK_FILE = ".lock"


@dataclass(frozen=True, slots=True)
class Record:
    """One service as last started.

    Fields:
        ports: By purpose; `client` is the one that the others connect to. Kept while the data is.
        pid: Of the last start; 0 before the first.
        mark: That process's identity, see `processes.mark`.
    """

    ports: dict[str, int] = field(default_factory=dict)
    pid: int = 0
    mark: str = ""


class Records:
    """The records of one stack folder, by service name. Writers hold `locked()`; threads may share an object."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / RECORD_FILE
        self._threads = threading.Lock()

    def get(self, name: str) -> Record:
        """The record of a service; an empty one when there is none."""
        return self._read().get(name, Record())

    def update(self, name: str, *, ports: dict[str, int] | None = None, process: tuple[int, str] | None = None) -> None:
        """Replace the ports or the process of a service; a reader sees the old file or the new one, whole."""
        with self._threads:
            records = self._read()
            record = records.get(name, Record())
            if ports is not None:
                record = replace(record, ports=ports)
            if process is not None:
                record = replace(record, pid=process[0], mark=process[1])
            records[name] = record
            scratch = self._file.with_suffix(".new")
            scratch.write_text(json.dumps({key: asdict(value) for key, value in records.items()}, indent=2) + "\n")
            scratch.replace(self._file)

    def _read(self) -> dict[str, Record]:
        try:
            return {name: Record(**entry) for name, entry in json.loads(self._file.read_text()).items()}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, AttributeError) as error:
            raise BadInput(
                f"{self._file} cannot be read: {error}", "stop its processes and remove the folder"
            ) from None


@contextmanager
def locked(folder: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the folder's lock, creating the folder. Another holder is waited for, after a call of `waiting`."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            # A purge removes the file; a lock on what is no longer there holds nobody back.
            if _is_current(descriptor, folder / LOCK_FILE):
                yield
                return
        finally:
            os.close(descriptor)


def _is_current(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False

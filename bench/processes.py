"""Programs that a benchmark starts, kills and starts again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_RESTARTS = 3
_GRACE_S = 15.0


class PeerFailed(Exception):
    """What is measured ended by itself or came to no end; the message says what its log says."""


class Processes:
    """The processes of one program, each the leader of a process group.

    Args:
        name: For messages.
        commands: One for each process.
        folder: Gets their logs; they run in it.
        environment: Set for them beside what they inherit.
    """

    def __init__(
        self, name: str, commands: Sequence[list[str]], folder: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self._name, self._commands, self._folder = name, commands, folder
        self._environment = environment or {}
        self._running: list[subprocess.Popen[bytes]] = []
        self.restarts = 0

    def start(self) -> None:
        """Start all of them."""
        for index in range(len(self._commands)):
            self._running.append(self._start(index))

    def kill(self) -> None:
        """End all of them as a crash would; returns once they are gone."""
        for process in self._running:
            _signal_group(process, signal.SIGKILL)
        for process in self._running:
            process.wait()
        self._running.clear()

    def stop(self) -> None:
        """End all of them in order, and what is left of their groups by force."""
        for process in self._running:
            _signal_group(process, signal.SIGTERM)
        deadline = time.monotonic() + _GRACE_S
        for process in self._running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                continue
        self.kill()

    def check(self, *, restart: bool) -> None:
        """See that all run.

        Args:
            restart: Start what has ended again, a few times.

        Raises:
            PeerFailed: One has ended.
        """
        for index, process in enumerate(self._running):
            if process.poll() is None:
                continue
            if not restart or self.restarts >= _RESTARTS:
                raise PeerFailed(f"{self._name} ended with {process.returncode}: {self.last_lines()}")
            _signal_group(process, signal.SIGKILL)
            self.restarts += 1
            self._running[index] = self._start(index)

    def last_lines(self) -> str:
        """The end of their logs."""
        texts = (log.read_text(encoding="utf-8", errors="replace") for log in sorted(self._folder.glob("*.log")))
        return " / ".join(" | ".join(text.strip().splitlines()[-3:])[-600:] for text in texts)

    def _start(self, index: int) -> subprocess.Popen[bytes]:
        with (self._folder / f"{index}.log").open("ab") as log:
            return subprocess.Popen(
                self._commands[index],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env={**os.environ, **self._environment},
                start_new_session=True,
            )


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return

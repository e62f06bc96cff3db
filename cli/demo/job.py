"""A `likes job run` of the demo's own, as a process beside it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import psutil

from pipelines.errors import JobFailed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Cancelling takes a second or two; more is a job that hangs.
_GRACE_S = 8.0
_KILLED_S = 3.0
_STACK_FRAME = re.compile(r"\s+at |\s*\.\.\. \d+ |\s*File \"|Traceback |\s*$")


class JobProcess:
    """A pipeline in a process group of its own, so that the terminal's Ctrl-C reaches the demo alone.

    Starts at `__enter__`; at the end of the block it is interrupted as by Ctrl-C, so that its last checkpoint stays and
    its lease is given up, and whatever is left of it is killed.

    Args:
        pipeline: Which.
        environment: Of the process; settings come from it.
        log: Gets what the job says.
    """

    def __init__(self, pipeline: str, environment: Mapping[str, str], log: Path) -> None:
        self.pipeline = pipeline
        self.log = log
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "cli.main", "job", "run", "--pipeline", self.pipeline],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(self._environment),
                start_new_session=True,
            )
        return self

    def __exit__(self, *_: object) -> None:
        process = self._running()
        family: list[psutil.Process] = []
        with suppress(psutil.NoSuchProcess):
            # Listed while they have a parent: the JVM and its Python workers outlive it by a moment.
            family = psutil.Process(process.pid).children(recursive=True)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)
        for orphan in psutil.wait_procs(family, timeout=_KILLED_S)[1]:
            with suppress(psutil.NoSuchProcess):
                orphan.kill()
        if process.poll() is None:
            process.kill()
        process.wait()

    @property
    def pid(self) -> int | None:
        """Of the command, which holds the job's lease; None before it has started."""
        return self._process.pid if self._process else None

    def check(self) -> None:
        """Raises JobFailed if it has ended, with the last useful line of its log: it should run for as long as we."""
        code = self._running().poll()
        if code is not None:
            why = last_useful_line(self.log.read_text(encoding="utf-8", errors="replace"))
            raise JobFailed(f"the {self.pipeline} job ended ({_how(code)}): {why}", f"see {self.log}")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("not started")
        return self._process


def last_useful_line(text: str) -> str:
    """The line of a job's log that says why it ended: its last error, else the last that is no stack frame."""
    lines = [line.strip() for line in text.splitlines() if not _STACK_FRAME.match(line)]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (errors or lines or ["its log is empty"])[-1][:300]


def _how(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

"""The demo's own commands: a `likes job run` and a `likes serve`, as processes beside it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import psutil

from deploy.flink.local_stack.ports import HOST, free_port, is_free
from pipelines.errors import JobFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

# Cancelling takes a second or two; more is a job that hangs.
_GRACE_S = 8.0
_KILLED_S = 3.0
_PORT = 8080
_STACK_FRAME = re.compile(r"\s+at |\s*\.\.\. \d+ |\s*File \"|Traceback |\s*$")


class CommandProcess:
    """A command of `likes` in a process group of its own, so that the terminal's Ctrl-C reaches the demo alone.

    Starts at `__enter__`; at the end of the block it is interrupted as by Ctrl-C, so that a job's last checkpoint stays
    and its lease is given up, and whatever is left of it is killed.

    Args:
        name: What it is called when it ends too early.
        arguments: Of `likes`.
        environment: Of the process; settings come from it.
        log: Gets what the command says.
    """

    def __init__(self, name: str, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        self._name = name
        self._arguments = arguments
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "cli.main", *self._arguments],
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
            raise JobFailed(f"{self._name} ended ({_how(code)}): {why}", f"see {self.log}")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("not started")
        return self._process


class JobProcess(CommandProcess):
    """A pipeline.

    Args:
        pipeline: Which.
        environment: Of the process.
        log: Gets what the job says.
    """

    def __init__(self, pipeline: str, environment: Mapping[str, str], log: Path) -> None:
        super().__init__(f"the {pipeline} job", ["job", "run", "--pipeline", pipeline], environment, log)
        self.pipeline = pipeline


class ServiceProcess(CommandProcess):
    """The HTTP service, at its usual port or, where that is taken, another one.

    Args:
        environment: Of the process.
        log: Gets what the service says.

    Fields:
        url: Where it answers.
    """

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        port = _PORT if is_free(_PORT) else free_port(set())
        super().__init__("the service", ["serve", "--port", str(port)], environment, log)
        self.url = f"http://{HOST}:{port}"


def last_useful_line(text: str) -> str:
    """The line of a job's log that says why it ended: its last error, else the last that is no stack frame."""
    lines = [line.strip() for line in text.splitlines() if not _STACK_FRAME.match(line)]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (errors or lines or ["its log is empty"])[-1][:300]


def _how(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

"""What every service of the stack can do: start, stop, say whether it lives and whether it answers."""

from __future__ import annotations

import re
import shutil
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import ClassVar

from deploy.flink.local_stack import ports, processes
from deploy.flink.local_stack.records import Records, locked
from pipelines.errors import Refused, ServiceUnavailable

TEMPLATES = Path(__file__).resolve().parent / "templates"
LOGS = "logs"
# Thrice what the slowest service needs on two busy cores.
START_DEADLINE_S = 180.0
_POLL_S = 0.2
_TELL_EVERY_S = 5.0
_TROUBLE = re.compile(r"\b(ERROR|FATAL)\b|Exception|Error:|[Aa]ddress already in use")
_STACK_FRAME = re.compile(r"\s+at |\s*\.\.\. \d+ |\s*$")

Progress = Callable[[str], None]


class Service(ABC):
    """One process on the loopback address, with its data, log and record in the stack's folder.

    Public methods other than `start` never block for longer than their time-outs say, and none raises unless it says
    so. `start` takes the stack's lock; `launch` is for who holds it.
    """

    name: ClassVar[str]
    internal_ports: ClassVar[tuple[str, ...]] = ()
    grace_s: ClassVar[float] = 20.0

    def __init__(self, folder: Path, records: Records) -> None:
        self.folder = folder / self.name
        self.log = folder / LOGS / f"{self.name}.log"
        self._stack_folder = folder
        self._records = records
        self._jars: list[Path] = []

    @abstractmethod
    def command(self) -> list[str]:
        """The program and its arguments, after `prepare`."""

    @abstractmethod
    def prepare(self, progress: Progress) -> None:
        """Make what the process needs before it starts: downloads, configuration, formatting."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether it answers its own protocol, within a second."""

    @property
    def pid(self) -> int | None:
        """The running process's id, None when it is down."""
        record = self._records.get(self.name)
        return record.pid if record.pid and processes.is_running(record.pid, record.mark) else None

    @property
    def port(self) -> int:
        """Where clients connect, on 127.0.0.1; 0 before the first start."""
        return self._records.get(self.name).ports.get("client", 0)

    @property
    def address(self) -> str:
        """Host and port for clients."""
        return f"{ports.HOST}:{self.port}"

    def alive(self) -> bool:
        """Whether the process that was last started still runs."""
        return self.pid is not None

    def resident_mb(self) -> int:
        """Resident memory in MiB, 0 when it is down."""
        return processes.resident_mb(pid) if (pid := self.pid) else 0

    def start(self, progress: Progress | None = None) -> None:
        """Start it on its old port and data, and wait until it answers; nothing to do when it already does.

        Raises:
            ServiceUnavailable: It did not come up; the message has the last useful line of its log.
        """
        tell = progress or _ignore
        with locked(self._stack_folder, lambda: None):
            self.plan(None, set())
            self.launch(tell, threading.Event())

    def stop(self) -> None:
        """End it in order: TERM, and KILL if it takes too long. Data stays."""
        record = self._records.get(self.name)
        processes.stop(record.pid, record.mark, grace_s=self.grace_s)

    def kill(self) -> None:
        """End it as a crash would, with SIGKILL; returns once it is gone."""
        record = self._records.get(self.name)
        if processes.send(record.pid, record.mark, signal.SIGKILL):
            processes.wait_gone(record.pid, record.mark, 10.0)

    def plan(self, wanted: int | None, taken: set[int]) -> None:
        """Settle the ports of a start: those asked for, else those it had, else free ones; adds them to `taken`.

        Raises:
            ServiceUnavailable: The clients' port belongs to another process.
            Refused: It runs, on another port than the one asked for.
        """
        had = self._records.get(self.name).ports
        if self.alive():
            if wanted is not None and wanted != self.port:
                raise Refused(f"{self.name} already runs on port {self.port}", "run `likes stack down` first")
            taken.update(had.values())
            return
        client = wanted or had.get("client") or ports.free_port(taken)
        if client in taken or not ports.is_free(client):
            remedy = f"end it, or choose another port with `likes stack up --{self.name}-port`"
            raise ServiceUnavailable(f"{self.name}: port {client} is taken by another process", remedy)
        taken.add(client)
        chosen = {"client": client}
        for purpose in self.internal_ports:
            # Nobody connects to these from outside, so they may change.
            old = had.get(purpose)
            chosen[purpose] = old if old and old not in taken and ports.is_free(old) else ports.free_port(taken)
            taken.add(chosen[purpose])
        if chosen != had:
            self._records.update(self.name, ports=chosen)

    def launch(self, progress: Progress, cancelled: threading.Event) -> None:
        """Start it if it is down, and wait until it answers.

        Raises:
            ServiceUnavailable: As `start`. A process that was started here has been ended then.
        """
        began, offset, is_ours = time.monotonic(), 0, False
        if not self.alive():
            self.folder.mkdir(parents=True, exist_ok=True)
            self.log.parent.mkdir(exist_ok=True)
            self.prepare(progress)
            began, offset = time.monotonic(), self.log.stat().st_size if self.log.exists() else 0
            progress(f"{self.name}: starting")
            pid = processes.start_detached(self.command(), log=self.log, folder=self.folder)
            self._records.update(self.name, process=(pid, processes.mark(pid) or "ended at once"))
            is_ours = True
        told = began
        while not self.ready():
            now = time.monotonic()
            if not self.alive() or now - began > START_DEADLINE_S:
                trouble = self._last_useful_line(offset)
                if is_ours:
                    self.kill()
                what = "did not start" if is_ours else "does not answer"
                raise ServiceUnavailable(f"{self.name} {what}: {trouble}", f"see {self.log}")
            if now - told >= _TELL_EVERY_S:
                told = now
                progress(f"{self.name}: still starting, {now - began:.0f} s")
            if cancelled.wait(_POLL_S):
                return
        progress(f"{self.name}: up in {time.monotonic() - began:.1f} s on {self.address}")

    def _internal_port(self, purpose: str) -> int:
        return self._records.get(self.name).ports[purpose]

    def _write_from_template(self, template: str, **values: object) -> Path:
        """Fill a template's `$names`; a name without a value is a bug and raises KeyError."""
        text = Template((TEMPLATES / template).read_text(encoding="utf-8")).substitute(
            {name: str(value) for name, value in values.items()}
        )
        file = self.folder / template
        file.write_text(text, encoding="utf-8")
        return file

    def _last_useful_line(self, offset: int) -> str:
        try:
            with self.log.open("rb") as opened:
                opened.seek(offset)
                text = opened.read().decode(errors="replace")
        except OSError:
            text = ""
        lines = [line.strip() for line in text.splitlines() if not _STACK_FRAME.match(line)]
        trouble = [line for line in lines if _TROUBLE.search(line)]
        return (trouble or lines or ["its log is empty"])[-1][:300]


def executable(*names: str) -> str | None:
    """The first of these programs that is on PATH."""
    return next((found for name in names if (found := shutil.which(name))), None)


def _ignore(_line: str) -> None:
    pass

"""Driving `likes job run` as an operator and as fate would: start it, watch it, kill, pause and resume it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import psutil

from connectors.cassandra import ensure_schema, open_session
from connectors.kafka import Publisher, content_key, ensure_topics
from deploy.flink.local_stack import Stack
from pipelines.settings import Settings
from tests.support import CLI, ROOT, FreshSettings, Likes, cli_environment, wait_until

# Short windows, so that a test sees many of them; little memory, for several jobs run beside each other.
QUICK: Mapping[str, object] = {
    "window_ms": 1_000,
    "checkpoint_interval_ms": 1_000,
    "managed_memory_mb": 128,
    "lease_ttl_s": 20,
}
# A run takes 15 s on a quiet machine, minutes on one that does other things besides.
START_S, RUN_S = 280.0, 280.0
_ENDED_S = 30.0
_numbers = itertools.count(1)


def quick_settings(fresh_settings: FreshSettings, **job: object) -> Settings:
    """Settings that nobody else has, with short windows; their topics and tables exist."""
    settings = fresh_settings(job={**QUICK, **job})
    ensure_topics(settings, 1)
    with open_session(settings) as session:
        ensure_schema(session, settings)
    return settings


def run_bounded(likes: Likes, settings: Settings, *arguments: str) -> dict[str, Any]:
    """Count to the topic's present end; returns what the run says of itself."""
    done = likes("job", "run", "--bounded", "--json", *arguments, settings=settings, timeout_s=RUN_S)
    assert done.returncode == 0, done.stderr
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


def publish(settings: Settings, values: Iterable[bytes | None]) -> None:
    """Put records on the log as producers do, keyed by their content id; returns once the broker has them."""
    with Publisher(settings, settings.kafka.events_topic) as publisher:
        for value in values:
            publisher.send(value, b"tombstone" if value is None else content_key(value))


class Trickle:
    """Publishes values in the background while the block lasts, a few at a time: the log is never at its end."""

    def __init__(self, settings: Settings, values: Iterable[bytes], *, per_second: int) -> None:
        self._settings = settings
        self._values = iter(values)
        self._chunk = max(per_second // 10, 1)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trickle", daemon=True)
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the log here."""
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with Publisher(self._settings, self._settings.kafka.events_topic) as publisher:
                while not self._stop.wait(0.1):
                    for value in itertools.islice(self._values, self._chunk):
                        publisher.send(value, content_key(value))
        except BaseException as error:  # noqa: BLE001 - handed to the test's thread
            self._error = error


class JobRun:
    """One `likes job run`: the client, and the JVM that it starts as its child, which holds the task manager.

    Whatever is left of it at the end of the block is killed.
    """

    def __init__(self, stack: Stack, settings: Settings, *arguments: str, **environment: str) -> None:
        self._arguments = arguments
        self._environment = cli_environment(stack, settings) | environment
        self.log = Path(settings.job.state_dir) / f"run-{next(_numbers)}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._seen: dict[int, psutil.Process] = {}

    def __enter__(self) -> Self:
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                [*CLI, "job", "run", *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env=self._environment,
                start_new_session=True,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def client(self) -> subprocess.Popen[bytes]:
        """The process of the command."""
        assert self._process is not None
        return self._process

    @property
    def said(self) -> str:
        """What it has printed so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def until(self, predicate: Callable[[], object], deadline_s: float = START_S, *, what: str = "") -> None:
        """Wait for something that the job does; fails with its words if it ends before."""

        def reached() -> bool:
            assert self.client.poll() is None, f"ended with {self.client.returncode}: {self.said}"
            return bool(predicate())

        wait_until(reached, deadline_s, what=what)

    def wait(self, deadline_s: float = START_S) -> int:
        """Wait for its end; returns the exit code."""
        try:
            return self.client.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"did not end within {deadline_s:g} s: {self.said}") from None

    def task_manager(self) -> psutil.Process:
        """The JVM."""
        found: list[psutil.Process] = wait_until(
            lambda: [process for process in self._children() if "java" in process.name()], START_S, what="the JVM"
        )
        return found[0]

    def kill_task_manager(self) -> None:
        """As the kernel does when memory is short."""
        self.task_manager().kill()

    def kill_client(self) -> None:
        """Ends the command alone; its JVM notices and goes too."""
        jvm = self.task_manager()
        self.client.kill()
        self.client.wait()
        wait_until(lambda: not jvm.is_running() or jvm.status() == psutil.STATUS_ZOMBIE, _ENDED_S, what="its JVM's end")

    def kill(self) -> None:
        """Ends all of it at once, as a power cut does."""
        processes = self._children()
        self.client.kill()
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.client.wait()
        psutil.wait_procs(processes, timeout=_ENDED_S)

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.client.send_signal(signal.SIGINT)

    def pause(self) -> None:
        """Stop everything, as a suspended machine does."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Go on from where `pause` was."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for process in self._children():
            process.send_signal(number)
        os.kill(self.client.pid, number)

    def _children(self) -> list[psutil.Process]:
        # Remembered, because a child whose parent is gone has another.
        if self.client.poll() is None:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._seen |= {p.pid: p for p in psutil.Process(self.client.pid).children(recursive=True)}
        return [process for process in self._seen.values() if process.is_running()]

"""What tests of several kinds share: waiting, and running the command line against the session's stack."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Protocol, TypeVar

from deploy.flink.local_stack import Stack
from deploy.flink.local_stack.paths import STACK_DIR_VARIABLE
from pipelines.settings import ENV_PREFIX, SERVICE_VARIABLES, Settings, to_environment

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[1]
# The installed command's equivalent: same interpreter, same entry point.
CLI = (sys.executable, "-m", "cli.main")


class FreshSettings(Protocol):
    """Makes settings whose topics, keyspace, database and state folder nobody else has; sections override."""

    def __call__(self, **sections: Mapping[str, object]) -> Settings: ...


class Likes(Protocol):
    """Runs `likes` to its end and returns exit code, stdout and stderr as text.

    `settings` reach it through its environment; without them it finds the session's stack by itself.
    """

    def __call__(
        self, *arguments: str, settings: Settings | None = None, stdin: bytes = b"", timeout_s: float = 180.0
    ) -> CompletedProcess[str]: ...


def wait_until(predicate: Callable[[], T], deadline_s: float = 30.0, *, what: str = "") -> T:
    """Poll until `predicate` returns something true, and return that; fail by name when the time is over."""
    deadline = time.monotonic() + deadline_s
    while not (found := predicate()):
        assert time.monotonic() < deadline, f"not within {deadline_s:g} s: {what or predicate!r}"
        time.sleep(0.05)
    return found


@contextmanager
def running_stack(folder: Path) -> Iterator[Stack]:
    """Kafka, Cassandra and Redis on free ports, with nothing in them; gone afterwards, whatever happens."""
    started = Stack(folder)
    try:
        started.up(print)
        yield started
    finally:
        started.down(purge=True)


def cli_environment(stack: Stack, settings: Settings | None = None) -> dict[str, str]:
    """This process's environment with nothing of the counter's in it but the stack's folder and these settings."""
    ours = {name for name in os.environ if name.startswith(ENV_PREFIX) and name != "LIKES_CACHE_DIR"}
    environment = {name: value for name, value in os.environ.items() if name not in ours | SERVICE_VARIABLES.keys()}
    environment[STACK_DIR_VARIABLE] = str(stack.folder)
    environment.pop("PYFLINK_GATEWAY_DISABLED", None)  # set in this process once it has run Python functions
    # A test's job is short: a JVM that starts soon beats one that is fast later.
    environment.setdefault("JVM_ARGS", "-Xmx1g -XX:+UseSerialGC -XX:TieredStopAtLevel=1")
    return environment | (to_environment(settings) if settings else {})

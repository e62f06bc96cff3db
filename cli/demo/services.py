"""The stack for as long as the demo lasts: what it had to start, it stops again, and nothing else."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deploy.flink.local_stack.jars import ensure_jars
from deploy.flink.local_stack.paths import STACK_DIR_VARIABLE
from pipelines.settings import ENV_PREFIX, SERVICE_VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from deploy.flink.local_stack import Stack
    from deploy.flink.local_stack.service import Service

    Tell = Callable[[str], None]

# A job that starts keeps the JIT compiler busy: 65 s of CPU time until it counts as it runs by default, 35 s so. A
# thousand events a second need no more.
_JVM_ARGS = "-Xmx2g -XX:+UseSerialGC -XX:TieredStopAtLevel=1"


@contextmanager
def running(stack: Stack, tell: Tell, ending: Callable[[], None]) -> Iterator[None]:
    """Start what is down, and stop just that at the end of the block, also if the start is interrupted or fails.

    Args:
        stack: Which.
        tell: Gets a line per step; called from several threads.
        ending: Called once, before the first service is stopped.

    Raises:
        ServiceUnavailable: A service or a download failed.
    """
    ours = [service for service in stack.services().values() if not service.alive()]
    try:
        ensure_jars("flink", tell)
        stack.up(tell)
        yield
    finally:
        ending()
        _stop([service for service in ours if service.alive()], tell)


def environment(stack: Stack, ambient: Mapping[str, str]) -> dict[str, str]:
    """The environment of the demo and its jobs: as it is, but with this stack's services whatever it says of others.

    A demo must not publish thousands of events into whatever KAFKA_BOOTSTRAP happens to name.
    """
    overruled = {f"{ENV_PREFIX}{section}_{key}".upper() for section, key in SERVICE_VARIABLES.values()}
    kept = {name: value for name, value in ambient.items() if name not in overruled}
    return {"JVM_ARGS": _JVM_ARGS} | kept | stack.env() | {STACK_DIR_VARIABLE: str(stack.folder)}


def others_named(stack: Stack) -> list[str]:
    """What the environment says of services that are not this stack's, as NAME=VALUE."""
    return [f"{name}={os.environ[name]}" for name, value in stack.env().items() if os.environ.get(name, value) != value]


def _stop(services: list[Service], tell: Tell) -> None:
    if not services:
        return
    with ThreadPoolExecutor(len(services)) as pool:
        for service, _ in zip(services, pool.map(lambda service: service.stop(), services), strict=True):
            tell(f"{service.name}: stopped")

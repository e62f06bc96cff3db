"""Processes that outlive the command that started them, and are still known for certain afterwards.

A pid alone is no identity: after a crash or a reboot it may be anybody's. So a process is recorded with a mark that
no other process shares, and everything here checks the mark before it signals.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

# Settings of the caller's shell that would change what our services do.
_NOT_INHERITED = (
    "KAFKA_",
    "CASSANDRA_",
    "REDIS_",
    "LIKES_",
    "JVM_",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "CLASSPATH",
)
_POLL_S = 0.05
# Our own children, kept so that the dead ones among them are reaped rather than linger as zombies.
_children: dict[int, subprocess.Popen[bytes]] = {}


def start_detached(command: Sequence[str], *, log: Path, folder: Path) -> int:
    """Start a program in a session of its own, so that neither Ctrl-C nor the caller's end reaches it.

    Args:
        command: Program and arguments.
        log: Gets stdout and stderr, appended.
        folder: Its working folder.

    Returns:
        Its pid.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=_environment(os.environ),
            start_new_session=True,
        )
    _children[process.pid] = process
    return process.pid


def mark(pid: int) -> str | None:
    """What tells this process from every other that has had or will have its pid; None when it does not run.

    On Linux the boot's id and the start in clock ticks after it, which no clock adjustment moves; elsewhere the time
    of creation.
    """
    child = _children.get(pid)
    if child and child.poll() is not None:
        _children.pop(pid, None)
    try:
        process = psutil.Process(pid)
        # The first thread of a killed process is a zombie while others still hold its files and ports. A child of ours
        # is gone when it has been reaped, no sooner.
        if child is None and process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1:
            return None
        boot = Path("/proc/sys/kernel/random/boot_id")
        if boot.exists():
            # proc_pid_stat(5): field 22 is starttime; field 2, in parentheses, may hold anything, hence the split.
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            return f"{boot.read_text(encoding='ascii').strip()}:{fields[19]}"
        return str(process.create_time())
    except (psutil.Error, OSError):
        return None


def is_running(pid: int, recorded: str) -> bool:
    """Whether the very process that was recorded still runs."""
    return mark(pid) == recorded


def send(pid: int, recorded: str, number: signal.Signals) -> bool:
    """Signal the recorded process; False when it does not run any more."""
    if not is_running(pid, recorded):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False


def stop(pid: int, recorded: str, *, grace_s: float) -> None:
    """End the recorded process: TERM, then KILL after the grace. Returns once it is gone."""
    if send(pid, recorded, signal.SIGTERM) and not wait_gone(pid, recorded, grace_s):
        send(pid, recorded, signal.SIGKILL)
        wait_gone(pid, recorded, 10.0)


def wait_gone(pid: int, recorded: str, timeout_s: float) -> bool:
    """Wait until the recorded process has ended; False when the time is over."""
    deadline = time.monotonic() + timeout_s
    while is_running(pid, recorded):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


def resident_mb(pid: int) -> int:
    """Resident memory in MiB; 0 when the process is gone."""
    try:
        return int(psutil.Process(pid).memory_info().rss >> 20)
    except psutil.Error:
        return 0


def _environment(ambient: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in ambient.items() if not name.startswith(_NOT_INHERITED)}

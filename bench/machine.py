"""What a figure was measured on, and the processor time that it took."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import psutil


def describe() -> dict[str, object]:
    """Cores, memory, versions and commit, with a + where files differ from it; of the processor only its model name."""
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "processor": _processor(),
        "python": platform.python_version(),
        "apache_flink": version("apache-flink"),
        "commit": _commit(),
    }


def cpu_s() -> float:
    """Seconds of processor time that this process and its children have used, the JVM among them."""
    me = psutil.Process()
    times = [process.cpu_times() for process in [me, *me.children(recursive=True)]]
    return sum(each.user + each.system for each in times)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    )
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--", ":(exclude)report.*", ":(exclude)plots"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
    )
    return (done.stdout.strip() or "unknown") + ("+" if changed.stdout.strip() else "")

"""Finding a Java 17: Flink 2.3 and Cassandra 5.0 both run on it, and Cassandra on nothing newer."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from pipelines.errors import ServiceUnavailable

VERSION = "17"
REMEDY = "install it: apt-get install openjdk-17-jdk-headless, or brew install openjdk@17; then set JAVA_HOME"


@cache
def java_home() -> Path:
    """The home of a Java 17: JAVA_HOME, else that of `java` on PATH, else where systems put theirs.

    Raises:
        ServiceUnavailable: There is none.
    """
    for home in _candidates():
        if _version(home / "bin" / "java") == VERSION:
            return home
    raise ServiceUnavailable(f"Java {VERSION} was not found", REMEDY)


def java() -> str:
    """The path of the `java` program of `java_home()`."""
    return str(java_home() / "bin" / "java")


def _candidates() -> Iterator[Path]:
    if named := os.environ.get("JAVA_HOME"):
        yield Path(named)
    if found := shutil.which("java"):
        yield Path(found).resolve().parent.parent
    for pattern in ("usr/lib/jvm/*17*", "opt/homebrew/opt/openjdk@17", "usr/local/opt/openjdk@17"):
        yield from sorted(Path("/").glob(pattern))


def _version(program: Path) -> str:
    """The major version, or an empty string when the program does not run."""
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    _, _, rest = done.stderr.partition('version "')
    return rest.split('"', maxsplit=1)[0].split(".")[0]

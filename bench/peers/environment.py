"""What peers run on: a virtual environment or verified jars for each, below the user's cache folder, made on demand.

`requirements/<peer>.in` says what a peer needs and `<peer>.txt` pins all of it with hashes; `jars/<name>/pom.xml` and
`<name>.lock` do that for Java. `python -m bench.peers.environment` makes everything; with `--relock` it resolves
afresh first (needs uv).
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from deploy.flink.local_stack.jars import ensure_jars, write_lock
from deploy.flink.local_stack.java import java
from deploy.flink.local_stack.paths import cache_dir
from deploy.flink.local_stack.records import locked
from pipelines.errors import ServiceUnavailable

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
REQUIREMENTS = HERE / "requirements"
JARS = HERE / "jars"
STREAMS = "kafka_streams"
_DONE = "complete"

Progress = Callable[[str], None]


def ensure_python(name: str, progress: Progress) -> Path:
    """The interpreter of a peer's virtual environment, installed if needed.

    Args:
        name: Of `requirements/<name>.txt`.
        progress: Gets a line when something is installed.

    Raises:
        ServiceUnavailable: Installing failed; the message has the last line of why.
    """
    requirements = REQUIREMENTS / f"{name}.txt"
    folder = cache_dir() / "peers" / f"{name}-{_digest(requirements)}"
    python = folder / "bin" / "python"
    with locked(folder, lambda: progress(f"{name}: waiting for another installation")):
        if not (folder / _DONE).exists():
            progress(f"{name}: installing {requirements.name}")
            _run(name, [sys.executable, "-m", "venv", "--clear", str(folder)])
            pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
            if uv := shutil.which("uv"):
                pip = [uv, "pip", "install", "--python", str(python)]
            _run(name, [*pip, "--quiet", "--no-deps", "--require-hashes", "-r", str(requirements)])
            (folder / _DONE).touch()
    return python


def ensure_streams(progress: Progress) -> list[str]:
    """The command of the Kafka Streams peer up to its arguments, its script compiled if needed.

    Raises:
        ServiceUnavailable: Maven or the compiler failed.
    """
    classpath = ":".join(str(jar) for jar in ensure_jars(STREAMS, progress, directory=JARS))
    script = PROGRAMS / f"{STREAMS}.groovy"
    folder = cache_dir() / "peers" / f"{STREAMS}-{_digest(script, JARS / f'{STREAMS}.lock')}"
    with locked(folder, lambda: progress(f"{STREAMS}: waiting for another compilation")):
        if not (folder / _DONE).exists():
            progress(f"{STREAMS}: compiling {script.name}")
            compiler = "org.codehaus.groovy.tools.FileSystemCompiler"
            _run(STREAMS, [java(), "-cp", classpath, compiler, "-d", str(folder), str(script)])
            (folder / _DONE).touch()
    options = ["-Xmx1g", "-XX:+ExitOnOutOfMemoryError", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    return [java(), *options, "-cp", f"{folder}:{classpath}", STREAMS]


def relock(progress: Progress) -> None:
    """Resolve every peer's requirements and jars afresh.

    Raises:
        ServiceUnavailable: uv or Maven failed.
    """
    for wanted in sorted(REQUIREMENTS.glob("*.in")):
        options = ["--generate-hashes", "--no-emit-index-url", "--universal", "--python-version", "3.11", "--quiet"]
        naming = ["--custom-compile-command", "python -m bench.peers.environment --relock", "--no-annotate"]
        target = ["--output-file", str(wanted.with_suffix(".txt")), "--upgrade"]
        _run(wanted.stem, ["uv", "pip", "compile", str(wanted), *options, *naming, *target])
    write_lock(STREAMS, progress, directory=JARS)


def _run(name: str, command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        last = done.stdout.strip().splitlines()[-1:]
        raise ServiceUnavailable(f"{name}: {Path(command[0]).name} failed: {' '.join(last)}")


def _digest(*files: Path) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def main() -> None:
    """Make everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--relock", action="store_true", help="resolve requirements and jars afresh first")

    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    if parser.parse_args().relock:
        relock(tell)
    for wanted in sorted(REQUIREMENTS.glob("*.txt")):
        ensure_python(wanted.stem, tell)
    ensure_streams(tell)


if __name__ == "__main__":
    main()

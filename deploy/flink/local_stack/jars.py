"""The Java artifacts: Maven resolves them, a lock says what they must be.

`deploy/flink/jars/<name>/pom.xml` names what is wanted and `<name>.lock` holds one line `sha256  filename` for every
jar that this resolves to. Jars live in `<cache dir>/jars/<name>-<hash of the lock>`, so clones share them and a changed
lock gets a folder of its own. Every call verifies every jar (0.2 s for all of them): a jar that does not match is
removed and never used.

`python -m deploy.flink.local_stack` fetches what is missing; with `--relock [NAME…]` it resolves the poms afresh and
writes the locks, which is the thing to do after a change of a pom (`make lock` does that too).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.flink.local_stack import paths
from deploy.flink.local_stack.java import java_home
from pipelines.errors import ServiceUnavailable

NAMES = ("kafka", "cassandra", "flink")
JARS_DIR = Path(__file__).resolve().parents[1] / "jars"
# Maven names every file that it downloads, its own plugins included; a line for each would bury the rest.
PROGRESS_EVERY_S = 2.0

Progress = Callable[[str], None]


def ensure_jars(name: str, progress: Progress | None = None, *, directory: Path | None = None) -> list[Path]:
    """The verified jars of one pom, downloaded if needed, sorted by file name.

    Args:
        name: One of `NAMES`, or of a pom in `directory`.
        progress: Gets a line now and then while something is downloaded.
        directory: Where the poms and locks are; default: `JARS_DIR`.

    Raises:
        ServiceUnavailable: Maven is missing or fails, or a jar is not what the lock says; that jar has been removed.
    """
    directory = directory or JARS_DIR
    wanted = read_lock(name, directory)
    folder = _folder(name, directory)
    if not folder.is_dir():
        with _scratch(folder.parent) as scratch:
            _resolve(directory / name / "pom.xml", scratch, len(wanted), progress or _ignore)
            _verify(name, wanted, scratch)
            _move(scratch, folder)
    return _verify(name, wanted, folder)


def read_lock(name: str, directory: Path | None = None) -> dict[str, str]:
    """The locked sha256 by file name."""
    lines = ((directory or JARS_DIR) / f"{name}.lock").read_text(encoding="ascii").splitlines()
    return {file: digest for digest, file in (line.split() for line in lines if not line.startswith("#"))}


def write_lock(name: str, progress: Progress, *, directory: Path | None = None) -> int:
    """Resolve one pom and write its lock; returns how many jars that is."""
    directory = directory or JARS_DIR
    with _scratch(paths.cache_dir() / "jars") as scratch:
        _resolve(directory / name / "pom.xml", scratch, 0, progress)
        jars = sorted(scratch.glob("*.jar"))
        lines = [f"# jars of {name}/pom.xml: sha256  filename", *(f"{_sha256(jar)}  {jar.name}" for jar in jars)]
        (directory / f"{name}.lock").write_text("\n".join(lines) + "\n", encoding="ascii")
        _move(scratch, _folder(name, directory))
    return len(jars)


def _folder(name: str, directory: Path) -> Path:
    digest = hashlib.sha256((directory / f"{name}.lock").read_bytes()).hexdigest()
    return paths.cache_dir() / "jars" / f"{name}-{digest[:16]}"


def _verify(name: str, wanted: dict[str, str], folder: Path) -> list[Path]:
    found = []
    for file, digest in sorted(wanted.items()):
        jar = folder / file
        # The whole folder goes, so that the next run fetches it whole.
        if not jar.is_file():
            _discard(folder)
            raise ServiceUnavailable(f"{name} jars: {file} is missing from {folder}", "run the command again")
        if _sha256(jar) != digest:
            _discard(folder)
            raise ServiceUnavailable(
                f"{name} jars: {file} does not have the locked checksum; it was removed",
                "run the command again; if it repeats, remove that file from the local Maven repository as well",
            )
        found.append(jar)
    return found


def _discard(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _resolve(pom: Path, into: Path, expected: int, progress: Progress) -> None:
    name = pom.parent.name
    maven = shutil.which("mvn")
    if maven is None:
        raise ServiceUnavailable("Maven (mvn) was not found", "apt-get install maven, or brew install maven")
    progress(f"{name} jars: resolving with Maven")
    command = [maven, "--batch-mode", "--file", str(pom), "dependency:copy-dependencies"]
    options = ["-DincludeScope=runtime", f"-DoutputDirectory={into}", "-Dmdep.overWriteReleases=true"]
    environment = os.environ | {"JAVA_HOME": str(java_home())}
    started, told, files, problem = time.monotonic(), time.monotonic(), 0, ""
    with subprocess.Popen(
        [*command, *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    ) as process:
        for line in process.stdout or ():
            if "Downloaded from" in line:
                files += 1
            elif "ERROR" in line and not problem:
                problem = line.replace("[ERROR]", "").strip()
            if time.monotonic() - told >= PROGRESS_EVERY_S:
                told = time.monotonic()
                progress(f"{name} jars: {files} files fetched, {told - started:.0f} s")
    if process.returncode != 0:
        raise ServiceUnavailable(f"{name} jars: Maven failed: {problem}", "check the network, then run it again")
    copied = len(list(into.glob("*.jar")))
    progress(f"{name} jars: {copied}{f' of {expected}' if expected else ''} in {time.monotonic() - started:.0f} s")


@contextmanager
def _scratch(parent: Path) -> Iterator[Path]:
    """A folder beside its destination, so that a half-made download is never taken for a whole one."""
    parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".incomplete-", dir=parent))
    try:
        yield scratch
    finally:
        _discard(scratch)


def _move(scratch: Path, folder: Path) -> None:
    try:
        scratch.rename(folder)
    except OSError:
        # Somebody else was faster; theirs is verified like ours.
        if not folder.is_dir():
            raise


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _ignore(_line: str) -> None:
    pass

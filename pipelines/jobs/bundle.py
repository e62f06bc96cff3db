"""What a cluster's Python workers need from us: our packages and the libraries of the store step, in one folder.

Copied from this environment, which the lock file fixed, so nothing is resolved or downloaded on the way. The cluster's
interpreter must be the same Python version and have apache-flink itself.
"""

from __future__ import annotations

import hashlib
import shutil
from contextlib import suppress
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from deploy.flink.local_stack.paths import cache_dir

if TYPE_CHECKING:
    from collections.abc import Callable

OUR_PACKAGES = ("pipelines", "connectors", "schemas", "deploy")
LIBRARIES = ("cassandra-driver", "redis", "kafka-python", "tenacity", "pydantic", "orjson")
_ROOT = Path(__file__).resolve().parents[2]


def python_bundle(tell: Callable[[str], None]) -> Path:
    """The folder, made if our code or a library has changed since."""
    libraries = _closure(LIBRARIES)
    ours = sorted(
        file for package in OUR_PACKAGES for file in (_ROOT / package).rglob("*") if file.is_file() and _ships(file)
    )
    digest = hashlib.sha256()
    for library in libraries:
        digest.update(f"{library.name}=={library.version}\n".encode())
    for file in ours:
        digest.update(str(file.relative_to(_ROOT)).encode() + b"\0" + file.read_bytes())
    folder = cache_dir() / f"bundle-{digest.hexdigest()[:16]}"
    if not folder.is_dir():
        tell(f"bundling     {len(libraries)} libraries and our code for the cluster")
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(mkdtemp(prefix=".incomplete-", dir=folder.parent))
        try:
            for file in ours:
                _copy(file, scratch / file.relative_to(_ROOT))
            for library in libraries:
                _copy_library(library, scratch)
            with suppress(OSError):  # somebody else was quicker
                scratch.rename(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return folder


def _copy_library(library: Distribution, to: Path) -> None:
    for part in library.files or ():
        source = Path(str(library.locate_file(part)))
        if ".." not in part.parts and source.is_file() and _ships(source):
            _copy(source, to / part)


def _ships(file: Path) -> bool:
    return "__pycache__" not in file.parts and file.suffix != ".pyc"


def _copy(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, to)


def _closure(names: tuple[str, ...]) -> list[Distribution]:
    """The named distributions and what they require here, sorted by name."""
    found: dict[str, Distribution] = {}
    pending = list(names)
    while pending:
        name = pending.pop().lower().replace("_", "-")
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue  # an optional requirement that is not installed
        for text in found[name].requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                pending.append(requirement.name)
    return [found[name] for name in sorted(found)]

"""Where the local stack keeps its things. Nothing here creates a folder."""

from __future__ import annotations

import os
from pathlib import Path

STACK_DIR_VARIABLE = "LIKES_STACK_DIR"
# Signs the development tokens of the stack; made by whoever needs it first.
TOKEN_SECRET_FILE = "dev-token-secret"  # noqa: S105  a file's name
CACHE_DIR_VARIABLE = "LIKES_CACHE_DIR"
# The package may run from a wheel, so this is only trusted once it is seen to be a clone.
_CHECKOUT = Path(__file__).resolve().parents[3]


def repository_root(start: Path | None = None) -> Path | None:
    """The clone that `start` (default: the current folder) is in, else the one this code runs from, else None."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents, _CHECKOUT):
        if (folder / "pyproject.toml").is_file() and (folder / "deploy" / "flink" / "local_stack").is_dir():
            return folder
    return None


def stack_dir() -> Path:
    """LIKES_STACK_DIR, or `.stack` in the clone, or `likes-counter` under XDG_STATE_HOME."""
    if named := os.environ.get(STACK_DIR_VARIABLE):
        return Path(named).expanduser().resolve()
    if root := repository_root():
        return root / ".stack"
    return _xdg("XDG_STATE_HOME", ".local/state")


def cache_dir() -> Path:
    """LIKES_CACHE_DIR, or `likes-counter` under XDG_CACHE_HOME: what can be downloaded again."""
    if named := os.environ.get(CACHE_DIR_VARIABLE):
        return Path(named).expanduser().resolve()
    return _xdg("XDG_CACHE_HOME", ".cache")


def _xdg(variable: str, default: str) -> Path:
    base = os.environ.get(variable) or str(Path.home() / default)
    return Path(base) / "likes-counter"

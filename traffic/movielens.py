"""MovieLens 100K as a reaction log: 943 people's ratings of 1682 films, from September 1997 to April 1998.

The recbole wheel carries the data. Its licence (GroupLens, University of Minnesota) allows research and forbids passing
the data on, so the wheel is fetched when somebody wants it, kept in the cache folder, and never copied elsewhere.
F. M. Harper, J. A. Konstan: "The MovieLens Datasets: History and Context", ACM TiiS 5, 4 (2015), doi 10.1145/2827872.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pipelines.errors import BadInput, ServiceUnavailable
from traffic.replay import TimedLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

RATINGS = 100_000
_REQUIREMENT = "recbole==1.2.1"
WHEEL = "recbole-1.2.1-py3-none-any.whl"
_SHA256 = "9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407"
_FOLDER = "recbole/dataset_example/ml-100k"
_DOWNLOAD_S = 300


class Rating(NamedTuple):
    """One line of the data.

    Fields:
        user: Id as text, "1" to "943".
        item: Id of a film as text, "1" to "1682".
        rating: 1 to 5.
        timestamp_s: Seconds since the epoch.
    """

    user: str
    item: str
    rating: int
    timestamp_s: int

    @property
    def action(self) -> str:
        """What the rating is as a reaction: 4 and 5 LIKE, 3 UNLIKE, 1 and 2 DISLIKE."""
        return "LIKE" if self.rating >= 4 else "UNLIKE" if self.rating == 3 else "DISLIKE"


def fetch_wheel(cache: Path, tell: Callable[[str], None]) -> Path:
    """The wheel in the cache folder, downloaded by pip if it is not there yet.

    Args:
        cache: Folder for what can be downloaded again; made if missing.
        tell: Gets a line before a download.

    Raises:
        BadInput: What the index serves is not the wheel that we know.
        ServiceUnavailable: pip is missing or cannot download it.
    """
    wheel = cache / "movielens" / WHEEL
    if not wheel.is_file() or _digest(wheel) != _SHA256:
        tell(f"movielens: downloading {_REQUIREMENT}, 2 MB, which carries the data, to {wheel.parent}")
        wheel.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=wheel.parent) as scratch:
            _download(Path(scratch), wheel.parent)
            downloaded = Path(scratch) / WHEEL
            if (found := _digest(downloaded)) != _SHA256:
                raise BadInput(f"{WHEEL} has sha256 {found}, not {_SHA256}", "use another package index")
            downloaded.replace(wheel)
    return wheel


def read_ratings(wheel: Path) -> list[Rating]:
    """All ratings in order of time, those of one second in the file's order."""
    ratings = []
    for user, item, rating, timestamp in _rows(wheel, "ml-100k.inter"):
        ratings.append(Rating(user, item, int(rating), int(timestamp)))
    return sorted(ratings, key=lambda rating: rating.timestamp_s)


def read_titles(wheel: Path) -> dict[str, str]:
    """The films' titles by item id."""
    return {row[0]: row[1] for row in _rows(wheel, "ml-100k.item")}


def events(ratings: Sequence[Rating], now_ms: int) -> Iterator[TimedLine]:
    """Ratings as events: content_id is the film's id and user_id the user's, as they are in the data; no region.

    Args:
        ratings: In order of time.
        now_ms: When the last one happened, milliseconds since the epoch; the others keep their distances.
    """
    shift_ms = now_ms - ratings[-1].timestamp_s * 1000 if ratings else 0
    for rating in ratings:
        at_ms = rating.timestamp_s * 1000 + shift_ms
        fields = {"content_id": rating.item, "user_id": rating.user, "action": rating.action, "event_time": at_ms}
        yield TimedLine(at_ms, json.dumps(fields, separators=(",", ":")).encode())


def _rows(wheel: Path, name: str) -> Iterator[list[str]]:
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"{_FOLDER}/{name}").decode()
    # The first line names the columns.
    return (line.split("\t") for line in text.splitlines()[1:])


def _download(into: Path, shown: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--only-binary", ":all:", "--retries", "2", "--dest", str(into), _REQUIREMENT]
    remedy = f"connect to a Python package index, or put {WHEEL} into {shown}"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DOWNLOAD_S, check=False)
    except subprocess.TimeoutExpired:
        raise ServiceUnavailable(f"{_REQUIREMENT} was not downloaded in {_DOWNLOAD_S} s", remedy) from None
    if done.returncode:
        reason = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "pip failed")
        raise ServiceUnavailable(f"{_REQUIREMENT} cannot be downloaded: {reason.removeprefix('ERROR: ')}", remedy)
    if not (into / WHEEL).is_file():
        raise ServiceUnavailable(f"{_REQUIREMENT} was downloaded, but not as {WHEEL}", remedy)


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()

"""Flink's embedded MiniCluster for tests: logs are files, and a recording function stands in for the stores."""

from __future__ import annotations

import base64
import json
import os
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
from pyflink.java_gateway import get_gateway
from pyflink.table import TableEnvironment
from pyflink.table.udf import FunctionContext, ScalarFunction

from pipelines.domain.counter import PnCount
from pipelines.domain.counting import Reactions, Record, Registers
from pipelines.domain.version import Version
from pipelines.jobs import flink
from pipelines.jobs.saved_state import SavedState, StateFolders
from pipelines.settings import EventSettings, JobSettings
from pipelines.steps import sql
from pipelines.steps.read import COLUMNS, LIKE_EVENTS
from pipelines.steps.touch import NOBODY
from tests.property.strategies import RULES

Source = Callable[[TableEnvironment], None]

RULE_SETTINGS = EventSettings(regions=RULES.regions, home_region=RULES.home_region)
GENERATION = 3
DISCARD: Mapping[str, str] = {"connector": "blackhole"}
# A bundle ends when it is full or when the log does; the clock never ends one.
BOUNDED = JobSettings(state_backend="hashmap", managed_memory_mb=64, window_ms=600_000, checkpoint_interval_ms=600_000)
# As in production, only faster.
UNBOUNDED = JobSettings(state_backend="hashmap", managed_memory_mb=64, window_ms=300, checkpoint_interval_ms=300)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class MiniCluster:
    """Makes environments in this process's one JVM, configured as the real job is.

    Args:
        folder: For logs and scratch files.
    """

    def __init__(self, folder: Path) -> None:
        self._target = flink.Target("http://127.0.0.1:0", True, folder / "logs", folder / "scratch")

    def environment(
        self,
        folders: StateFolders,
        job: JobSettings = BOUNDED,
        *,
        parallelism: int = 1,
        restore: SavedState | None = None,
        jars: Sequence[Path] = (),
    ) -> TableEnvironment:
        options = flink.configuration(
            job, name="test", run=uuid.uuid4().hex, parallelism=parallelism, jars=jars, folders=folders, restore=restore
        )
        options |= flink.embedded_options(job, self._target)
        options["restart-strategy.exponential-delay.initial-backoff"] = "100 ms"
        return flink.environment(options, self._target)


# Logs


def write_log(file: Path, records: Iterable[Record]) -> None:
    """Write records as a file that a source reads whole or not at all."""
    hidden = file.with_name(f".{file.name}")
    with hidden.open("w", encoding="ascii") as out:
        for topic, partition, offset, timestamp_ms, value in records:
            line = {
                "value": None if value is None else base64.b64encode(value).decode(),
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "broker_time": (_EPOCH + timedelta(milliseconds=timestamp_ms)).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            }
            out.write(json.dumps(line) + "\n")
    hidden.rename(file)


def log_in(folder: Path, *, grows: bool = False) -> Source:
    """The table `like_events` over the files of a folder; one that grows is read for ever."""
    # What is metadata in Kafka is a column in the files.
    columns = re.sub(r" METADATA( FROM '\w+')? VIRTUAL", "", COLUMNS)
    connector = {
        "connector": "filesystem",
        "path": folder.as_uri(),
        "format": "json",
        "json.timestamp-format.standard": "ISO-8601",
    }
    if grows:
        connector["source.monitor-interval"] = "50 ms"

    def source(env: TableEnvironment) -> None:
        env.execute_sql(f"CREATE TEMPORARY TABLE {LIKE_EVENTS} ({columns}) WITH ({sql.options(connector)})")

    return source


# What a job leaves behind


def kept_in(folder: Path, kind: str = "json") -> dict[str, str]:
    """A sink that keeps its rows as files; `debezium-json` takes updates, `json` takes only inserts."""
    return {"connector": "filesystem", "path": folder.as_uri(), "format": kind}


def kept(folder: Path) -> Iterator[dict[str, Any]]:
    """The rows of `kept_in`, files in no particular order."""
    for part in folder.glob("part-*"):
        yield from map(json.loads, filter(None, part.read_text(encoding="utf-8").split("\n")))


def folded(folder: Path) -> Registers:
    """The registers that a changelog of (content_id, user_id, register) comes to, whatever the order of its files.

    Without touches.
    """
    rows: Counter[tuple[str, str, int]] = Counter()
    for change in kept(folder):
        is_in = change["op"] == "c"
        row = change["after" if is_in else "before"]
        rows[row["content_id"], row["user_id"], row["register"]] += 1 if is_in else -1
    assert set(rows.values()) <= {0, 1}, "a row was taken back that was not there, or given twice"
    registers: Registers = {}
    for content_id, user_id, register in +rows:
        if user_id.startswith(NOBODY):
            continue
        users = registers.setdefault(content_id, {})
        assert user_id not in users, f"two registers of {user_id} on {content_id}"
        users[user_id] = register
    return registers


@dataclass(frozen=True, slots=True)
class Stored:
    """One total as the job asked to store it; `version` is what the function answered."""

    content_id: str
    region: str
    pn: PnCount
    changes: int
    as_of_ms: int
    version: int

    @property
    def row(self) -> tuple[str, str]:
        return self.content_id, self.region


class RecordTotals(ScalarFunction):
    """Stands in for `StoreTotals`: appends every total to a file, under versions with an epoch of its own.

    Args:
        file: Where to. Beside it lie the epochs taken, and the order to fail once.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._fail = file.with_suffix(".fail")
        self._epoch = 0

    def is_deterministic(self) -> bool:
        return False

    def open(self, function_context: FunctionContext) -> None:  # noqa: ARG002 - Flink's signature
        self._epoch = _append(self._file.with_suffix(".epochs"), b".")

    def eval(self, *columns: pd.Series[Any]) -> pd.Series[int]:
        if any(column.dtype != "int64" for column in columns[2:]):
            raise TypeError(f"not 64-bit: {[column.dtype for column in columns]}")
        lines, versions = [], []
        for content_id, region, *numbers in zip(*(column.tolist() for column in columns), strict=True):
            versions.append(Version(GENERATION, self._epoch, numbers[4]).pack())
            lines.append(json.dumps([content_id, region, *numbers, versions[-1]]) + "\n")
        _append(self._file, "".join(lines).encode())
        self._fail_if_told()
        return pd.Series(versions, dtype="int64")

    def fail_once(self) -> None:
        """Make whichever subtask stores next fail after it has stored, before Flink knows."""
        self._fail.touch()

    def _fail_if_told(self) -> None:
        with suppress(FileNotFoundError):
            self._fail.unlink()
            raise OSError("told to fail")

    def epochs(self) -> int:
        """How often a subtask has started."""
        return self._file.with_suffix(".epochs").stat().st_size

    def stored(self) -> list[Stored]:
        """Everything that was stored, in order."""
        text = self._file.read_text(encoding="utf-8") if self._file.exists() else ""
        whole = text[: text.rfind("\n") + 1].splitlines()
        return [
            Stored(content_id, region, PnCount(*parts), changes, as_of_ms, version)
            for content_id, region, *parts, changes, as_of_ms, version in map(json.loads, whole)
        ]

    def totals(self) -> dict[tuple[str, str], Reactions]:
        """What a store would hold: per content and region the newest version; zeros left out.

        Asserts that no total that was ever stored is negative.
        """
        newest: dict[tuple[str, str], Stored] = {}
        for stored in self.stored():
            assert stored.pn.likes >= 0 <= stored.pn.dislikes, stored
            newest[stored.row] = max(newest.get(stored.row, stored), stored, key=lambda each: each.version)
        return nonzero({row: Reactions(total.pn.likes, total.pn.dislikes) for row, total in newest.items()})


def nonzero(totals: Mapping[tuple[str, str], Reactions]) -> dict[tuple[str, str], Reactions]:
    """Without the rows that users have left."""
    return {row: total for row, total in totals.items() if total != Reactions()}


def stop(client: Any, folder: Path) -> None:  # noqa: ANN401 - PyFlink has no types
    """Stop a job with a savepoint; returns when it is written."""
    # PyFlink's own method calls one that Flink 2.3 no longer has.
    kind = get_gateway().jvm.org.apache.flink.core.execution.SavepointFormatType.NATIVE
    client._j_job_client.stopWithSavepoint(False, folder.as_uri(), kind).get()


def _append(file: Path, content: bytes) -> int:
    """Append at once, whoever else does; returns where that ends."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, content)
        return os.lseek(descriptor, 0, os.SEEK_CUR)
    finally:
        os.close(descriptor)

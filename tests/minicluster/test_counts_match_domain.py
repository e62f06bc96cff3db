"""Law: whatever the order, repetition, files, bundles and parallelism, the plan counts what the domain counts.

The whole job runs, with one sink more that keeps the registers. A log holds dozens of contents, so one run is as many
cases.
"""

from __future__ import annotations

import random
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from pipelines import like_counts
from pipelines.domain.counting import Record, count
from pipelines.jobs.saved_state import StateFolders
from pipelines.sinks import Sinks
from pipelines.steps import sql
from pipelines.steps.dedup import REGISTERS
from tests.minicluster.collisions import some_log
from tests.minicluster.support import (
    BOUNDED,
    DISCARD,
    GENERATION,
    RULE_SETTINGS,
    MiniCluster,
    RecordTotals,
    folded,
    kept,
    kept_in,
    log_in,
    nonzero,
    write_log,
)
from tests.property.strategies import RULES

pytestmark = pytest.mark.minicluster


@pytest.mark.parametrize(
    ("seed", "parallelism", "bundle_rows", "partitions"),
    [(1, 1, 1, 1), (2, 2, 7, 4), (3, 2, 100_000, 3)],
)
def test_any_log(
    cluster: MiniCluster,
    folders: StateFolders,
    tmp_path: Path,
    seed: int,
    parallelism: int,
    bundle_rows: int,
    partitions: int,
) -> None:
    log = some_log(random.Random(seed), 1_000, partitions)
    (tmp_path / "log").mkdir()
    for partition, records in enumerate(log):
        write_log(tmp_path / "log" / f"{partition}.json", records)

    env = cluster.environment(
        folders, BOUNDED.model_copy(update={"mini_batch_rows": bundle_rows}), parallelism=parallelism
    )
    function = RecordTotals(tmp_path / "totals")
    sinks = Sinks(DISCARD, kept_in(tmp_path / "dead_letters"))
    job = like_counts.build(env, log_in(tmp_path / "log"), sinks, RULE_SETTINGS, function, GENERATION)
    env.execute_sql(
        "CREATE TEMPORARY TABLE kept_registers (content_id STRING, user_id STRING, register BIGINT) WITH ("
        f"{sql.options(kept_in(tmp_path / 'registers', 'debezium-json'))})"
    )
    job.add_insert_sql(f"INSERT INTO kept_registers SELECT * FROM {REGISTERS}")
    job.execute().wait()

    truth = count(chain.from_iterable(log), RULES)
    assert truth.dead_letters
    assert len(nonzero(truth.totals)) > 50
    assert folded(tmp_path / "registers") == truth.registers
    assert function.totals() == nonzero(truth.totals), disagreement(function, log)
    assert sorted(kept(tmp_path / "dead_letters"), key=identity) == sorted(
        (letter.to_message() for letter in truth.dead_letters), key=identity
    )


def identity(message: dict[str, Any]) -> tuple[int, int]:
    return message["partition"], message["offset"]


def disagreement(function: RecordTotals, log: list[list[Record]]) -> str:
    """What to look at: one content of those that differ, its records and all that was stored of it."""
    truth, found = nonzero(count(chain.from_iterable(log), RULES).totals), function.totals()
    content_id = min(row[0] for row in truth.keys() | found.keys() if truth.get(row) != found.get(row))
    own = [record for record in chain.from_iterable(log) if f'"{content_id}"'.encode() in (record.value or b"")]
    return "\n".join(map(str, [*own, *(stored for stored in function.stored() if stored.content_id == content_id)]))

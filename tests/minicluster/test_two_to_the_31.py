"""A counter that stands at 2 147 483 640 goes past 2^31 exactly, as a famous video once did."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.jobs.saved_state import StateFolders
from pipelines.steps import sql
from pipelines.steps.changes import CHANGES
from pipelines.steps.count import TOTALS, count
from pipelines.steps.store import COUNTS, store
from tests.minicluster.support import BOUNDED, DISCARD, GENERATION, MiniCluster, RecordTotals
from tests.property.strategies import FIRST_MS

pytestmark = pytest.mark.minicluster

START, LATER = 2_147_483_640, 20
NUMBERS = ("likes_p", "likes_n", "dislikes_p", "dislikes_n", "changes", "as_of_ms")


def test_the_count_passes_it_one_by_one(cluster: MiniCluster, folders: StateFolders, tmp_path: Path) -> None:
    env = cluster.environment(folders, BOUNDED.model_copy(update={"mini_batch_rows": 1}))
    deltas = [START] + [1] * LATER
    rows = ", ".join(f"('v1', 'us', {likes}, 0, {likes}, {likes}, {FIRST_MS + at})" for at, likes in enumerate(deltas))
    names = "content_id, region, likes_p, likes_n, dislikes_p, dislikes_n, event_ms"
    wide = ", ".join(f"CAST({name} AS BIGINT) AS {name}" for name in names.split(", ")[2:])
    sql.view(env, CHANGES, f"SELECT content_id, region, {wide} FROM (VALUES {rows}) AS t ({names})")
    count(env)
    function = RecordTotals(tmp_path / "totals")
    env.execute_sql(store(env, function, GENERATION, DISCARD)).wait()

    likes = [stored.pn.likes_p for stored in function.stored()]
    assert likes == list(range(START, START + LATER + 1))
    last = function.stored()[-1]
    assert (last.pn.likes, last.pn.dislikes_p, last.pn.dislikes_n) == (2_147_483_660,) * 3
    assert (last.changes, last.as_of_ms) == (LATER + 1, FIRST_MS + LATER)

    for table, columns in ((TOTALS, NUMBERS), (COUNTS, (*NUMBERS[:4], "version", "as_of_ms"))):
        schema = env.from_path(table).get_schema()
        assert {str(schema.get_field_data_type(name)).removesuffix(" NOT NULL") for name in columns} == {"BIGINT"}

"""Law: a flush stores each total that it changed exactly once; the store function runs in one place of the plan."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from pipelines import like_counts
from pipelines.domain.counter import PnCount, changes
from pipelines.domain.counting import RegionCount, State, apply
from pipelines.domain.events import LikeEvent
from pipelines.domain.register import EMPTY, Reaction, pack
from pipelines.jobs.saved_state import StateFolders
from pipelines.sinks import Sinks
from tests.minicluster.collisions import records, some_events, value_of
from tests.minicluster.support import (
    BOUNDED,
    DISCARD,
    GENERATION,
    RULE_SETTINGS,
    MiniCluster,
    RecordTotals,
    Stored,
    log_in,
    write_log,
)
from tests.property.strategies import FIRST_MS, RULES

pytestmark = pytest.mark.minicluster


def run(
    cluster: MiniCluster, folders: StateFolders, folder: Path, events: list[LikeEvent], bundle_rows: int
) -> list[Stored]:
    (folder / "log").mkdir()
    write_log(folder / "log" / "0.json", records(value_of(event, random.Random(0)) for event in events))
    env = cluster.environment(folders, BOUNDED.model_copy(update={"mini_batch_rows": bundle_rows}))
    function = RecordTotals(folder / "totals")
    sinks = Sinks(DISCARD, DISCARD)
    like_counts.build(env, log_in(folder / "log"), sinks, RULE_SETTINGS, function, GENERATION).execute().wait()
    return function.stored()


def test_one_bundle_stores_what_the_domain_says_once(
    cluster: MiniCluster, folders: StateFolders, tmp_path: Path
) -> None:
    """Touched rows too, and with the same changes and as_of."""
    events = [at_home(event) if event.content_id < "v2" else event for event in some_events(random.Random(9), 500)]
    stored = run(cluster, folders, tmp_path, events, bundle_rows=100_000)
    _, changed = apply(State(), events, RULES)

    last = {each.row: RegionCount(each.pn, each.changes, each.as_of_ms) for each in stored}
    assert last == changed
    assert max(Counter(each.row for each in stored).values()) == 1


def at_home(event: LikeEvent) -> LikeEvent:
    return event._replace(register=pack(event.event_time_ms, event.reaction, RULES.home))


def test_bundles_of_one_row_store_every_change_once_in_order(
    cluster: MiniCluster, folders: StateFolders, tmp_path: Path
) -> None:
    reactions = random.Random(9).choices(list(Reaction), k=60)
    taps = [pack(FIRST_MS + at, reaction, RULES.home) for at, reaction in enumerate(reactions)]
    stored = run(cluster, folders, tmp_path, [LikeEvent("v1", "u1", tap) for tap in taps], bundle_rows=1)

    expected: list[tuple[PnCount, int]] = []
    pn = PnCount()
    for old, new in zip([EMPTY, *taps], taps, strict=False):
        for change in changes(old, new):
            pn = pn.plus(change.delta)
            expected.append((pn, len(expected) + 1))
    assert [(each.pn, each.changes) for each in stored] == expected

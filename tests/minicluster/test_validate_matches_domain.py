"""Law: `validate` says of every record exactly what `pipelines.domain.events.parse` says."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from pipelines.domain.counting import Record
from pipelines.domain.events import REASONS, LikeEvent, Rules, parse
from pipelines.jobs.saved_state import StateFolders
from pipelines.settings import EventSettings
from pipelines.steps.usual import USUAL
from pipelines.steps.validate import CHECKED, validate
from schemas import golden_events
from tests.minicluster.fuzz import hostile_values, huge_values
from tests.minicluster.support import MiniCluster, log_in, write_log
from tests.property.strategies import FIRST_MS

pytestmark = pytest.mark.minicluster

SETTINGS, RULES = EventSettings(), Rules()


def test_every_record(cluster: MiniCluster, folders: StateFolders, tmp_path: Path) -> None:
    golden = [*golden_events("valid"), *golden_events("invalid")]
    values: list[tuple[bytes | None, int]] = [(event.value, event.timestamp_ms) for event in golden]
    values += [(value, FIRST_MS) for value in huge_values(SETTINGS.max_record_bytes)]
    values += [(value, FIRST_MS + 7) for value in hostile_values(random.Random(1), 6_000)]
    (tmp_path / "log").mkdir()
    log = [Record("like-events", 0, offset, timestamp_ms, value) for offset, (value, timestamp_ms) in enumerate(values)]
    write_log(tmp_path / "log" / "0.json", log)

    env = cluster.environment(folders)
    log_in(tmp_path / "log")(env)
    validate(env, SETTINGS)
    query = f"SELECT `offset`, reason, broker_ms, content_id, user_id, register FROM {CHECKED}"
    with env.sql_query(query).execute().collect() as rows:
        said = {row[0]: tuple(row)[1:] for row in rows}

    wrong = []
    for record in log:
        expected = in_domain(record)
        found = said[record.offset]
        if (found[:2] if found[0] is not None else found) != expected:
            wrong.append(f"{record.value!r:.300}\n  domain {expected}\n  plan   {found}")
    assert not wrong, f"{len(wrong)} of {len(log)}:\n" + "\n".join(wrong[:10])
    assert len(said) == len(log)
    with env.sql_query(f"SELECT `offset` FROM {USUAL} WHERE proved").execute().collect() as rows:
        usual = {row[0] for row in rows}
    # The log is worth reading only if it has everything in it.
    reasons = Counter(row[0] for row in said.values())
    assert reasons.keys() == {None, *REASONS}
    assert len(log) / 10 < len(usual) < reasons[None]
    assert reasons[None] > len(log) / 4


def in_domain(record: Record) -> tuple[object, ...]:
    parsed = parse(record.value, record.timestamp_ms, RULES)
    if not isinstance(parsed, LikeEvent):
        return parsed.reason, record.timestamp_ms
    return None, record.timestamp_ms, parsed.content_id, parsed.user_id, parsed.register

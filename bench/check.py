"""Comparing what was counted with the truth, completely, before a rate is printed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from connectors import kafka
from connectors.cassandra import ContentStats, open_session
from connectors.redis import RedisCounts
from pipelines.domain.counter import summed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pipelines.domain.counter import RegionTotal
    from pipelines.settings import Settings

_PAGE = 1_000


def stored(settings: Settings, generation: int = 1) -> dict[str, tuple[int, int]]:
    """(likes, dislikes) by content as Cassandra has them; asserts that Redis has the same and misses none."""
    rows: dict[str, list[RegionTotal]] = {}
    with open_session(settings) as session:
        for total in ContentStats(session).scan(generation):
            rows.setdefault(total.content_id, []).append(total)
    counts = RedisCounts(settings)
    ids = list(rows)
    try:
        for first in range(0, len(ids), _PAGE):
            page = ids[first : first + _PAGE]
            cached = counts.read(generation, page)
            for content_id in page:
                hit = cached[content_id]
                insist(hit is not None, f"Redis misses {content_id}")
                same = sorted(hit or (), key=_region) == sorted(rows[content_id], key=_region)
                insist(same, f"Redis differs: {content_id}")
    finally:
        counts.close()
    return {content_id: _pair(totals) for content_id, totals in rows.items()}


def published(settings: Settings, generation: int = 1) -> dict[str, tuple[int, int]]:
    """(likes, dislikes) by content as a follower of content-counts knows them: the highest version of each region."""
    topic = kafka.counts_topic(settings, generation)
    first, last = kafka.beginning_offsets(settings, topic), kafka.end_offsets(settings, topic)
    newest: dict[tuple[str, str], dict[str, int]] = {}
    for record in kafka.read_topic(settings, topic, first, last):
        if record.value is None:
            continue
        message = json.loads(record.value)
        key = message["content_id"], message["region"]
        if key not in newest or newest[key]["version"] < message["version"]:
            newest[key] = message
    found: dict[str, tuple[int, int]] = {}
    for (content_id, _), total in newest.items():
        likes, dislikes = found.get(content_id, (0, 0))
        more = total["likes_p"] - total["likes_n"], total["dislikes_p"] - total["dislikes_n"]
        found[content_id] = likes + more[0], dislikes + more[1]
    return found


def assert_exact(counted: Mapping[str, tuple[int, int]], truth: Mapping[str, tuple[int, int]]) -> None:
    """Every content has exactly its likes and dislikes; a content that nobody likes any more may be absent."""
    wrong = [
        (content_id, counted.get(content_id, (0, 0)), truth.get(content_id, (0, 0)))
        for content_id in counted.keys() | truth.keys()
        if counted.get(content_id, (0, 0)) != truth.get(content_id, (0, 0))
    ]
    insist(not wrong, f"{len(wrong)} contents are wrong, such as (content, counted, true) {wrong[:1]}")


def insist(holds: bool, why: str) -> None:  # noqa: FBT001 - a condition, as of an assertion
    """An assertion that `python -O` does not leave out. Raises AssertionError."""
    if not holds:
        raise AssertionError(why)


def _pair(totals: Iterable[RegionTotal]) -> tuple[int, int]:
    total = summed(totals)
    return total.pn.likes, total.pn.dislikes


def _region(total: RegionTotal) -> str:
    return total.region

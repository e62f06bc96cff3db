"""Comparing both stores with an exact recount of the log."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from connectors.cassandra import ContentStats
from connectors.redis import RedisCounts
from pipelines.domain.counting import Reactions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from connectors.cassandra import CassandraSession
    from pipelines.domain.counter import RegionTotal
    from pipelines.settings import Settings


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a comparison has come to.

    Fields:
        contents: How many were compared.
        not_cached: Of these, how many Redis has not: readers take them from Cassandra.
        different: A sentence for each that is wrong.
    """

    contents: int
    not_cached: int
    different: tuple[str, ...]

    def __str__(self) -> str:
        if self.different:
            return f"{len(self.different):,} of {self.contents:,} contents differ: {self.different[0]}"
        if self.not_cached:
            cached = self.contents - self.not_cached
            return f"{self.contents:,} contents equal an exact recount in Cassandra, {cached:,} of them cached in Redis"
        return f"{self.contents:,} contents equal an exact recount in both stores"


def check(
    settings: Settings, session: CassandraSession, generation: int, expected: Mapping[tuple[str, str], Reactions]
) -> Verdict:
    """Read everything that is stored of a generation and compare it. Nobody may be counting meanwhile.

    Raises:
        ServiceUnavailable: A store does not answer.
    """
    rows = list(ContentStats(session).scan(generation))
    cache = RedisCounts(settings)
    try:
        cached = cache.read(generation, sorted({row.content_id for row in rows}))
    finally:
        cache.close()
    return compare(expected, rows, cached)


def compare(
    expected: Mapping[tuple[str, str], Reactions],
    rows: Iterable[RegionTotal],
    cached: Mapping[str, Sequence[RegionTotal] | None],
) -> Verdict:
    """Compare what should be with what is.

    Args:
        expected: By (content_id, region name). What is absent must be zero.
        rows: All that Cassandra has.
        cached: What Redis has by content id, None for a miss; any hit must be what Cassandra has.
    """
    stored: defaultdict[str, dict[str, RegionTotal]] = defaultdict(dict)
    for row in rows:
        stored[row.content_id][row.region] = row
    wanted: defaultdict[str, dict[str, Reactions]] = defaultdict(dict)
    for (content_id, region), reactions in expected.items():
        wanted[content_id][region] = reactions
    contents = sorted(stored.keys() | wanted.keys())
    different = []
    for content_id in contents:
        found = {region: Reactions(row.pn.likes, row.pn.dislikes) for region, row in stored[content_id].items()}
        hit = cached.get(content_id)
        if _not_zero(found) != _not_zero(wanted[content_id]):
            different.append(f"{content_id} has {_text(found)} in Cassandra, not {_text(wanted[content_id])}")
        elif hit is not None and {total.region: total for total in hit} != stored[content_id]:
            different.append(f"{content_id} is another in Redis than in Cassandra")
    misses = sum(cached.get(content_id) is None for content_id in contents)
    return Verdict(len(contents), misses, tuple(different))


def _not_zero(reactions: Mapping[str, Reactions]) -> dict[str, Reactions]:
    return {region: found for region, found in reactions.items() if found != Reactions()}


def _text(reactions: Mapping[str, Reactions]) -> str:
    likes = sum(found.likes for found in reactions.values())
    dislikes = sum(found.dislikes for found in reactions.values())
    return f"{likes} likes and {dislikes} dislikes"

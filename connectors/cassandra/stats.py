"""content_stats: one absolute total per generation, content and region."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from connectors.cassandra.pipelined import batched, run_all
from pipelines.domain.counter import PnCount, RegionTotal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from connectors.cassandra.session import CassandraSession

_INSERT = (
    "INSERT INTO {keyspace}.content_stats (generation, content_id, region, likes_p, likes_n, dislikes_p, dislikes_n,"
    " version, as_of) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?"
)
_COLUMNS = "content_id, region, likes_p, likes_n, dislikes_p, dislikes_n, version, toUnixTimestamp(as_of)"
_READ = f"SELECT {_COLUMNS} FROM {{keyspace}}.content_stats WHERE generation = ? AND content_id IN ?"  # noqa: S608
_SCAN = (
    f"SELECT {_COLUMNS}, generation FROM {{keyspace}}.content_stats"  # noqa: S608  columns are ours
    " WHERE token(generation, content_id) > ? AND token(generation, content_id) <= ?"
)
# 1000 partitions: 8 K partitions/s as lists of 50, 1.5 K/s and 15 times the client's CPU as single reads.
_READ_IDS = 50
_SCAN_PAGE_ROWS = 2_000

TokenRange = tuple[int, int]
"""Murmur3 tokens after the first up to and including the second."""
_FIRST_TOKEN, _LAST_TOKEN = -(1 << 63), (1 << 63) - 1  # no key has the first: Cassandra maps that hash to the last
_PART_BITS = 8
_STEP = 1 << (64 - _PART_BITS)
PARTS: Sequence[TokenRange] = tuple(
    (start, min(start + _STEP, _LAST_TOKEN)) for start in range(_FIRST_TOKEN, _LAST_TOKEN, _STEP)
)
"""The whole ring, in 256 parts."""


class ContentStats:
    """The totals in Cassandra.

    Guarantee: a write that returns is at the configured consistency; it may be repeated, reordered or come late, and
    the newest version per region still wins, because the version is the cell's timestamp. A write that raises may have
    happened in part; writing the same rows again completes it.
    """

    def __init__(self, session: CassandraSession) -> None:
        self._session = session

    def write(self, totals: Sequence[RegionTotal]) -> None:
        """Write totals of any generation.

        Raises:
            ServiceUnavailable: Some rows were not acknowledged after retries.
        """
        rows = [
            (
                total.generation,
                total.content_id,
                total.region,
                total.pn.likes_p,
                total.pn.likes_n,
                total.pn.dislikes_p,
                total.pn.dislikes_n,
                total.version,
                total.as_of_ms,
                total.version,
            )
            for total in totals
        ]
        if rows:
            run_all(self._session, batched(self._session, self._session.prepare(_INSERT), rows))

    def read(self, generation: int, content_ids: Sequence[str]) -> dict[str, list[RegionTotal]]:
        """All regions of each content; an id that was never counted has an empty list.

        Raises:
            ServiceUnavailable: Cassandra does not answer, after retries.
        """
        found: dict[str, list[RegionTotal]] = {content_id: [] for content_id in content_ids}
        distinct = list(found)
        for rows in run_all(self._session, self.reads(generation, distinct)):
            for row in rows:
                found[row[0]].append(total_of(row))
        return found

    def reads(self, generation: int, content_ids: Sequence[str]) -> list[Any]:
        """The statements that read all regions of distinct contents; `total_of` understands their rows.

        Raises:
            ServiceUnavailable: Cassandra does not answer, after retries; only before the first statement was prepared.
        """
        statement = self._session.prepare(_READ)
        chunks = (content_ids[start : start + _READ_IDS] for start in range(0, len(content_ids), _READ_IDS))
        return [statement.bind((generation, list(chunk))) for chunk in chunks]

    def scan(self, generation: int, parts: Iterable[TokenRange] = PARTS) -> Iterator[RegionTotal]:
        """Every total of a generation, in token order, page by page. Rows written meanwhile may or may not appear.

        Args:
            generation: Which.
            parts: Where to look; everywhere if not given.

        Raises:
            ServiceUnavailable: Cassandra does not answer, after retries.
        """
        for start, end in parts:
            yield from (total_of(row) for row in self._range(start, end) if row[8] == generation)

    def _range(self, start: int, end: int) -> Iterator[tuple[Any, ...]]:
        bound = self._session.prepare(_SCAN).bind((start, end))
        bound.fetch_size = _SCAN_PAGE_ROWS
        page: bytes | None = None
        while True:
            answer = self._session.insist(
                lambda page=page: self._session.driver.execute(bound, paging_state=page)  # type: ignore[misc]
            )
            yield from answer.current_rows
            page = answer.paging_state
            if page is None:
                return


def total_of(row: tuple[Any, ...]) -> RegionTotal:
    """A row as it was read."""
    return RegionTotal(row[0], row[1], PnCount(row[2], row[3], row[4], row[5]), row[6], row[7])

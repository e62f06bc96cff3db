"""`likes counts`: what some contents have been counted to."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cli.common import Json, settings_from_process
from cli.generation import LIVE, Generation, counted, parse_generation
from cli.lines import STANDARD
from cli.tables import print_table
from connectors.cassandra import ContentStats
from connectors.redis import RedisCounts
from pipelines.domain.counter import summed
from pipelines.domain.events import MAX_ID_CHARACTERS
from pipelines.domain.times import iso
from pipelines.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipelines.domain.counter import RegionTotal
    from pipelines.settings import Settings

Source = Literal["cassandra", "redis"]
_Found = tuple[int | None, "Mapping[str, list[RegionTotal] | None]"]


def counts(
    ids: Annotated[list[str], typer.Argument(help="Content ids; - reads them from stdin, one a line.", metavar="ID…")],
    *,
    source: Annotated[Source, typer.Option("--from", help="The system of record, or the cache.")] = "cassandra",
    generation: Generation = LIVE,
    as_json: Json = False,
) -> None:
    """Show likes and dislikes of some contents, over all regions and by region (gained P and lost N).

    An id that was never counted is zero and not known. From redis, one that the cache has not is missing, not zero.

    Example: likes counts v1 v2 --from redis --json
    """
    wanted = parse_generation(generation)
    asked = _ids(ids)
    settings = settings_from_process()
    number, found = _read(settings, source, wanted, [content_id for content_id in asked if _possible(content_id)])
    absent: list[RegionTotal] | None = [] if source == "cassandra" else None
    contents = [(content_id, found.get(content_id, absent)) for content_id in asked]
    if as_json:
        typer.echo(json.dumps([entry(content_id, totals, source, number) for content_id, totals in contents]))
    else:
        columns = ("content", "likes", "dislikes", "as of", "likes and dislikes by region")
        print_table(columns, (_row(*content) for content in contents), right=frozenset({"likes", "dislikes"}))


def entry(
    content_id: str, totals: Sequence[RegionTotal] | None, source: Source, generation: int | None
) -> dict[str, object]:
    """One content as --json shows it.

    Args:
        content_id: Which.
        totals: Its regions, empty if it was never counted; None if the cache has it not.
        source: Where they were read.
        generation: Which counting, None if there is none yet.

    Returns:
        content_id; likes and dislikes, null if missing; version, the newest of its regions', packed, 0 if there is
        none; as_of, newest event time counted, ISO 8601 in UTC or null; known; regions: P and N, version and as_of by
        region name; source; generation; from redis also missing.
    """
    total = summed(totals or ())
    shown: dict[str, object] = {
        "content_id": content_id,
        "likes": None if totals is None else total.pn.likes,
        "dislikes": None if totals is None else total.pn.dislikes,
        "version": total.version,
        "as_of": iso(total.as_of_ms),
        "known": bool(totals),
        "regions": {
            region.region: {**asdict(region.pn), "version": region.version, "as_of": iso(region.as_of_ms)}
            for region in sorted(totals or (), key=lambda region: region.region)
        },
        "source": source,
        "generation": generation,
    }
    return shown if source == "cassandra" else {**shown, "missing": totals is None}


def _read(settings: Settings, source: Source, wanted: int | None, ids: list[str]) -> _Found:
    if source == "redis" and wanted is not None:
        return wanted, _cached(settings, wanted, ids)
    # Cassandra knows which generation is live.
    with counted(settings, wanted) as place:
        if place is None:
            return wanted, {}
        session, generation = place
        if source == "redis":
            return generation, _cached(settings, generation, ids)
        return generation, dict(ContentStats(session).read(generation, ids))


def _cached(settings: Settings, generation: int, ids: list[str]) -> dict[str, list[RegionTotal] | None]:
    cache = RedisCounts(settings)
    try:
        return cache.read(generation, ids)
    finally:
        cache.close()


def _ids(arguments: list[str]) -> list[str]:
    ids: list[str] = []
    for argument in arguments:
        ids += _ids_from_stdin() if argument == STANDARD else [argument]
    if odd := next((content_id for content_id in ids if not _is_text(content_id)), None):
        raise BadInput(f"content id {odd!r} is not UTF-8", "content ids are text")
    return ids


def _ids_from_stdin() -> list[str]:
    # What is not UTF-8 becomes lone surrogates, as it does in arguments.
    return [line.decode(errors="surrogateescape").rstrip("\r\n") for line in sys.stdin.buffer]


def _possible(content_id: str) -> bool:
    """Whether an event can have this id; nothing is ever counted under another."""
    return 1 <= len(content_id) <= MAX_ID_CHARACTERS


def _is_text(content_id: str) -> bool:
    try:
        content_id.encode()
    except UnicodeEncodeError:
        return False
    return True


def _row(content_id: str, totals: Sequence[RegionTotal] | None) -> tuple[object, ...]:
    if totals is None:
        return content_id, "missing", "missing", "", ""
    total = summed(totals)
    regions = sorted((region.region, region.pn) for region in totals)
    parts = " · ".join(f"{name} {pn.likes} {pn.dislikes}" for name, pn in regions)
    return content_id, total.pn.likes, total.pn.dislikes, iso(total.as_of_ms) or "not known", parts

"""`likes cache`: the counts in Redis."""

from __future__ import annotations

import json

import typer

from cli.common import Json, settings_from_process
from cli.generation import LIVE, Generation, counted, parse_generation
from cli.progress import Tally
from connectors.cassandra import ContentStats
from connectors.redis import RedisCounts
from connectors.store import rebuild as rebuild_cache

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")


@app.callback()
def cache() -> None:
    """Look after the cache."""


@app.command(epilog="Example: `likes cache rebuild`")
def rebuild(*, generation: Generation = LIVE, as_json: Json = False) -> None:
    """Load every count from Cassandra into Redis, over whatever is there. Jobs and readers may go on meanwhile."""
    wanted = parse_generation(generation)
    settings = settings_from_process()
    contents, number = 0, wanted
    with counted(settings, wanted) as place:
        if place is not None:
            session, number = place
            counts = RedisCounts(settings)
            try:
                with Tally("loaded contents") as tally:
                    for contents in rebuild_cache(ContentStats(session), counts, number):
                        tally.at(contents)
            finally:
                counts.close()
    if as_json:
        typer.echo(json.dumps({"contents": contents, "generation": number}))
    elif number is not None:
        typer.echo(f"loaded {contents} contents of generation {number}")

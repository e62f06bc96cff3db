"""`likes reactions`: what one user thinks of which contents."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from cli.common import Json, settings_from_process, tell
from cli.tables import print_table
from connectors.cassandra import UserLikes, has_schema, open_session
from pipelines.domain.register import Reaction, unpack
from pipelines.domain.times import iso

if TYPE_CHECKING:
    from pipelines.settings import Settings


def reactions(
    user_id: Annotated[str, typer.Argument(help="Whose.", metavar="USER")],
    *,
    everything: Annotated[bool, typer.Option("--all", help="Show what was taken back too, as NONE.")] = False,
    as_json: Json = False,
) -> None:
    """Show a user's own reactions, newest first, from the one partition that `job run --pipeline user-likes` fills.

    Example: likes reactions u1 --json
    """
    settings = settings_from_process()
    found = [entry for entry in _read(settings, user_id) if everything or entry["reaction"] != Reaction.NONE.name]
    if as_json:
        typer.echo(json.dumps(found))
    else:
        columns = ("content_id", "reaction", "event_time", "region")
        print_table(columns, ([entry[column] for column in columns] for entry in found))


def _read(settings: Settings, user_id: str) -> list[dict[str, object]]:
    """content_id, reaction, event_time (ISO 8601, UTC) and region, newest first."""
    with open_session(settings) as session:
        if not has_schema(session, settings):
            tell(f"note: nothing has been counted in keyspace {session.keyspace}")
            return []
        packed = UserLikes(session).read(user_id)
    regions = settings.events.regions
    found: list[dict[str, object]] = []
    for content_id, register in sorted(packed.items(), key=lambda item: (-item[1], item[0])):
        time_ms, reaction, code = unpack(register)
        region = regions[code] if code < len(regions) else str(code)
        found.append(
            {"content_id": content_id, "reaction": reaction.name, "event_time": iso(time_ms), "region": region}
        )
    return found

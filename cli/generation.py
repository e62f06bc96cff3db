"""Which counting a command reads: a number, or the one that is live."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from cli.common import tell
from connectors.cassandra import Generations, Pointer, has_schema, open_session
from pipelines.domain.version import GENERATION_BITS
from pipelines.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from connectors.cassandra import CassandraSession
    from pipelines.settings import Settings

LIVE = "live"
Generation = Annotated[str, typer.Option(help="A generation's number, or the live one.", metavar="N|live")]


def parse_generation(text: str) -> int | None:
    """The number; None for "live".

    Raises:
        typer.BadParameter: It is neither.
    """
    if text == LIVE:
        return None
    last = (1 << GENERATION_BITS) - 1
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= last:
        raise typer.BadParameter(f"{text!r} is neither 'live' nor a number from 1 to {last}", param_hint="--generation")
    return int(text)


@contextmanager
def counted(settings: Settings, wanted: int | None) -> Iterator[tuple[CassandraSession, int] | None]:
    """A session and the generation to read there; None where nothing has ever been counted, which is told.

    Creates nothing.

    Args:
        settings: Where Cassandra is.
        wanted: A generation, None for the live one.

    Raises:
        BadInput: There is no such generation.
        ServiceUnavailable: Cassandra does not answer, after retries.
    """
    with open_session(settings) as session:
        if not has_schema(session, settings):
            tell(f"note: nothing has been counted in keyspace {session.keyspace}")
            yield None
            return
        generation = Pointer(session).read() if wanted is None else wanted
        if generation is None:
            tell("note: nothing has been counted yet")
        elif all(known.generation != generation for known in Generations(session).all()):
            raise BadInput(f"there is no generation {generation}", "see `likes job list`")
        yield None if generation is None else (session, generation)

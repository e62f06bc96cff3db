"""The driver's answers for those who run on an event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from connectors.cassandra.session import TRANSIENT

if TYPE_CHECKING:
    from connectors.cassandra.session import CassandraSession


async def rows_of(session: CassandraSession, statement: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401  untyped driver
    """Execute a bound or batch statement once and return the first page of its rows.

    Args:
        session: Where; its own threads do the waiting.
        statement: Idempotent, for an answer may be lost.

    Raises:
        ServiceUnavailable: Cassandra does not answer; nothing is tried again, for somebody waits.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[tuple[Any, ...]]] = loop.create_future()

    def done(rows: Any) -> None:  # noqa: ANN401
        loop.call_soon_threadsafe(_settle, answer, rows, None)

    def failed(error: BaseException) -> None:
        loop.call_soon_threadsafe(_settle, answer, None, error)

    try:
        session.driver.execute_async(statement).add_callbacks(done, failed)
        return list(await answer or ())
    except TRANSIENT as error:
        raise session.service.unavailable(error) from error


def _settle(answer: asyncio.Future[Any], rows: object, error: BaseException | None) -> None:
    if answer.done():
        return  # nobody waits any more
    if error is None:
        answer.set_result(rows)
    else:
        answer.set_exception(error)

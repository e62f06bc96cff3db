"""Cassandra for an event loop: connected in the background, bounded in how much is asked at once."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from connectors.cassandra import (
    CassandraSession,
    ContentStats,
    Fences,
    Generations,
    Pointer,
    UserLikes,
    connect,
    ensure_schema,
    has_schema,
    rows_of,
    total_of,
)
from pipelines.domain.register import EMPTY
from pipelines.errors import LikesError
from serving.batches import Batches
from serving.dependency import Away
from serving.metrics import STORE_READS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from connectors.cassandra import UserLike
    from pipelines.domain.counter import RegionTotal
    from pipelines.settings import Settings
    from serving.dependency import Dependency

_RETRY_S = 1.0
_TOGETHER = 32
_WAITING = 100  # reads that may wait for each that is under way
_PING = "SELECT key FROM system.local"


class Record:
    """The system of record.

    Args:
        settings: Of Cassandra.
        service: Cassandra, as a dependency.
    """

    def __init__(self, settings: Settings, service: Dependency) -> None:
        wanted = settings.cassandra.model_copy(update={"request_timeout_ms": settings.serve.cassandra_timeout_ms})
        self._settings = settings.model_copy(update={"cassandra": wanted})
        self._service = service
        self._session: CassandraSession | None = None
        self._allowed = asyncio.Semaphore(settings.serve.cassandra_reads)
        self._most = settings.serve.cassandra_reads * _WAITING
        self._wanted = 0
        self._reads: Batches[tuple[str, str], int] = Batches(self._read_registers, most=_TOGETHER)
        self._upserts: Batches[UserLike, None] = Batches(self._upsert_all, most=_TOGETHER)

    @property
    def session(self) -> CassandraSession:
        """The driver's session, for what may block.

        Raises:
            Away: It is not connected yet.
        """
        if self._session is None:
            raise Away("not connected yet")
        return self._session

    async def connect(self) -> None:
        """Connect, however long it takes; afterwards the driver connects again by itself."""
        policy = self._settings.retry.model_copy(update={"attempts": 1})
        settings = self._settings.model_copy(update={"retry": policy})
        while True:
            try:
                session = await asyncio.to_thread(_connected, settings)
            except LikesError as error:
                self._service.failed(error.message)
                await asyncio.sleep(_RETRY_S)
            except Exception as error:  # noqa: BLE001  such as a name that does not resolve yet
                self._service.failed(str(error))
                await asyncio.sleep(_RETRY_S)
            else:
                self._session = session
                self._service.answered()
                return

    def close(self) -> None:
        """Disconnect."""
        if self._session is not None:
            self._session.cluster.shutdown()

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """One of the reads that are allowed at once. Raises Away where too many wait already."""
        if self._wanted >= self._most:
            raise Away("too many reads wait for Cassandra")
        self._wanted += 1
        try:
            async with self._allowed:
                yield
        finally:
            self._wanted -= 1

    async def ping(self) -> None:
        """See whether Cassandra answers.

        Raises:
            Away: It does not.
        """
        with self._service.used((LikesError,), probe=True):
            await rows_of(self.session, self.session.prepare(_PING))

    async def totals(self, generation: int, content_ids: Sequence[str]) -> dict[str, list[RegionTotal]]:
        """All regions of distinct contents; an id that was never counted has an empty list.

        Raises:
            Away: Cassandra does not answer.
        """
        found: dict[str, list[RegionTotal]] = {content_id: [] for content_id in content_ids}
        async with self._turn():
            STORE_READS.labels("cassandra").inc()
            with self._service.used((LikesError,)):
                reads = ContentStats(self.session).reads(generation, content_ids)
                for rows in await asyncio.gather(*(rows_of(self.session, read) for read in reads)):
                    for row in rows:
                        found[row[0]].append(total_of(row))
        return found

    async def registers(self, user_id: str, content_ids: Sequence[str]) -> dict[str, int]:
        """A user's registers on some contents, packed, by content id; from one partition.

        Raises:
            Away: Cassandra does not answer.
        """
        async with self._turn():
            with self._service.used((LikesError,)):
                statement = UserLikes(self.session).some(user_id, content_ids)
                rows = await rows_of(self.session, statement)
        return dict(rows)

    def register(self, user_id: str, content_id: str) -> asyncio.Future[int]:
        """A user's register on one content, packed, EMPTY if there is none; those that come together are read together.

        The future has Away where Cassandra does not answer.
        """
        return self._reads.put((user_id, content_id))

    def upsert(self, like: UserLike) -> asyncio.Future[None]:
        """Store a user's register; those that come together are stored together.

        The future has Away where Cassandra does not answer.
        """
        return self._upserts.put(like)

    async def _read_registers(self, wanted: list[tuple[str, str]]) -> list[int]:
        with self._service.used((LikesError,)):
            rows = await rows_of(self.session, UserLikes(self.session).of_several(wanted))
        held = {(user_id, content_id): register for user_id, content_id, register in rows}
        return [held.get(each, EMPTY) for each in wanted]

    async def _upsert_all(self, likes: list[UserLike]) -> list[None]:
        with self._service.used((LikesError,)):
            statements: list[Any] = UserLikes(self.session).upserts(likes)
            await asyncio.gather(*(rows_of(self.session, statement) for statement in statements))
        return [None] * len(likes)


def _connected(settings: Settings) -> CassandraSession:
    session = connect(settings)
    try:
        _prepare(session, settings)
    except BaseException:
        session.cluster.shutdown()
        raise
    return session


def _prepare(session: CassandraSession, settings: Settings) -> None:
    """Statements are prepared here, where waiting stops nobody."""
    if not has_schema(session, settings):
        ensure_schema(session, settings)
    ContentStats(session).reads(1, ["v"])
    UserLikes(session).some("u", ["v"])
    UserLikes(session).of_several([("u", "v")])
    UserLikes(session).upserts([])
    session.prepare(_PING)
    Pointer(session).read()
    Fences(session).read(1)
    Generations(session).all()

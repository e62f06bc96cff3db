"""Everything that the routes use, made when the service starts and closed when it ends."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from connectors.kafka import ensure_topics
from pipelines.errors import LikesError
from serving.cache import Cache
from serving.cassandra import Record
from serving.dependency import Away, Dependency
from serving.limits import Limits
from serving.metrics import HOT, STREAMS
from serving.producer import EventProducer
from serving.reading import Reader
from serving.stamps import Stamps
from serving.stream import Hub
from serving.watch import Watch
from serving.writing import Writer

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from pipelines.settings import Settings

_LOG = logging.getLogger(__name__)
_TIDY_S = 1.0
_PAUSE_S = 5.0  # each is probed every second besides, where no request waits for it
_TOPICS_S = 5.0


class Service:
    """The parts, on the running event loop.

    Args:
        settings: Of everything.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.dependencies = {name: Dependency(name, _PAUSE_S) for name in ("kafka", "cassandra", "redis")}
        kafka, cassandra, redis = self.dependencies.values()
        self._tasks: set[asyncio.Task[None]] = set()
        self.record = Record(settings, cassandra)
        self.cache = Cache(settings, redis)
        self.producer = EventProducer(settings, kafka)
        self.watch = Watch(settings, self.record, self.producer)
        self.stamps = Stamps(settings, redis)
        self.limits = Limits(settings, redis)
        self.reader = Reader(settings, self.cache, self.record, self.watch, self.spawn)
        self.writer = Writer(settings, self.producer, self.stamps, self.record, self.reader, self.watch)
        self.hub = Hub(settings)

    def start(self) -> None:
        """Begin what runs by itself."""
        self.spawn(self.record.connect())
        self.spawn(self._ensure_topics())
        self.spawn(self.watch.run())
        self.spawn(self._tidy())

    def spawn(self, what: Coroutine[object, object, None]) -> None:
        """Run something that nobody waits for, until the service ends."""
        task = asyncio.ensure_future(what)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def close(self) -> None:
        """End everything; events that wait for Kafka get a moment."""
        for task in list(self._tasks):
            task.cancel()
        for task in list(self._tasks):
            with suppress(asyncio.CancelledError, Exception):
                await task
        await asyncio.to_thread(self.producer.close)
        await asyncio.to_thread(self.hub.close)
        await self.stamps.close()
        await self.cache.close()
        await asyncio.to_thread(self.record.close)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            _LOG.error("something in the background failed", exc_info=error)

    async def _ensure_topics(self) -> None:
        """Create the topics, however long Kafka is away."""
        while True:
            try:
                await asyncio.to_thread(ensure_topics, self.settings, 1)
            except LikesError as error:
                _LOG.info("the topics are not ready: %s", error)
                await asyncio.sleep(_TOPICS_S)
            else:
                return

    async def _tidy(self) -> None:
        """What has to happen although no request comes."""
        while True:
            now = time.monotonic()
            self.reader.hot.turn(now)
            self.writer.hot.turn(now)
            HOT.labels("read").set(len(self.reader.hot.hottest()))
            HOT.labels("write").set(len(self.writer.hot.hottest()))
            STREAMS.set(self.hub.clients)
            if self.hub.clients:
                self.hub.follow(self.watch.counting.generation)
            for ping in (self.cache.ping, self.record.ping):
                with suppress(Away):
                    await ping()
            await asyncio.sleep(_TIDY_S)

"""The read path: memory, then Redis, then Cassandra; what cannot be had is served stale and says so.

hot or unknown a moment ago?  ─ yes ─► memory
│ no
Redis, one round trip for all ─ hit ─► answer
│ miss, or Redis is away
Cassandra, one read for each content however many wait ─► answer, and back into Redis
│ away
what was read last ─► answer, stale
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cachetools import LRUCache, TLRUCache

from serving.cache import Held, held
from serving.dependency import Away
from serving.hot import WINDOW_S, HotItems
from serving.metrics import READS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from pipelines.settings import Settings
    from serving.cache import Cache
    from serving.cassandra import Record
    from serving.watch import Counting, Watch

_REMEMBERED = 100_000


@dataclass(slots=True, eq=False)  # frozen would be three times slower to make, 21 times a page
class Read:
    """A content's counts as they were found; nobody changes one.

    Fields:
        held: The counts.
        source: redis, cassandra or memory.
        counting: How far the counting was before they were asked for; they contain at least that.
        is_stale: Whether the stores are away and this is what was read before.
    """

    held: Held
    source: str
    counting: Counting
    is_stale: bool = False

    def remembered(self, *, is_stale: bool = False) -> Read:
        """The same, answered once more."""
        return Read(self.held, "memory", self.counting, is_stale)


class Reader:
    """Reads counts.

    Args:
        settings: Of the service.
        cache: Redis.
        record: Cassandra.
        watch: Knows the live generation.
        spawn: Starts what nobody waits for.
        now: Seconds of a monotonic clock.
    """

    def __init__(
        self,
        settings: Settings,
        cache: Cache,
        record: Record,
        watch: Watch,
        spawn: Callable[[Coroutine[object, object, None]], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        options = settings.serve
        self._options = options
        self._cache = cache
        self._record = record
        self._watch = watch
        self._spawn = spawn
        self._now = now
        self.hot = HotItems(options.hot_reads_per_s, WINDOW_S, now())
        self._memory: TLRUCache[str, Read] = TLRUCache(_REMEMBERED, self._forget_at, now)
        self._last: LRUCache[str, Read] = LRUCache(options.kept_counts)
        self._cold: dict[tuple[int, str], asyncio.Future[Read]] = {}

    async def read(self, content_ids: Sequence[str], *, from_stores: bool = False) -> dict[str, Read | None]:
        """Counts of distinct contents; None where no store answers and nothing is remembered.

        Args:
            content_ids: Which.
            from_stores: Whether what was read a moment ago will not do: at least as new as when this was called.
        """
        generation = self._watch.counting.generation
        now = self._now()
        found: dict[str, Read | None] = {}
        for content_id in content_ids:
            self.hot.saw(content_id, now)
            known = self._memory.get(content_id)
            if known is not None and known.counting.generation == generation and not from_stores:
                found[content_id] = known.remembered()
        missing = [content_id for content_id in content_ids if content_id not in found]
        if missing:
            found |= await self._from_stores(generation, missing, newest=from_stores)
        sources = Counter("none" if it is None else "stale" if it.is_stale else it.source for it in found.values())
        for source, times in sources.items():
            READS.labels(source).inc(times)
        return found

    async def read_newest(self, content_id: str) -> Read | None:
        """One content, read after this was called; None where no store answers."""
        found = await self._from_stores(self._watch.counting.generation, [content_id], newest=True)
        read = found[content_id]
        return None if read is None or read.is_stale else read

    def tapped(self, content_id: str) -> None:
        """Somebody has tapped a content, so it will not stay unknown."""
        known = self._memory.get(content_id)
        if known is not None and not known.held.regions:
            self._memory.pop(content_id, None)

    async def _from_stores(
        self, generation: int | None, content_ids: list[str], *, newest: bool
    ) -> dict[str, Read | None]:
        if generation is None:
            return dict.fromkeys(content_ids, self._nothing())
        counting = self._watch.counting
        try:
            ask = self._cache.read_primary if newest else self._cache.read
            cached = await ask(generation, content_ids)
            is_up = True
        except Away:
            cached, is_up = dict.fromkeys(content_ids), False
        found: dict[str, Read | None] = {
            content_id: Read(counts, "redis", counting) for content_id, counts in cached.items() if counts is not None
        }
        misses = [content_id for content_id, counts in cached.items() if counts is None]
        if misses:
            found |= await self._from_record(generation, misses, fill=is_up, newest=newest)
        for content_id, read in found.items():
            if read is not None and not read.is_stale:
                self._keep(content_id, read)
        return found

    async def _from_record(
        self, generation: int, content_ids: list[str], *, fill: bool, newest: bool
    ) -> dict[str, Read | None]:
        """Misses, each read once however many wait for it."""
        loop = asyncio.get_running_loop()
        mine: dict[str, asyncio.Future[Read]] = {}
        for content_id in content_ids:
            if newest or (generation, content_id) not in self._cold:
                mine[content_id] = self._cold[generation, content_id] = loop.create_future()
        waiting = {content_id: self._cold[generation, content_id] for content_id in content_ids}
        if mine:
            self._spawn(self._load(generation, mine, fill=fill))
        found: dict[str, Read | None] = {}
        for content_id, future in waiting.items():
            try:
                found[content_id] = await asyncio.shield(future)
            except Away:
                last = self._last.get(content_id)
                stale = last.remembered(is_stale=True) if last else None
                found[content_id] = stale if stale and stale.counting.generation == generation else None
        return found

    async def _load(self, generation: int, wanted: dict[str, asyncio.Future[Read]], *, fill: bool) -> None:
        try:
            token, ours = await self._claim(generation, list(wanted)) if fill else ("", [])
            counting = self._watch.counting
            totals = await self._record.totals(generation, list(wanted))
            for content_id, future in wanted.items():
                future.set_result(Read(held(totals[content_id]), "cassandra", counting))
            if known := {content_id: totals[content_id] for content_id in ours if totals[content_id]}:
                with suppress(Away):
                    await self._cache.load(generation, known, token)
        except Away as error:
            for future in wanted.values():
                future.set_exception(error)
                future.exception()  # whoever waited may have gone
        finally:
            for content_id, future in wanted.items():
                future.cancel()  # only where there was neither answer nor error
                if self._cold.get((generation, content_id)) is future:
                    del self._cold[generation, content_id]

    async def _claim(self, generation: int, content_ids: list[str]) -> tuple[str, list[str]]:
        try:
            return await self._cache.fill(generation, content_ids)
        except Away:
            return "", []

    def _keep(self, content_id: str, read: Read) -> None:
        if read.held.regions and self._options.kept_counts:
            self._last[content_id] = read
        if not read.held.regions or self.hot.is_hot(content_id):
            known = self._memory.get(content_id)
            if known is None or known.held.total.version <= read.held.total.version:
                self._memory[content_id] = read

    def _forget_at(self, _: str, read: Read, now: float) -> float:
        """When a hot content, or one that nobody has tapped, is asked for again."""
        return now + (self._options.hot_cache_ms if read.held.regions else self._options.negative_cache_ms) / 1000

    def _nothing(self) -> Read | None:
        """What there is without a generation: nothing has been counted, or that is not known yet."""
        counting = self._watch.counting
        return Read(held(()), "cassandra", counting) if counting.is_known else None

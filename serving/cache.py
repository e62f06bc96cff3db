"""Counts in Redis, for an event loop: everything that is asked for at the same time goes in one round trip.

Guarantee: as `connectors.redis`; a hash that is not complete is a miss. Nothing is tried again, for somebody waits.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import redis.exceptions

from connectors.redis import LOAD, count_key, fields_of, totals_of
from pipelines.domain.counter import ContentTotal, RegionTotal, summed
from serving.batches import Batches, TogetherRedis
from serving.dependency import Away, Dependency
from serving.metrics import STORE_READS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pipelines.settings import Settings

FAILURES: tuple[type[BaseException], ...] = (
    redis.exceptions.ConnectionError,
    redis.exceptions.TimeoutError,
    OSError,
    TimeoutError,
)
REFUSALS: tuple[type[BaseException], ...] = (redis.exceptions.RedisError,)
_PAGES = 50
_DECODED = 100_000
_CONNECTIONS = 64
_FILL_LIFE_S = 30

# KEYS: hashes that were misses. ARGV: a token. Marks those that nobody loads; returns their positions.
_CLAIM = f"""
local mine = {{}}
for i, key in ipairs(KEYS) do
  local held = redis.pcall('HMGET', key, 'complete', 'fill')
  if held.err then
    redis.call('DEL', key)
    held = {{}}
  end
  if not held[1] and not held[2] then
    redis.call('DEL', key)
    redis.call('HSET', key, 'fill', ARGV[1])
    redis.call('EXPIRE', key, {_FILL_LIFE_S})
    mine[#mine + 1] = i
  end
end
return mine
"""

# KEYS: hashes. All fields and values of each, in lines; empty for none, and for what is no hash.
_READ = """
local found = {}
for i, key in ipairs(KEYS) do
  local held = redis.pcall('HGETALL', key)
  found[i] = held.err and '' or table.concat(held, '\\n')
end
return found
"""


@dataclass(frozen=True, slots=True)
class Held:
    """A content's counts.

    Fields:
        regions: All of them, empty if nobody has tapped it.
        total: Their sum.
    """

    regions: tuple[RegionTotal, ...]
    total: ContentTotal


def held(totals: Iterable[RegionTotal]) -> Held:
    """The regions of one content, with their sum."""
    regions = tuple(totals)
    return Held(regions, summed(regions))


@lru_cache(_DECODED)
def _decoded(content_id: str, lines: str) -> Held | None:
    """What a hash holds; None where it is a miss. Most of what is read has been read before."""
    parts = lines.split("\n")
    if len(parts) % 2:
        return None
    totals = totals_of(content_id, dict(zip(parts[::2], parts[1::2], strict=True)))
    return None if totals is None else held(totals)


Found = dict[str, Held | None]
_Page = tuple[int, tuple[str, ...]]


def client(settings: Settings, url: str) -> Any:  # noqa: ANN401  redis-py's answers are unions of everything
    """A client that connects at its first call and gives up soon."""
    timeout_s = settings.serve.redis_timeout_ms / 1000
    made = TogetherRedis.from_url(
        url, socket_connect_timeout=timeout_s, decode_responses=True, max_connections=_CONNECTIONS
    )
    made.timeout_s = timeout_s
    return made


class Cache:
    """Reads counts and fills what is missing.

    Args:
        settings: Of Redis and its replica.
        service: Redis, as a dependency.
    """

    def __init__(self, settings: Settings, service: Dependency) -> None:
        url = settings.redis.url.get_secret_value()
        self._settings = settings
        self._service = service
        self._primary = client(settings, url)
        self._claim = self._primary.register_script(_CLAIM)
        self._load = self._primary.register_script(LOAD)
        newest = self._primary.register_script(_READ)
        self._newest: Batches[_Page, Found] = Batches(lambda pages: _read_pages(newest, service, pages), most=_PAGES)
        self._replica, self._pages = None, self._newest
        if replica := settings.serve.redis_replica.get_secret_value():
            self._replica = client(settings, replica)
            copy, its = self._replica.register_script(_READ), Dependency("redis-replica")
            self._pages = Batches(lambda pages: _read_pages(copy, its, pages), most=_PAGES)

    async def close(self) -> None:
        """Close the connections."""
        await self._primary.aclose()
        if self._replica is not None:
            await self._replica.aclose()

    async def ping(self) -> None:
        """See whether Redis answers.

        Raises:
            Away: It does not.
        """
        with self._service.used(FAILURES, REFUSALS, probe=True):
            await self._primary.ping()

    async def read(self, generation: int, content_ids: Iterable[str]) -> Found:
        """All regions of each content; None is a miss. From the replica, if there is one and it answers.

        Whoever asks while a few round trips are under way shares the next one.

        Raises:
            Away: Redis does not answer.
        """
        page = (generation, tuple(content_ids))
        if self._replica is not None:
            with suppress(Away):
                return await self._pages.ask(page)
        return await self._newest.ask(page)

    async def read_primary(self, generation: int, content_ids: Iterable[str]) -> Found:
        """The same of what is newest: not from a replica, nor from a round trip that began before.

        Raises:
            Away: Redis does not answer.
        """
        return await self._newest.ask((generation, tuple(content_ids)))

    async def fill(self, generation: int, content_ids: Sequence[str]) -> tuple[str, list[str]]:
        """Mark misses as being loaded, before Cassandra is read for them.

        Returns:
            A token, and the contents that are ours to load.

        Raises:
            Away: Redis does not answer.
        """
        token = secrets.token_hex(8)
        with self._service.used(FAILURES, REFUSALS):
            mine = await self._claim(keys=[count_key(generation, each) for each in content_ids], args=[token])
        return token, [content_ids[position - 1] for position in mine]

    async def load(self, generation: int, contents: Mapping[str, Sequence[RegionTotal]], token: str) -> None:
        """Complete the hashes that still hold the token.

        Raises:
            Away: Redis does not answer.
        """
        arguments: list[str | int] = [token, self._settings.redis.ttl_s]
        for totals in contents.values():
            arguments += [len(totals), *fields_of(totals)]
        with self._service.used(FAILURES, REFUSALS):
            await self._load(keys=[count_key(generation, each) for each in contents], args=arguments)


async def _read_pages(script: Any, service: Dependency, pages: list[_Page]) -> list[Found]:  # noqa: ANN401
    by_generation: dict[int, dict[str, None]] = {}
    for generation, content_ids in pages:
        by_generation.setdefault(generation, {}).update(dict.fromkeys(content_ids))
    found = {
        generation: await _fetch(script, service, generation, list(content_ids))
        for generation, content_ids in by_generation.items()
    }
    return [{each: found[generation][each] for each in content_ids} for generation, content_ids in pages]


async def _fetch(script: Any, service: Dependency, generation: int, content_ids: list[str]) -> Found:  # noqa: ANN401
    STORE_READS.labels("redis").inc()
    with service.used(FAILURES, REFUSALS):
        answers = await script(keys=[count_key(generation, content_id) for content_id in content_ids])
    return dict(zip(content_ids, map(_decoded, content_ids, answers), strict=True))

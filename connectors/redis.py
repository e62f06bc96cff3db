"""The cache: one hash per generation and content, `count:{<generation>:<content_id>}`.

Fields of a hash:
    complete    "1": every region that Cassandra has is here. Without it the hash is a miss, whatever else it holds.
    r:<region>  version as 20 digits, likes_p, likes_n, dislikes_p, dislikes_n, as_of_ms, joined by "|".
    fill        the token of whoever is loading the hash from Cassandra; alone, and gone after 30 seconds.

Whoever finds a hash incomplete writes a token of its own, reads Cassandra after that, and loads the hash only if the
token is still there. A newer token, an eviction or a restart in between makes the load a no-op, and the newer token's
owner read Cassandra later: so a hash never becomes complete without a total that was in Cassandra before.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import redis
from redis.exceptions import (
    AuthenticationError,
    ClusterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from connectors.retry import Service, insist
from pipelines.domain.counter import PnCount, RegionTotal
from pipelines.domain.version import EPOCH_SHIFT
from pipelines.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pipelines.settings import Settings

# A server that is loading is a connection error; a full one and a replica may be mended by time or a failover.
_TRANSIENT: tuple[type[BaseException], ...] = (
    RedisConnectionError,
    RedisTimeoutError,
    ReadOnlyError,
    OutOfMemoryError,
    ClusterDownError,
)
_COMPLETE, _FILL, _REGION = "complete", "fill", "r:"
_FILL_LIFE_S = 30
_SCANNED = 1_000

_VERSION_DIGITS = 20
_TOTAL = re.compile(rf"[0-9]{{{_VERSION_DIGITS}}}(\|[0-9]+){{4}}\|-?[0-9]+")
_LUA_TOTAL = "^" + "%d" * _VERSION_DIGITS + "|%d+|%d+|%d+|%d+|%-?%d+$"

# Lua's numbers are doubles, so versions are compared as fixed-width text.
# KEYS: one for each total. ARGV: token, life in s or 0, then field and value for each total.
# Returns the positions of incomplete hashes, then positions and versions where the hash is newer.
_APPLY = f"""
local token, life = ARGV[1], tonumber(ARGV[2])
local incomplete, newer = {{}}, {{}}
for i, key in ipairs(KEYS) do
  local field, value = ARGV[2 * i + 1], ARGV[2 * i + 2]
  local held = redis.pcall('HMGET', key, '{_COMPLETE}', field)
  if held.err or (held[2] and not string.match(held[2], '{_LUA_TOTAL}')) then
    redis.call('DEL', key)  -- somebody else's
    held = {{}}
  end
  if held[1] then
    local mine, theirs = string.sub(value, 1, {_VERSION_DIGITS}), held[2] and string.sub(held[2], 1, {_VERSION_DIGITS})
    if not theirs or theirs < mine then
      redis.call('HSET', key, field, value)
    elseif theirs > mine then
      newer[#newer + 1] = {{i, theirs}}
    end
    if life > 0 then redis.call('EXPIRE', key, life) end
  else
    redis.call('HSET', key, '{_FILL}', token)
    redis.call('EXPIRE', key, {_FILL_LIFE_S})
    incomplete[#incomplete + 1] = i
  end
end
return {{incomplete, newer}}
"""
# KEYS: hashes to forget. ARGV: token.
_FORGET = f"""
for _, key in ipairs(KEYS) do
  redis.call('DEL', key)
  redis.call('HSET', key, '{_FILL}', ARGV[1])
  redis.call('EXPIRE', key, {_FILL_LIFE_S})
end
"""
# KEYS: one for each content. ARGV: token, life in s or 0, then for each content the number of regions and their fields
# and values. Returns the positions of hashes whose token is another by now.
LOAD = f"""
local token, life, at, refused = ARGV[1], tonumber(ARGV[2]), 3, {{}}
for i, key in ipairs(KEYS) do
  local last = at + 2 * tonumber(ARGV[at])
  if redis.pcall('HGET', key, '{_FILL}') == token then
    redis.call('DEL', key)
    for j = at + 1, last, 2 do redis.call('HSET', key, ARGV[j], ARGV[j + 1]) end
    redis.call('HSET', key, '{_COMPLETE}', '1')
    if life > 0 then redis.call('EXPIRE', key, life) end
  else
    refused[#refused + 1] = i
  end
  at = last + 1
end
return refused
"""


@dataclass(frozen=True, slots=True)
class Applied:
    """What `RedisCounts.apply` found.

    Fields:
        token: The fill token that the incomplete hashes now hold.
        incomplete: Contents to load from Cassandra, each once.
        outranked: Contents where the hash holds a total of a newer epoch than the one given: their writer is a zombie.
    """

    token: str
    incomplete: tuple[str, ...]
    outranked: tuple[str, ...]


class RedisCounts:
    """The totals in Redis.

    Guarantee: what is served is complete and each region's version only grows while the hash lives; anything else is a
    miss. Every call may be repeated. Nothing here is durable: Cassandra is the record.

    Opens a connection at the first call; `close` when done.
    """

    def __init__(self, settings: Settings) -> None:
        url = settings.redis.url.get_secret_value()
        timeout_s = settings.redis.timeout_ms / 1000
        try:
            self._client = redis.Redis.from_url(
                url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, decode_responses=True
            )
        except ValueError as error:
            raise SettingError(f"setting redis.url: {error}", "use redis://host:port/db or rediss://…") from None
        place = self._client.connection_pool.connection_kwargs
        address = place.get("path") or f"{place.get('host', 'localhost')}:{place.get('port', 6379)}"
        self._service = Service("Redis", address, "redis.url")
        self._settings = settings
        self._apply = self._client.register_script(_APPLY)
        self._load = self._client.register_script(LOAD)
        self._forget = self._client.register_script(_FORGET)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def apply(self, generation: int, totals: Sequence[RegionTotal]) -> Applied:
        """Put totals into complete hashes where they are newer; mark the other hashes as being loaded.

        Raises:
            ServiceUnavailable: Redis does not answer, after retries.
        """
        token = secrets.token_hex(8)
        incomplete: dict[str, None] = {}
        outranked: dict[str, None] = {}
        for chunk in _chunks(totals, self._settings.redis.batch_totals):
            arguments: list[str | int] = [token, self._settings.redis.ttl_s]
            for total in chunk:
                arguments += (_REGION + total.region, _encode(total))
            missing, newer = self._call(
                self._apply, [count_key(generation, total.content_id) for total in chunk], arguments
            )
            incomplete.update((chunk[position - 1].content_id, None) for position in missing)
            for position, version in newer:
                if int(version) >> EPOCH_SHIFT > chunk[position - 1].version >> EPOCH_SHIFT:
                    outranked[chunk[position - 1].content_id] = None
        return Applied(token, tuple(incomplete), tuple(outranked))

    def forget(self, generation: int, content_ids: Sequence[str]) -> str:
        """Turn hashes into misses that are being loaded.

        Returns:
            The token to load them with.

        Raises:
            ServiceUnavailable: Redis does not answer, after retries.
        """
        token = secrets.token_hex(8)
        for chunk in _chunks(content_ids, self._settings.redis.batch_totals):
            self._call(self._forget, [count_key(generation, content_id) for content_id in chunk], [token])
        return token

    def clear(self, generation: int) -> None:
        """Remove every hash of a generation: what an older Cassandra's generation of the same number has left.

        Raises:
            ServiceUnavailable: Redis does not answer, after retries.
        """
        match, cursor = f"count:{{{generation}:*", 0
        while True:
            cursor, keys = self._insist(partial(self._client.scan, cursor, match=match, count=_SCANNED))
            if keys:
                self._insist(partial(self._client.unlink, *keys))
            if not cursor:
                return

    def load(self, generation: int, contents: Mapping[str, Sequence[RegionTotal]], token: str) -> tuple[str, ...]:
        """Complete hashes that still hold the token.

        Args:
            generation: Whose hashes.
            contents: All regions of each content, read from Cassandra after the token was written. A content without
                any is left a miss.
            token: From `apply` or `forget`.

        Returns:
            The contents that were refused: evicted, or another loader has taken over.

        Raises:
            ServiceUnavailable: Redis does not answer, after retries.
        """
        refused: list[str] = []
        known = [(content_id, totals) for content_id, totals in contents.items() if totals]
        for chunk in _chunks(known, self._settings.redis.batch_totals):
            arguments: list[str | int] = [token, self._settings.redis.ttl_s]
            for _, totals in chunk:
                arguments.append(len(totals))
                arguments += fields_of(totals)
            positions = self._call(
                self._load, [count_key(generation, content_id) for content_id, _ in chunk], arguments
            )
            refused.extend(chunk[position - 1][0] for position in positions)
        return tuple(refused)

    def read(self, generation: int, content_ids: Sequence[str]) -> dict[str, list[RegionTotal] | None]:
        """All regions of each content in one round trip; None is a miss, as is whatever is not ours.

        Raises:
            ServiceUnavailable: Redis does not answer, after retries.
        """
        distinct = list(dict.fromkeys(content_ids))

        def fetch() -> list[dict[str, str]]:
            pipeline = self._client.pipeline(transaction=False)
            for content_id in distinct:
                pipeline.hgetall(count_key(generation, content_id))
            answers = pipeline.execute(raise_on_error=False)
            for answer in answers:
                if isinstance(answer, Exception) and not _is_of_another_type(answer):
                    raise answer
            return [{} if isinstance(answer, Exception) else answer for answer in answers]

        hashes = self._insist(fetch)
        return {content_id: totals_of(content_id, fields) for content_id, fields in zip(distinct, hashes, strict=True)}

    def _call(self, script: Callable[..., Any], keys: list[str], arguments: Sequence[str | int]) -> Any:  # noqa: ANN401
        return self._insist(lambda: script(keys=keys, args=arguments))

    def _insist(self, call: Callable[[], Any]) -> Any:  # noqa: ANN401  redis-py's answers are unions of everything
        def allowed() -> Any:  # noqa: ANN401
            try:
                return call()
            except (AuthenticationError, NoPermissionError) as error:
                raise SettingError(
                    f"Redis at {self._service.address} refuses the user: {error}", "correct the setting redis.url"
                ) from error

        return insist(self._settings.retry, self._service, _TRANSIENT, allowed)


def count_key(generation: int, content_id: str) -> str:
    """The key of a content's hash."""
    return f"count:{{{generation}:{content_id}}}"


def fields_of(totals: Sequence[RegionTotal]) -> list[str]:
    """Fields and values of a hash, one after the other."""
    return [part for total in totals for part in (_REGION + total.region, _encode(total))]


def _encode(total: RegionTotal) -> str:
    pn = total.pn
    version = f"{total.version:0{_VERSION_DIGITS}d}"
    return f"{version}|{pn.likes_p}|{pn.likes_n}|{pn.dislikes_p}|{pn.dislikes_n}|{total.as_of_ms}"


def totals_of(content_id: str, fields: Mapping[str, str]) -> list[RegionTotal] | None:
    """What a hash holds; None where it is a miss, as is whatever is not ours."""
    if _COMPLETE not in fields:
        return None
    regions = {field: value for field, value in fields.items() if field.startswith(_REGION)}
    if not all(_TOTAL.fullmatch(value) for value in regions.values()):
        return None
    return [_decode(content_id, field, value) for field, value in regions.items()]


def _is_of_another_type(answer: Exception) -> bool:
    return isinstance(answer, ResponseError) and str(answer).startswith("WRONGTYPE")


def _decode(content_id: str, field: str, value: str) -> RegionTotal:
    version, likes_p, likes_n, dislikes_p, dislikes_n, as_of_ms = map(int, value.split("|"))
    return RegionTotal(
        content_id, field.removeprefix(_REGION), PnCount(likes_p, likes_n, dislikes_p, dislikes_n), version, as_of_ms
    )


def _chunks(items: Sequence[Any], size: int) -> Iterator[Any]:
    for start in range(0, len(items), size):
        yield items[start : start + size]

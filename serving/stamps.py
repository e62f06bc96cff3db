"""When a tap happened, and what a user has tapped a moment ago.

The clock is Redis's, one for all servers, and a tap is always at least a millisecond after the same user's last one on
the same content; so a server whose clock is slow cannot lose a tap. While Redis is away each server goes by its own
clock. What `user_likes` and the server itself know of the last tap counts always, so what was stamped meanwhile is not
outranked when Redis is back.

    tap:{<n>:<user>}:<content> hash: t, time of the last tap in ms; p, the token of what is pending; r, the register of
                               the last tap that Kafka has
    idem:{<n>:<user>}:<key>    what an Idempotency-Key stands for: fingerprint, event id and time, joined by spaces
"""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uuid_utils
from cachetools import TTLCache

from pipelines.domain.register import EMPTY
from serving.batches import Batches
from serving.cache import FAILURES, REFUSALS, client
from serving.dependency import Away

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from pipelines.settings import Settings
    from serving.dependency import Dependency

_TAP_LIFE_S = 3_600
_REMEMBERED = 100_000
_TOGETHER = 64

# KEYS: tap and idem of each. ARGV: life of a tap, life of a key; then of each event id, fingerprint or "", and a time
# that is too early. Returns of each the event's id and time, the pending token, the fingerprint that the key already
# stood for, the time of the newest tap, and the register of the last one that Kafka has.
_STAMP = """
local clock = redis.call('TIME')
local present = clock[1] * 1000 + math.floor(clock[2] / 1000)
local stamps = {}
for i = 1, #KEYS, 2 do
  local tap, idem, at = KEYS[i], KEYS[i + 1], 3 + (i - 1) / 2 * 3
  local id, fingerprint, early = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local held = redis.call('HMGET', tap, 't', 'p', 'r')
  local known = fingerprint ~= '' and redis.call('GET', idem)
  if known then
    local stood_for, its_id, its_time = string.match(known, '^(%S+) (%S+) (%S+)$')
    stamps[#stamps + 1] = {its_id, its_time, held[2] or '', stood_for, held[1] or its_time, held[3] or '0'}
  else
    local time = string.format('%.0f', math.max(present, tonumber(held[1] or 0) + 1, early + 1))
    redis.call('HSET', tap, 't', time)
    redis.call('EXPIRE', tap, ARGV[1])
    if fingerprint ~= '' then
      redis.call('SET', idem, fingerprint .. ' ' .. id .. ' ' .. time, 'EX', ARGV[2])
    end
    stamps[#stamps + 1] = {id, time, held[2] or '', '', time, held[3] or '0'}
  end
end
return stamps
"""
# KEYS: taps. ARGV: life of a tap; then of each its time, what is pending, and its register in 19 digits or "". The
# newest tap's pending stays, and the greatest register.
_KEEP = """
for i, tap in ipairs(KEYS) do
  local time, pending, register = ARGV[i * 3 - 1], ARGV[i * 3], ARGV[i * 3 + 1]
  local held = redis.call('HMGET', tap, 't', 'r')
  if tonumber(time) >= tonumber(held[1] or 0) then redis.call('HSET', tap, 't', time, 'p', pending) end
  if register ~= '' and register > (held[2] or '') then redis.call('HSET', tap, 'r', register) end
  redis.call('EXPIRE', tap, ARGV[1])
end
"""


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """A tap that wants a stamp; no two are the same."""

    user_id: str
    content_id: str
    event_id: str
    fingerprint: str
    hashed_key: str
    too_early_ms: int


@dataclass(frozen=True, slots=True)
class Stamp:
    """What makes a tap an event.

    Fields:
        event_id: UUIDv7.
        event_ms: Milliseconds since the epoch.
        pending: Token of the user's pending change of the content, empty if there is none.
        conflict: Whether the Idempotency-Key stood for another request before.
        is_newest: Whether the user has tapped the content since; only a repeated request can be older.
        register: Of the user's last tap on the content that Kafka has, as far as that is remembered; else EMPTY.
    """

    event_id: str
    event_ms: int
    pending: str
    conflict: bool
    is_newest: bool
    register: int


@dataclass(frozen=True, slots=True)
class _Tap:
    """A user's last tap on a content, as this process knows it."""

    last_ms: int = 0
    pending: str = ""
    register: int = EMPTY


class Stamps:
    """Stamps taps.

    Args:
        settings: Of Redis.
        service: Redis, as a dependency.
        now: Seconds since the epoch.
    """

    def __init__(self, settings: Settings, service: Dependency, now: Callable[[], float] = time.time) -> None:
        self._service = service
        self._now = now
        self._keys_live_s = settings.serve.idempotency_s
        self._client = client(settings, settings.redis.url.get_secret_value())
        self._stamp = self._client.register_script(_STAMP)
        self._keep = self._client.register_script(_KEEP)
        self._stamping: Batches[_Asked, list[str]] = Batches(self._stamp_all, most=_TOGETHER, flights=1)
        self._keeping: Batches[tuple[str, int, str, str], None] = Batches(self._keep_all, most=_TOGETHER, flights=1)
        self._taps: TTLCache[tuple[str, str], _Tap] = TTLCache(_REMEMBERED, _TAP_LIFE_S)
        # What keys stand for that were first seen while Redis was away.
        self._keys: TTLCache[tuple[str, str], tuple[str, str, int]] = TTLCache(_REMEMBERED, self._keys_live_s)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def stamp(self, user_id: str, content_id: str, fingerprint: str, key: str | None, stored_ms: int) -> Stamp:
        """Stamp a tap.

        Args:
            user_id: Whose.
            content_id: On what.
            fingerprint: Of the request, without spaces.
            key: The client's Idempotency-Key, None if there is none.
            stored_ms: When `user_likes` has the user's last tap on the content, 0 for never.
        """
        event_id = str(uuid_utils.uuid7())
        here = (user_id, content_id)
        known = self._taps.get(here, _Tap())
        hashed = hashlib.sha256(key.encode()).hexdigest() if key is not None else ""
        if stands_for := self._keys.get((user_id, hashed)):
            fingerprint_before, event_id, event_ms = stands_for
            conflict = fingerprint_before != fingerprint
            return Stamp(event_id, event_ms, known.pending, conflict, event_ms >= known.last_ms, known.register)
        early_ms = max(known.last_ms, stored_ms)
        try:
            with self._service.used(FAILURES, REFUSALS):
                found = await self._stamping.ask(
                    _Asked(user_id, content_id, event_id, fingerprint if hashed else "", hashed, early_ms)
                )
        except Away:
            return self._alone(here, event_id, fingerprint, hashed, early_ms)
        conflict, is_newest = found[3] not in {"", fingerprint}, int(found[1]) >= int(found[4])
        register = max(int(found[5]), known.register)
        self._remember(here, int(found[4]), found[2] or known.pending, register)
        return Stamp(found[0], int(found[1]), found[2] or known.pending, conflict, is_newest, register)

    def keep(
        self, user_id: str, content_id: str, event_ms: int, pending: str, register: int = EMPTY
    ) -> asyncio.Future[None]:
        """Remember what is pending; with a register, that Kafka has the tap.

        Returns:
            A future of when Redis has it too, or is found to be away.
        """
        self._remember((user_id, content_id), event_ms, pending, register)
        return self._keeping.put(
            (_tap_key(user_id, content_id), event_ms, pending, f"{register:019d}" if register else "")
        )

    async def _stamp_all(self, asked: list[_Asked]) -> list[list[str]]:
        keys: list[str] = []
        args: list[str | int] = [_TAP_LIFE_S, self._keys_live_s]
        for each in asked:
            keys += [_tap_key(each.user_id, each.content_id), f"idem:{_of_user(each.user_id)}:{each.hashed_key}"]
            args += [each.event_id, each.fingerprint, each.too_early_ms]
        stamps: list[list[str]] = await self._stamp(keys=keys, args=args)
        return stamps

    async def _keep_all(self, kept: list[tuple[str, int, str, str]]) -> list[None]:
        args = [part for _, *parts in kept for part in parts]
        with suppress(Away), self._service.used(FAILURES, REFUSALS):
            await self._keep(keys=[key for key, *_ in kept], args=[_TAP_LIFE_S, *args])
        return [None] * len(kept)

    def _alone(self, here: tuple[str, str], event_id: str, fingerprint: str, hashed: str, early_ms: int) -> Stamp:
        known = self._taps.get(here, _Tap())
        event_ms = max(int(self._now() * 1000), early_ms + 1, known.last_ms + 1)
        if hashed:
            self._keys[here[0], hashed] = fingerprint, event_id, event_ms
        self._remember(here, event_ms, known.pending, known.register)
        return Stamp(event_id, event_ms, known.pending, conflict=False, is_newest=True, register=known.register)

    def _remember(self, here: tuple[str, str], event_ms: int, pending: str, register: int) -> None:
        known = self._taps.get(here, _Tap())
        if event_ms < known.last_ms:
            event_ms, pending = known.last_ms, known.pending
        self._taps[here] = _Tap(event_ms, pending, max(register, known.register))


def _tap_key(user_id: str, content_id: str) -> str:
    return f"tap:{_of_user(user_id)}:{content_id}"


def _of_user(user_id: str) -> str:
    """A user in a key, in braces, so that all of a user's keys are in one slot; the length tells where it ends."""
    return f"{{{len(user_id)}:{user_id}}}"

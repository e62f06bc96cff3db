"""How often one user, or one address, may tap: GCRA in Redis, so burst and long run are one round trip.

While Redis is away each process applies the same limits to what it sees itself: a client that spreads over n processes
gets n times as much, and nobody who behaves is refused.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from throttled.asyncio import MemoryStore, RateLimiterType, RedisStore, Throttled, rate_limiter
from throttled.exceptions import BaseThrottledError

from serving.batches import TogetherRedis
from serving.cache import FAILURES, REFUSALS
from serving.dependency import Away
from serving.metrics import LIMITED
from serving.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipelines.settings import Settings
    from serving.dependency import Dependency

_KEYS = 100_000


class Limits:
    """Refuses what is too often.

    Args:
        settings: Of the limits and Redis.
        service: Redis, as a dependency.
    """

    def __init__(self, settings: Settings, service: Dependency) -> None:
        self._service = service
        timeout_s = settings.serve.redis_timeout_ms / 1000
        shared = RedisStore(
            server=settings.redis.url.get_secret_value(),
            options={
                "SOCKET_CONNECT_TIMEOUT": timeout_s,
                "REDIS_CLIENT_KWARGS": {"timeout_s": timeout_s},
                "REDIS_CLIENT_CLASS": f"{TogetherRedis.__module__}.{TogetherRedis.__qualname__}",
            },
        )
        own = MemoryStore(options={"MAX_SIZE": _KEYS})
        limit = settings.limit
        self._quotas = {
            "user": (limit.user_per_minute, limit.user_burst),
            "address": (limit.address_per_minute, limit.address_burst),
        }
        self._shared = {kind: _throttle(*quota, shared) for kind, quota in self._quotas.items()}
        self._own = {kind: _throttle(*quota, own) for kind, quota in self._quotas.items()}

    async def check(self, kind: str, who: str) -> Mapping[str, str]:
        """Count a tap.

        Args:
            kind: user or address.
            who: Which.

        Returns:
            Headers that say what is left.

        Raises:
            Problem: 429, with Retry-After.
        """
        key = f"limit:{kind}:{who}"
        try:
            with self._service.used(FAILURES, (*REFUSALS, BaseThrottledError)):
                result = await self._shared[kind].limit(key)
        except Away:
            result = await self._own[kind].limit(key)
        state = result.state
        per_minute, burst = self._quotas[kind]
        headers = {
            "RateLimit-Limit": str(state.limit),
            "RateLimit-Remaining": str(state.remaining),
            "RateLimit-Reset": str(math.ceil(state.reset_after)),
            "RateLimit-Policy": f"{per_minute};w=60;burst={burst};comment={kind}",
        }
        if result.limited:
            LIMITED.labels(kind).inc()
            wait_s = max(1, math.ceil(state.retry_after))
            detail = f"too many taps from this {kind}; again in {wait_s} s"
            raise Problem(429, "rate_limited", detail, {**headers, "Retry-After": str(wait_s)})
        return headers


def _throttle(per_minute: int, burst: int, store: RedisStore | MemoryStore) -> Throttled:
    return Throttled(using=RateLimiterType.GCRA.value, quota=rate_limiter.per_min(per_minute, burst=burst), store=store)

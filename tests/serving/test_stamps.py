"""When taps happened, on a real Redis and without one."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from pipelines.domain.register import Reaction, pack
from pipelines.settings import Settings
from serving.dependency import Dependency
from serving.stamps import Stamp, Stamps
from tests.support import FreshSettings

pytestmark = pytest.mark.integration

T = TypeVar("T")


def with_stamps(settings: Settings, use: Callable[[Stamps], Awaitable[T]], now: Callable[[], float] = time.time) -> T:
    async def run() -> T:
        stamps = Stamps(settings, Dependency("redis"), now)
        try:
            return await use(stamps)
        finally:
            await stamps.close()

    return asyncio.run(run())


def without_redis(settings: Settings) -> Settings:
    redis = settings.redis.model_validate({"url": "redis://127.0.0.1:9/0"})
    return settings.model_copy(update={"redis": redis})


def user() -> str:
    return f"u{uuid.uuid4().hex[:8]}"


def test_taps_at_one_moment_are_a_millisecond_apart_in_order(fresh_settings: FreshSettings) -> None:
    who = user()

    async def tap(stamps: Stamps) -> list[Stamp]:
        return await asyncio.gather(*(stamps.stamp(who, "v", f"LIKE:{n}", None, 0) for n in range(200)))

    times = [stamp.event_ms for stamp in with_stamps(fresh_settings(), tap)]
    assert times == sorted(times)
    assert len(set(times)) == 200


@pytest.mark.parametrize("is_away", [False, True])
def test_a_tap_is_later_than_what_is_stored_however_slow_the_clock(
    fresh_settings: FreshSettings, *, is_away: bool
) -> None:
    settings = without_redis(fresh_settings()) if is_away else fresh_settings()
    stored_ms = int(time.time() * 1000) + 20_000
    stamp = with_stamps(settings, lambda stamps: stamps.stamp(user(), "v", "LIKE:v", None, stored_ms))
    assert stamp.event_ms == stored_ms + 1


def test_what_this_server_stamped_without_redis_is_not_outranked_once_redis_is_back(
    fresh_settings: FreshSettings,
) -> None:
    who = user()

    async def tap(stamps: Stamps) -> tuple[int, int]:
        stamps._service.failed("stopped by the test")
        ahead = await stamps.stamp(who, "v", "LIKE:v", None, 0)
        stamps._service.answered()
        return ahead.event_ms, (await stamps.stamp(who, "v", "UNLIKE:v", None, 0)).event_ms

    first, second = with_stamps(fresh_settings(), tap, lambda: time.time() + 10)
    assert first > int(time.time() * 1000) + 5_000
    assert second == first + 1


def test_a_key_stands_for_its_first_request(fresh_settings: FreshSettings) -> None:
    for settings in (fresh_settings(), without_redis(fresh_settings())):
        who = user()

        async def tap(stamps: Stamps, who: str = who) -> tuple[Stamp, Stamp, Stamp]:
            return (
                await stamps.stamp(who, "v", "LIKE:v", "k", 0),
                await stamps.stamp(who, "v", "LIKE:v", "k", 0),
                await stamps.stamp(who, "v", "DISLIKE:v", "k", 0),
            )

        first, again, other = with_stamps(settings, tap)
        assert (again.event_id, again.event_ms, again.conflict) == (first.event_id, first.event_ms, False)
        assert other.conflict


def test_the_newest_taps_pending_change_and_the_greatest_register_stay(fresh_settings: FreshSettings) -> None:
    who, settings = user(), fresh_settings()
    older, newer = pack(1_000, Reaction.LIKE, 0), pack(2_000, Reaction.NONE, 0)

    async def tap(stamps: Stamps) -> None:
        first = await stamps.stamp(who, "v", "LIKE:v", None, 0)
        second = await stamps.stamp(who, "v", "UNLIKE:v", None, 0)
        await stamps.keep(who, "v", second.event_ms, "second", newer)
        await stamps.keep(who, "v", first.event_ms, "first", older)

    with_stamps(settings, tap)
    stamp = with_stamps(settings, lambda stamps: stamps.stamp(who, "v", "LIKE:v", None, 0))
    assert (stamp.pending, stamp.register) == ("second", newer)

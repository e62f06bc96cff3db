"""The write path: a tap becomes an event in Kafka, then the user's own row, and a token to read it back with."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import orjson

from connectors.cassandra import UserLike
from pipelines.domain import register as registers
from pipelines.domain.register import Reaction
from serving import pending as pendings
from serving.dependency import Away
from serving.hot import WINDOW_S, HotItems
from serving.pending import UNSURE, BadToken, Pending
from serving.problems import Problem, unavailable

if TYPE_CHECKING:
    from pipelines.settings import Settings
    from serving.cassandra import Record
    from serving.identity import Identity
    from serving.producer import EventProducer
    from serving.reading import Reader
    from serving.stamps import Stamp, Stamps
    from serving.watch import Watch

_ACTIONS = {Reaction.LIKE: "LIKE", Reaction.DISLIKE: "DISLIKE", Reaction.NONE: "UNLIKE"}


@dataclass(frozen=True, slots=True)
class Accepted:
    """A tap that Kafka has.

    Fields:
        event_id: UUIDv7.
        event_ms: Milliseconds since the epoch.
        token: To read it back with.
        is_superseded: Whether the user has tapped the content since, and this was a repeated request.
    """

    event_id: str
    event_ms: int
    token: str
    is_superseded: bool


class Writer:
    """Takes taps.

    Args:
        settings: Of the service.
        producer: To Kafka.
        stamps: When they happened.
        record: Of users' own reactions.
        reader: Of counts before a tap.
        watch: Knows what is counted.
    """

    def __init__(
        self, settings: Settings, producer: EventProducer, stamps: Stamps, record: Record, reader: Reader, watch: Watch
    ) -> None:
        self._settings = settings
        self._producer = producer
        self._stamps = stamps
        self._record = record
        self._reader = reader
        self._watch = watch
        now = asyncio.get_running_loop().time()
        self.hot = HotItems(settings.serve.hot_writes_per_s, WINDOW_S, now)

    async def react(
        self, who: Identity, content_id: str, reaction: Reaction, *, key: str | None, token: str | None
    ) -> Accepted:
        """Take a tap.

        Args:
            who: The user.
            content_id: On what.
            reaction: What the user thinks now.
            key: The client's Idempotency-Key.
            token: Of the user's former tap on the content, if the client has kept it.

        Raises:
            Problem: 503, Kafka has not acknowledged it; 422, the key stood for another request before.
        """
        user_id = who.user_id
        stored = await _packed(self._record.register(user_id, content_id))
        stored_ms = registers.time_of(stored) if stored else 0
        stamp = await self._stamps.stamp(
            user_id, content_id, f"{_ACTIONS[reaction]}:{_hex(content_id)}", key, stored_ms
        )
        if stamp.conflict:
            raise Problem(422, "idempotency_conflict", "this Idempotency-Key was used for another request")
        base = await self._base(content_id, stamp, token, stored)
        self.hot.saw(content_id, asyncio.get_running_loop().time())
        partition = self._producer.spread(content_id, user_id) if self.hot.is_hot(content_id) else None
        event = {
            "content_id": content_id,
            "user_id": user_id,
            "action": _ACTIONS[reaction],
            "event_time": stamp.event_ms,
            "region": who.region,
            "event_id": stamp.event_id,
        }
        is_newest = stamp.is_newest and stamp.event_ms >= max(
            stored_ms, registers.time_of(stamp.register) if stamp.register else 0
        )
        now = reaction if is_newest else base.now
        unsure = base.followed_by(replace(base, now=now, offsets={0: UNSURE}))
        # Before the event is sent: if its acknowledgement is lost, the next tap goes by the counts from before it.
        self._stamps.keep(user_id, content_id, stamp.event_ms, unsure.token())
        try:
            place = await self._producer.send(content_id, orjson.dumps(event), partition)
        except Away:
            raise unavailable("Kafka") from None
        change = base.followed_by(replace(base, now=now, offsets={place.partition: place.offset}))
        self._reader.tapped(content_id)
        await self._settle(who, content_id, stamp, reaction, change)
        return Accepted(stamp.event_id, stamp.event_ms, change.token(), not is_newest)

    async def _settle(self, who: Identity, content_id: str, stamp: Stamp, reaction: Reaction, change: Pending) -> None:
        """What makes the tap visible to its user; the pipelines repair what fails here."""
        region = self._settings.events.regions.index(who.region)
        like = UserLike(who.user_id, content_id, registers.pack(stamp.event_ms, reaction, region))
        stored = self._record.upsert(like)
        await self._stamps.keep(who.user_id, content_id, stamp.event_ms, change.token(), like.register)
        with suppress(Away):
            await stored

    async def _base(self, content_id: str, stamp: Stamp, token: str | None, stored: int | None) -> Pending:
        """What was before the tap: an earlier change that may not be counted yet, or the counts as they are."""
        committed = self._watch.counting.committed
        for known in (stamp.pending, token):
            if known:
                with suppress(BadToken):
                    earlier = pendings.parse(known)
                    if earlier.content_id == content_id and not earlier.is_counted(committed):
                        return earlier
        read = await self._reader.read_newest(content_id)
        if read is None or (stored is None and not stamp.register):
            return Pending(content_id, 0, 0, None, Reaction.NONE)
        packed = max(stored or registers.EMPTY, stamp.register)
        before = registers.reaction_of(packed) if packed else Reaction.NONE
        total = read.held.total.pn
        return Pending(content_id, total.likes, total.dislikes, before, before)


async def _packed(register: asyncio.Future[int]) -> int | None:
    try:
        return await register
    except Away:
        return None


def _hex(text: str) -> str:
    return text.encode().hex()

"""One client's stream of counts, as server-sent events (HTML, 9.2)."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import orjson
from starlette.responses import Response

from serving.cache import held
from serving.counts import count
from serving.metrics import STREAMS_DROPPED
from serving.reading import Read
from serving.server import ABORT

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from starlette.types import Receive, Scope, Send

    from serving.service import Service
    from serving.stream import Subscriber

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_KEEP_ALIVE_S = 10.0
_AGAIN_S = 1.0


class EventStream(Response):
    """The present counts, then each that changes, until the client goes or takes nothing for too long.

    Args:
        service: The service.
        content_ids: Distinct.
        last_event_id: What the client has heard already, empty for nothing.
        address: Of the client, which has entered the hub.
    """

    def __init__(self, service: Service, content_ids: list[str], last_event_id: str, address: str) -> None:
        super().__init__()
        self._service = service
        self._ids = content_ids
        self._address = address
        self._last = last_event_id
        self._is_stalled = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        hub = self._service.hub
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await self._stream(receive, send)
        finally:
            hub.leave(self._address)
        if self._is_stalled and ABORT in scope:
            scope[ABORT]()  # closing would wait for the client to take what it does not take
        elif hub.ending.is_set():
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _stream(self, receive: Receive, send: Send) -> None:
        hub = self._service.hub
        subscriber = await hub.subscribe(self._service.watch.counting.generation, self._ids)
        leaving = asyncio.ensure_future(_left(receive))
        sending = asyncio.ensure_future(self._send_all(subscriber, send))
        ending = asyncio.ensure_future(hub.ending.wait())
        try:
            await asyncio.wait({leaving, sending, ending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hub.unsubscribe(subscriber)
            for task in (leaving, sending, ending):
                task.cancel()
                with suppress(asyncio.CancelledError, TimeoutError):
                    await task

    async def _send_all(self, subscriber: Subscriber, send: Send) -> None:
        await self._write(send, b"retry: 2000\n\n")
        is_whole = await self._present(subscriber, send, last=self._last)
        while True:
            try:
                await asyncio.wait_for(subscriber.changed.wait(), _KEEP_ALIVE_S if is_whole else _AGAIN_S)
            except TimeoutError:
                if is_whole:
                    await self._write(send, b": still here\n\n")
                else:
                    subscriber.start_over = True
            subscriber.changed.clear()
            if subscriber.start_over:
                subscriber.start_over = False
                is_whole = await self._present(subscriber, send, last="")
            elif subscriber.dirty:
                changed, subscriber.dirty = list(subscriber.dirty), {}
                await self._write(send, self._events(subscriber, changed))

    async def _present(self, subscriber: Subscriber, send: Send, last: str) -> bool:
        """Send what the stores have, except what the client has surely heard; returns whether they had all of it."""
        hub = self._service.hub
        heard = {each for each in self._ids if last and hub.unchanged_since(each, last)}
        subscriber.begin(self._service.watch.counting.generation)
        found = await self._service.reader.read(self._ids, from_stores=True)
        for read in found.values():
            for total in read.held.regions if read else ():
                subscriber.merge(total)
        stale = {each for each, read in found.items() if read is None or read.is_stale}
        wanted = [each for each in self._ids if each not in heard and found[each] is not None]
        for each in wanted:
            subscriber.dirty.pop(each, None)
        if wanted:
            await self._write(send, self._events(subscriber, wanted, stale))
        if subscriber.dirty:
            subscriber.changed.set()
        return not stale

    def _events(self, subscriber: Subscriber, content_ids: Sequence[str], stale: Container[str] = ()) -> bytes:
        """Events; the id comes with the last, for a client that has lost some of them has not heard all."""
        counting, now = self._service.watch.counting, time.monotonic()
        events = []
        for content_id in content_ids:
            totals = subscriber.regions[content_id].values()
            read = Read(held(totals), "memory", counting, is_stale=content_id in stale)
            data = orjson.dumps(count(content_id, read, None, now)).decode()
            events.append(f"event: count\ndata: {data}\n\n")
        events[-1] = f"id: {self._service.hub.event_id(subscriber.place)}\n{events[-1]}"
        return "".join(events).encode()

    async def _write(self, send: Send, body: bytes) -> None:
        message = {"type": "http.response.body", "body": body, "more_body": True}
        try:
            await asyncio.wait_for(send(message), self._service.settings.serve.stream_stall_s)
        except TimeoutError:
            STREAMS_DROPPED.inc()
            self._is_stalled = True
            raise


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

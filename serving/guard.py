"""What every request passes first: sizes, strict UTF-8; what is measured of each; and the shortest way for most."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from starlette.requests import ClientDisconnect, Request

from serving.metrics import REQUESTS, SECONDS
from serving.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from fastapi import FastAPI
    from prometheus_client import Counter, Histogram
    from starlette.responses import Response
    from starlette.types import Message, Receive, Scope, Send

    from pipelines.settings_of_service import ServeSettings

_ENDLESS = "/v1/stream"
_GONE = 499  # as nginx has it; nobody reads the answer
_LABELS = 256
_UNREAD = {400, 413}  # refused before the body was read
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]


@dataclass(frozen=True, slots=True)
class Quick:
    """A route that is answered here, past everything else.

    FastAPI describes it too, and answers other methods on its path.

    Fields:
        method: Of HTTP.
        start: Of the path; the whole of it, where there is no parameter.
        parameter: What the rest of the path is called, empty for none.
        answer: The response to a request.
    """

    method: str
    start: str
    parameter: str
    answer: Callable[[Request], Awaitable[Response]]

    def takes(self, scope: Scope) -> bool:
        """Whether a request is for it."""
        path = scope["path"]
        if scope["method"] != self.method or not path.startswith(self.start):
            return False
        return len(path) > len(self.start) if self.parameter else path == self.start


class Guard:
    """The service as an ASGI application.

    Args:
        app: What comes after.
        options: Sizes and times.
        quick: Routes whose requests are so many that what comes after would cost as much as they do.
    """

    def __init__(self, app: FastAPI, options: ServeSettings, quick: Sequence[Quick] = ()) -> None:
        self._app = app
        self._options = options
        self._quick = quick

    def end_streams(self) -> None:
        """End what would go on for ever."""
        if service := getattr(self._app.state, "service", None):
            service.hub.ending.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500
        started = False
        if scope["method"] == "HEAD" and scope["path"] != _ENDLESS:
            scope = {**scope, "method": "GET"}  # the server's own still says HEAD, so it sends no body

        async def sent(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        quick = next((route for route in self._quick if route.takes(scope)), None)
        try:
            _check_text(scope)
            body = _Body(receive, self._options.max_body_bytes, _length(scope))
            if quick is None:
                await self._app(scope, body, sent)
            else:
                scope["app"] = self._app
                scope["path_params"] = {quick.parameter: scope["path"][len(quick.start) :]}
                response = await quick.answer(Request(scope, body))
                await response(scope, body, sent)
        except ClientDisconnect:
            status = _GONE
        except Problem as problem:
            if started:
                raise
            response = problem.response()
            if problem.status in _UNREAD:
                response.headers["connection"] = "close"  # the rest of the request is not wanted
            await response(scope, receive, sent)
        finally:
            route = quick.start if quick else getattr(scope.get("route"), "path", "none")
            _requests(route, status).inc()
            _seconds(route).observe(time.perf_counter() - began)


@lru_cache(_LABELS)
def _requests(route: str, status: int) -> Counter:
    return REQUESTS.labels(route, str(status))


@lru_cache(_LABELS)
def _seconds(route: str) -> Histogram:
    return SECONDS.labels(route)


class _Body:
    """A request's body as it comes in, and not too much of it. How slowly it may come is the server's business."""

    def __init__(self, receive: Receive, most: int, length: int | None) -> None:
        self._receive = receive
        self._most = most
        self._bytes = 0
        if length is not None and length > most:
            raise self._too_large()

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._bytes += len(message.get("body", b""))
            if self._bytes > self._most:
                raise self._too_large()
        return message

    def _too_large(self) -> Problem:
        return Problem(413, "too_large", f"a request may have {self._most} bytes")


def _check_text(scope: Scope) -> None:
    for part in (scope.get("raw_path") or b"", scope.get("query_string") or b""):
        if b"%" not in part and part.isascii():
            continue
        try:
            unquote_to_bytes(part).decode()
        except UnicodeDecodeError:
            raise Problem(400, "not_utf8", "path and query must be UTF-8") from None


def _length(scope: Scope) -> int | None:
    values: list[Any] = [value for name, value in scope["headers"] if name == b"content-length"]
    return int(values[0]) if values and values[0].isdigit() else None

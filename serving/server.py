"""uvicorn, as this service wants it."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    from pipelines.settings_of_service import ServeSettings
    from serving.guard import Guard

ABORT = "likes.abort"  # in the scope: closes the connection without a word
_BACKLOG = 4_096
_MOST_HEAD_BYTES = 65_536


class Impatient(HttpToolsProtocol):
    """Uvicorn's protocol, but a client whose request does not come in time, or has a huge head, is disconnected.

    Answers are sent without delay: uvloop leaves Nagle's algorithm on for a listener that it was given, and an answer's
    body would wait for the client to acknowledge its headers, 40 ms.
    """

    timeout_s = 10.0
    _patience: asyncio.TimerHandle | None = None
    _head_bytes = 0  # of a request whose head has not ended
    _in_head = False

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401  uvicorn's transport is a union
        """A client has connected."""
        super().connection_made(transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Some of a request has come."""
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > _MOST_HEAD_BYTES:
                self.transport.abort()
        if self.cycle is None or self.cycle.response_complete:
            self._wait()  # what has come begins no request, but it ended uvicorn's own patience

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]
        scope[ABORT] = self.transport.abort
        self._wait()

    def on_headers_complete(self) -> None:
        """Its head is there."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """All of it is there."""
        self._stop_waiting()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(self.timeout_s, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


class _Server(uvicorn.Server):
    """Ends streams when it is asked to end; they would not end by themselves."""

    def __init__(self, config: uvicorn.Config, app: Guard) -> None:
        super().__init__(config)
        self._guard = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down."""
        self._guard.end_streams()
        await super().shutdown(sockets)


def server(app: Guard, host: str, port: int, options: ServeSettings) -> uvicorn.Server:
    """A server that is not started yet."""
    return _Server(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            loop="uvloop",
            http=type("Patient", (Impatient,), {"timeout_s": options.request_timeout_ms / 1000}),
            ws="none",
            backlog=_BACKLOG,
            access_log=False,
            log_level="warning",
            server_header=False,
            proxy_headers=bool(options.trusted_proxies),
            forwarded_allow_ips=options.trusted_proxies or None,
            timeout_graceful_shutdown=5,
        ),
        app,
    )

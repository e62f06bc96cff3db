"""`likes serve` and `likes token`: the HTTP service, and tokens to try it with."""

from __future__ import annotations

import gc
import ipaddress
import socket
import time
from contextlib import suppress
from typing import Annotated

import typer
import uvloop

from cli.common import settings_from_process, tell
from connectors import kafka
from deploy.flink.local_stack import running_stack_env
from deploy.flink.local_stack.paths import stack_dir
from pipelines.domain.events import refusal_of_id
from pipelines.errors import BadInput, LikesError, SettingError
from serving.app import create_app
from serving.identity import development_token, verifier
from serving.server import server

_REACH_S = 0.5


def serve(
    *,
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any that is free.")] = 8080,
) -> None:
    """Take taps and answer counts over HTTP until Ctrl-C.

    Services that are away are waited for; /readyz says which.

    Example: likes serve --port 8080
    """
    settings = settings_from_process()
    folder = stack_dir() if running_stack_env() else None
    auth = settings.auth
    is_own = not (auth.secret.get_secret_value() or auth.public_key_file or auth.jwks_file)
    listener = _listen(host, port)
    # Whoever reaches the page could be anybody: only on this machine it may sign in as who it likes.
    is_here = ipaddress.ip_address(listener.getsockname()[0]).is_loopback
    app = create_app(
        settings,
        verifier(settings, folder),
        folder if is_own and is_here and not settings.serve.trusted_proxies else None,
    )
    if _is_reachable(settings.kafka.bootstrap):
        try:
            kafka.ensure_topics(settings, 1)
        except SettingError:
            raise
        except LikesError as error:
            tell(f"waiting      {error.message}")
    else:
        tell(f"waiting      Kafka at {settings.kafka.bootstrap} does not answer; start it with `likes stack up`")
    gc.collect()
    gc.freeze()  # what is loaded by now stays; a collection that looks at it stops all requests for a tenth of a second
    tell(f"serving      http://{host}:{listener.getsockname()[1]}  (API: /docs)")
    try:
        uvloop.run(server(app, host, port, settings.serve).serve([listener]))
    finally:
        gc.unfreeze()


def token(user: Annotated[str, typer.Argument(help="A user id.", metavar="USER")]) -> None:
    """Print a token for the local stack, good for a day.

    Example: curl -X PUT -H "Authorization: Bearer $(likes token u1)" -H 'Content-Type: application/json'
    -d '{"reaction": "LIKE"}' http://127.0.0.1:8080/v1/reactions/v1
    """
    if refusal := refusal_of_id(user, "user_id"):
        raise BadInput(f"{user!r} can be no user: {refusal}", "user ids have 1 to 64 characters")
    typer.echo(development_token(settings_from_process(), stack_dir(), user, time.time()))


def _is_reachable(bootstrap: str) -> bool:
    """Whether a broker could be spoken to; a client of Kafka would try for ten seconds, and nobody would be served."""
    for place in bootstrap.split(","):
        host, _, port = place.strip().rpartition(":")
        with suppress(OSError, ValueError), socket.create_connection((host.strip("[]"), int(port)), _REACH_S):
            return True
    return False


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "that is no host"
        raise SettingError(f"--host {host[:64]} --port {port}: {why}", "choose another one") from None
    return listener

"""The HTTP service: what a video page calls.

PUT    /v1/reactions/{content_id}      a tap
POST   /v1/videos/{video_id}/like      the same, in short; DELETE takes it back; also /dislike
GET    /v1/counts?ids=a,b              counts of up to a hundred contents; /v1/counts/{content_id} of one
GET    /v1/stream?ids=a,b              counts as they change, server-sent events
GET    /v1/operations                  how the counting does
GET    /healthz /readyz /metrics       for those who run it
GET    /                               a watch page, as an example
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute, APIRouter
from pydantic import ValidationError
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException

from pipelines.domain.register import Reaction
from serving.asked import answered, check_id, content_ids, tokens_by_content
from serving.counts import count, reaction_name
from serving.dependency import Away
from serving.guard import Guard, Quick
from serving.identity import Identity, Verifier
from serving.models import AcceptedOut, CountOut, CountsOut, ProblemOut, ReactionIn
from serving.operations import add_operations, add_page
from serving.problems import Problem, unauthorized, unavailable
from serving.service import Service
from serving.streaming import EventStream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from pipelines.settings import Settings

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
ReactionName = Literal["LIKE", "DISLIKE", "NONE"]
_MOST_KEY_CHARACTERS = 255
_BEARER: list[dict[str, list[str]]] = [{"bearer": []}]
_IDS = {
    "name": "ids",
    "in": "query",
    "schema": {"type": "string"},
    "description": "Content ids, separated by commas. For ids with commas in them repeat `id` instead.",
    "example": "v1,v2",
}
_TOKENS = {
    "name": "Read-Your-Write",
    "in": "header",
    "schema": {"type": "string"},
    "description": "Tokens of the user's own taps, separated by commas.",
}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "minLength": 1, "maxLength": _MOST_KEY_CHARACTERS},
    "description": "Makes a retry the same event.",
}
_PROBLEMS: dict[int | str, dict[str, Any]] = {status: {"model": ProblemOut} for status in (400, 401, 413, 422, 503)}
_TWICE: dict[str, tuple[ReactionName, ReactionName]] = {"like": ("LIKE", "NONE"), "dislike": ("DISLIKE", "NONE")}


class _Plain(APIRoute):
    """A route that reads its request and writes its response itself; FastAPI only describes it.

    What FastAPI would do besides costs as much as everything else that a read takes.
    """

    def get_route_handler(self) -> Handler:
        """The endpoint itself."""
        endpoint: Handler = self.endpoint
        return endpoint


class _Any(Convertor[str]):
    """What is left of a path, line breaks too: an id is refused by name, not as a path that is not there."""

    regex = "(?s:.+)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("any", _Any())


def create_app(settings: Settings, verifier: Verifier, dev_folder: Path | None = None) -> Guard:
    """The service as an ASGI application.

    Args:
        settings: Of everything.
        verifier: Of tokens.
        dev_folder: Of the local stack whose development tokens the page may ask for; None: it may not.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service = Service(settings)
        app.state.service = service
        service.start()
        try:
            yield
        finally:
            await service.close()

    app = FastAPI(
        title="Likes counter",
        version=version("likes-counter"),
        description=(__doc__ or "").partition("\n")[0],
        lifespan=lifespan,
        docs_url="/docs",
        redoc_url=None,
    )
    _describe_tokens(app)
    _add_errors(app)
    quick = [_add_writes(app, verifier), _add_reads(app, verifier, settings)]
    add_operations(app)
    add_page(app, settings, dev_folder)
    return Guard(app, settings.serve, quick)


def _describe_tokens(app: FastAPI) -> None:
    described = app.openapi

    def with_tokens() -> dict[str, Any]:
        schema = described()
        schemes = schema.setdefault("components", {}).setdefault("securitySchemes", {})
        schemes["bearer"] = {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
        return schema

    app.openapi = with_tokens  # type: ignore[method-assign]


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(Problem)
    async def _problem(_request: Request, problem: Problem) -> Response:
        return problem.response()

    @app.exception_handler(RequestValidationError)
    async def _invalid(_request: Request, error: RequestValidationError) -> Response:
        return _invalid_request(error, ()).response()

    @app.exception_handler(HTTPException)
    async def _other(_request: Request, error: HTTPException) -> Response:
        return Problem(error.status_code, "http_error", str(error.detail), error.headers).response()


def _invalid_request(error: RequestValidationError | ValidationError, within: tuple[str, ...]) -> Problem:
    first = error.errors()[0]
    place = ".".join(str(part) for part in (*within, *first["loc"]))
    return Problem(422, "invalid_request", f"{place}: {first['msg']}")


def _add_writes(app: FastAPI, verifier: Verifier) -> Quick:
    def signed_in(request: Request) -> Identity:
        who = verifier.identity(request.headers.get("authorization"))
        if who is None:
            raise unauthorized("a tap needs a bearer token")
        return who

    async def react(request: Request, who: Identity, content_id: str, wanted: ReactionName) -> Response:
        service: Service = request.app.state.service
        check_id(content_id)
        key = request.headers.get("idempotency-key")
        if key is not None and not 1 <= len(key) <= _MOST_KEY_CHARACTERS:
            raise Problem(400, "bad_key", f"an Idempotency-Key has 1 to {_MOST_KEY_CHARACTERS} characters")
        tokens = tokens_by_content(request)
        address = request.client.host if request.client else "unknown"
        await service.limits.check("address", address)
        headers = await service.limits.check("user", who.user_id)
        accepted = await service.writer.react(
            who,
            content_id,
            Reaction[wanted],
            key=key,
            token=tokens[content_id].token() if content_id in tokens else None,
        )
        return answered(
            {
                "event_id": accepted.event_id,
                "content_id": content_id,
                "reaction": wanted,
                "event_time": accepted.event_ms,
                "superseded": accepted.is_superseded,
                "token": accepted.token,
            },
            202,
            headers,
        )

    async def put_reaction(request: Request) -> Response:
        """Say what the signed-in user thinks of a content."""
        who = signed_in(request)
        try:
            wanted = ReactionIn.model_validate_json(await request.body()).reaction
        except ValidationError as error:
            raise _invalid_request(error, ("body",)) from None
        return await react(request, who, request.path_params["content_id"], wanted)

    def shorthand(wanted: ReactionName, doc: str) -> Handler:
        async def tap(request: Request) -> Response:
            return await react(request, signed_in(request), request.path_params["video_id"], wanted)

        tap.__doc__ = doc
        return tap

    router = APIRouter(route_class=_Plain)
    described: dict[str, Any] = {
        "status_code": 202,
        "response_model": AcceptedOut,
        "responses": {**_PROBLEMS, 429: {"model": ProblemOut}},
    }
    body = {"required": True, "content": {"application/json": {"schema": ReactionIn.model_json_schema()}}}
    router.put(
        "/v1/reactions/{content_id:any}",
        **described,
        openapi_extra={"security": _BEARER, "parameters": [_path("content_id"), _KEY], "requestBody": body},
    )(put_reaction)
    for word, (on, off) in _TWICE.items():
        path = f"/v1/videos/{{video_id:any}}/{word}"
        extra = {"security": _BEARER, "parameters": [_path("video_id"), _KEY]}
        router.post(path, **described, openapi_extra=extra, name=f"post_{word}")(
            shorthand(on, f"The signed-in user {word}s a video.")
        )
        router.delete(path, **described, openapi_extra=extra, name=f"delete_{word}")(
            shorthand(off, f"The signed-in user takes a {word} back.")
        )
    app.include_router(router)
    return Quick("PUT", "/v1/reactions/", "content_id", put_reaction)


def _path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1, "maxLength": 64}}


def _add_reads(app: FastAPI, verifier: Verifier, settings: Settings) -> Quick:
    async def answer(request: Request, content_ids: Sequence[str]) -> tuple[list[dict[str, object]], bool]:
        service: Service = request.app.state.service
        who = verifier.identity(request.headers.get("authorization"))
        tokens = tokens_by_content(request)
        # A replica may be behind what is known to be counted.
        from_stores = bool(tokens and settings.serve.redis_replica.get_secret_value())
        found = await service.reader.read(list(dict.fromkeys(content_ids)), from_stores=from_stores)
        now = time.monotonic()
        counts = [count(each, found[each], tokens.get(each), now) for each in content_ids]
        if who is not None:
            registers = await _registers(service, who, content_ids)
            for entry in counts:
                register = None if registers is None else registers.get(str(entry["content_id"]), 0)
                entry["my_reaction"] = None if register is None else reaction_name(register)
        standing = service.dependencies
        return counts, not (standing["redis"].standing.up and standing["cassandra"].standing.up)

    extra = {"security": [{}, *_BEARER], "parameters": [_IDS, _TOKENS]}
    router = APIRouter(route_class=_Plain)

    @router.get("/v1/counts", response_model=CountsOut, responses=_PROBLEMS, openapi_extra=extra)
    async def get_counts(request: Request) -> Response:
        """Counts of some contents, and with a token what the user thinks of each."""
        counts, degraded = await answer(request, content_ids(request, settings))
        if counts and all(entry["source"] == "none" for entry in counts):
            raise unavailable("neither Redis nor Cassandra")
        return answered({"counts": counts, "degraded": degraded})

    @router.get("/v1/stream", responses={**_PROBLEMS, 200: {"content": {"text/event-stream": {}}}}, openapi_extra=extra)
    async def get_stream(request: Request) -> Response:
        """Counts of some contents as they change: server-sent events of type `count`."""
        service: Service = request.app.state.service
        ids = list(dict.fromkeys(content_ids(request, settings)))
        address = request.client.host if request.client else "unknown"
        if not service.hub.enter(address):
            raise Problem(503, "too_many_streams", "there are as many streams as are allowed", {"Retry-After": "30"})
        return EventStream(service, ids, request.headers.get("last-event-id", ""), address)

    one = {"security": [{}, *_BEARER], "parameters": [_path("content_id"), _TOKENS]}

    @router.get("/v1/counts/{content_id:any}", response_model=CountOut, responses=_PROBLEMS, openapi_extra=one)
    async def get_count(request: Request) -> Response:
        """The same of one content."""
        content_id = request.path_params["content_id"]
        check_id(content_id)
        (entry,), _ = await answer(request, [content_id])
        if entry["source"] == "none":
            raise unavailable("neither Redis nor Cassandra")
        return answered(entry)

    app.include_router(router)
    return Quick("GET", "/v1/counts", "", get_counts)


async def _registers(service: Service, who: Identity, content_ids: Sequence[str]) -> dict[str, int] | None:
    try:
        return await service.record.registers(who.user_id, list(dict.fromkeys(content_ids)))
    except Away:
        return None

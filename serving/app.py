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
from urllib.parse import urlsplit

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute, APIRouter
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import ValidationError
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException

from pipelines.domain.events import refusal_of_id
from pipelines.domain.register import Reaction
from serving import pending as pendings
from serving.counts import count, reaction_name
from serving.dependency import Away
from serving.guard import Guard, Quick
from serving.identity import Identity, Verifier, development_token
from serving.models import AcceptedOut, CountOut, CountsOut, OperationsOut, ProblemOut, ReactionIn, ReadinessOut
from serving.page import PAGE, SECURITY
from serving.pending import BadToken, Pending
from serving.problems import Problem, unauthorized, unavailable
from serving.service import Service
from serving.streaming import EventStream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
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
_HERE = {"127.0.0.1", "localhost", "::1"}
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
    _add_operations(app)
    _add_page(app, settings, dev_folder)
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
        _check_id(content_id)
        key = request.headers.get("idempotency-key")
        if key is not None and not 1 <= len(key) <= _MOST_KEY_CHARACTERS:
            raise Problem(400, "bad_key", f"an Idempotency-Key has 1 to {_MOST_KEY_CHARACTERS} characters")
        tokens = _tokens(request)
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
        return _json(
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
        tokens = _tokens(request)
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
        counts, degraded = await answer(request, _ids(request, settings))
        if counts and all(entry["source"] == "none" for entry in counts):
            raise unavailable("neither Redis nor Cassandra")
        return _json({"counts": counts, "degraded": degraded})

    @router.get("/v1/stream", responses={**_PROBLEMS, 200: {"content": {"text/event-stream": {}}}}, openapi_extra=extra)
    async def get_stream(request: Request) -> Response:
        """Counts of some contents as they change: server-sent events of type `count`."""
        service: Service = request.app.state.service
        ids = list(dict.fromkeys(_ids(request, settings)))
        address = request.client.host if request.client else "unknown"
        if not service.hub.enter(address):
            raise Problem(503, "too_many_streams", "there are as many streams as are allowed", {"Retry-After": "30"})
        return EventStream(service, ids, request.headers.get("last-event-id", ""), address)

    one = {"security": [{}, *_BEARER], "parameters": [_path("content_id"), _TOKENS]}

    @router.get("/v1/counts/{content_id:any}", response_model=CountOut, responses=_PROBLEMS, openapi_extra=one)
    async def get_count(request: Request) -> Response:
        """The same of one content."""
        content_id = request.path_params["content_id"]
        _check_id(content_id)
        (entry,), _ = await answer(request, [content_id])
        if entry["source"] == "none":
            raise unavailable("neither Redis nor Cassandra")
        return _json(entry)

    app.include_router(router)
    return Quick("GET", "/v1/counts", "", get_counts)


async def _registers(service: Service, who: Identity, content_ids: Sequence[str]) -> dict[str, int] | None:
    try:
        return await service.record.registers(who.user_id, list(dict.fromkeys(content_ids)))
    except Away:
        return None


def _add_operations(app: FastAPI) -> None:
    def dependencies(service: Service) -> dict[str, dict[str, object]]:
        standings = {name: dependency.standing for name, dependency in service.dependencies.items()}
        return {
            name: {"up": it.up, "detail": it.detail, "since_ms": round(it.since_s * 1000)}
            for name, it in standings.items()
        }

    @app.get("/healthz")
    async def get_health() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "ok"}

    @app.get("/readyz", response_model=ReadinessOut, responses={503: {"model": ReadinessOut}})
    async def get_readiness(request: Request) -> Response:
        """Whether taps are taken and counts can be read; `dependencies` says which service is away."""
        service: Service = request.app.state.service
        found = dependencies(service)
        stores = found["redis"]["up"] or found["cassandra"]["up"]
        ready = bool(found["kafka"]["up"] and stores and service.watch.counting.is_known)
        return _json({"ready": ready, "dependencies": found}, 200 if ready else 503)

    @app.get("/metrics", include_in_schema=False)
    async def get_metrics() -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/v1/operations", response_model=OperationsOut)
    async def get_operations(request: Request) -> Response:
        """How the counting does, as of a second ago."""
        service: Service = request.app.state.service
        counting = service.watch.counting
        age_s = counting.staleness_s(time.monotonic())
        return _json(
            {
                "generation": counting.generation,
                "events": sum(counting.ends.values()),
                "events_per_s": round(counting.events_per_s, 1),
                "lag": counting.lag,
                "staleness_ms": None if age_s is None else round(age_s * 1000),
                "dead_letters": counting.dead_letters,
                "hot_reads": _hot(service.reader.hot.hottest()),
                "hot_writes": _hot(service.writer.hot.hottest()),
                "streams": service.hub.clients,
                "dependencies": dependencies(service),
            }
        )


def _add_page(app: FastAPI, settings: Settings, dev_folder: Path | None) -> None:
    @app.get("/", include_in_schema=False)
    async def get_page() -> Response:
        return Response((PAGE / "index.html").read_bytes(), media_type="text/html; charset=utf-8", headers=SECURITY)

    app.mount("/page", StaticFiles(directory=PAGE))
    if dev_folder is None:
        return
    folder = dev_folder

    @app.post("/dev/token/{user_id}", include_in_schema=False)
    async def post_token(request: Request, user_id: str) -> dict[str, str]:
        # Another page, or a name that somebody lets point here, is not this page.
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if urlsplit(f"//{host}").hostname not in _HERE or (origin is not None and urlsplit(origin).netloc != host):
            raise Problem(403, "not_here", "development tokens are for the page of this machine")
        _check_id(user_id, "user_id")
        return {"token": development_token(settings, folder, user_id, time.time())}


def _hot(items: dict[str, float]) -> list[dict[str, object]]:
    return [{"content_id": item, "per_s": round(per_s, 1)} for item, per_s in list(items.items())[:20]]


def _ids(request: Request, settings: Settings) -> list[str]:
    query = request.query_params
    ids = [part for text in query.getlist("ids") for part in text.split(",")] + query.getlist("id")
    if not ids:
        raise Problem(400, "no_ids", "say which contents: ?ids=v1,v2")
    if len(ids) > settings.serve.max_ids:
        raise Problem(400, "too_many_ids", f"at most {settings.serve.max_ids} ids in one request")
    for content_id in ids:
        _check_id(content_id)
    return ids


def _check_id(content_id: str, name: str = "content_id") -> None:
    if refusal := refusal_of_id(content_id, name):
        raise Problem(400, "bad_id", refusal)


def _tokens(request: Request) -> dict[str, Pending]:
    header = request.headers.get("read-your-write")
    found: dict[str, Pending] = {}
    for text in header.split(",") if header else ():
        try:
            pending = pendings.parse(text.strip())
        except BadToken as error:
            raise Problem(400, "bad_token", f"Read-Your-Write: {error}") from None
        found[pending.content_id] = pending
    return found


def _json(document: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    all_headers = {"Cache-Control": "no-store", **(headers or {})}
    return Response(orjson.dumps(document), status, all_headers, "application/json")

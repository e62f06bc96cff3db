"""What those who run the service look at: health, readiness, metrics, how the counting does; and the example page."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fastapi import FastAPI, Request, Response
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from serving.asked import answered, check_id
from serving.identity import development_token
from serving.models import OperationsOut, ReadinessOut
from serving.page import PAGE, SECURITY
from serving.problems import Problem
from serving.service import Service

if TYPE_CHECKING:
    from pathlib import Path

    from pipelines.settings import Settings

_HERE = {"127.0.0.1", "localhost", "::1"}


def add_operations(app: FastAPI) -> None:
    """Add the routes of health, readiness, metrics and operations."""

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
        return answered({"ready": ready, "dependencies": found}, 200 if ready else 503)

    @app.get("/metrics", include_in_schema=False)
    async def get_metrics() -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/v1/operations", response_model=OperationsOut)
    async def get_operations(request: Request) -> Response:
        """How the counting does, as of a second ago."""
        service: Service = request.app.state.service
        counting = service.watch.counting
        age_s = counting.staleness_s(time.monotonic())
        return answered(
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


def add_page(app: FastAPI, settings: Settings, dev_folder: Path | None) -> None:
    """Add the watch page and, for the local stack alone, its development tokens.

    Args:
        app: The service.
        settings: Of everything.
        dev_folder: Of the local stack, None where there are no such tokens.
    """

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
        check_id(user_id, "user_id")
        return {"token": development_token(settings, folder, user_id, time.time())}


def _hot(items: dict[str, float]) -> list[dict[str, object]]:
    return [{"content_id": item, "per_s": round(per_s, 1)} for item, per_s in list(items.items())[:20]]

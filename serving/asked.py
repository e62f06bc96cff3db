"""What the routes read of a request, and how they answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
from fastapi import Request, Response

from pipelines.domain.events import refusal_of_id
from serving import pending as pendings
from serving.pending import BadToken, Pending
from serving.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipelines.settings import Settings


def content_ids(request: Request, settings: Settings) -> list[str]:
    """The contents that a query asks for.

    Raises:
        Problem: 400, there are none or too many, or one can be no id.
    """
    query = request.query_params
    ids = [part for text in query.getlist("ids") for part in text.split(",")] + query.getlist("id")
    if not ids:
        raise Problem(400, "no_ids", "say which contents: ?ids=v1,v2")
    if len(ids) > settings.serve.max_ids:
        raise Problem(400, "too_many_ids", f"at most {settings.serve.max_ids} ids in one request")
    for content_id in ids:
        check_id(content_id)
    return ids


def check_id(content_id: str, name: str = "content_id") -> None:
    """Refuse what can be no id. Raises Problem: 400."""
    if refusal := refusal_of_id(content_id, name):
        raise Problem(400, "bad_id", refusal)


def tokens_by_content(request: Request) -> dict[str, Pending]:
    """The user's own taps that the Read-Your-Write header tells of. Raises Problem: 400."""
    header = request.headers.get("read-your-write")
    found: dict[str, Pending] = {}
    for text in header.split(",") if header else ():
        try:
            pending = pendings.parse(text.strip())
        except BadToken as error:
            raise Problem(400, "bad_token", f"Read-Your-Write: {error}") from None
        found[pending.content_id] = pending
    return found


def answered(document: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer that nobody may keep."""
    all_headers = {"Cache-Control": "no-store", **(headers or {})}
    return Response(orjson.dumps(document), status, all_headers, "application/json")

"""What becomes of a request that cannot be answered: a problem document (RFC 9457) that says whose fault it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
from fastapi import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

MEDIA_TYPE = "application/problem+json"


class Problem(Exception):
    """Ends a request.

    Args:
        status: HTTP status.
        code: A word for programs, such as `rate_limited`.
        detail: A sentence for people.
        headers: Besides the usual ones.
    """

    def __init__(self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})

    def response(self) -> Response:
        """As it is sent."""
        document = {"title": self.code, "status": self.status, "detail": self.detail}
        return Response(orjson.dumps(document), self.status, self.headers, MEDIA_TYPE)


def unavailable(service: str, retry_after_s: int = 1) -> Problem:
    """A service that is needed does not answer; nothing has been done that a retry would do twice."""
    return Problem(503, "unavailable", f"{service} does not answer; try again", {"Retry-After": str(retry_after_s)})


def unauthorized(why: str) -> Problem:
    """There is no valid token."""
    return Problem(
        401, "unauthorized", why, {"WWW-Authenticate": f'Bearer error="invalid_token", error_description="{why}"'}
    )

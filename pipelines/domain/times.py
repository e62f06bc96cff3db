"""Times for people and scripts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

_KNOWN = 65_536  # a page shows the same times again and again


@lru_cache(_KNOWN)
def iso(time_ms: int) -> str | None:
    """ISO 8601 in UTC with milliseconds; None for 0, which stands for no time. Milliseconds since the epoch."""
    if not time_ms:
        return None
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

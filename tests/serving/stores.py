"""Counts in the stores, as a job would have put them there."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

from connectors.cassandra import CassandraSession, Fences, Generations, Lease, Leases, Pointer, open_session
from connectors.store import TotalsWriter, lease_name
from pipelines.settings import Settings

_OWNER = "the test's job"
_NOW_MS = 1_767_225_600_123


@contextmanager
def live_generation(settings: Settings) -> Iterator[tuple[CassandraSession, int]]:
    """A session, and a generation that readers see."""
    with open_session(settings) as session:
        generation = Generations(session).create_next(
            json.dumps({"id": "0123456789ab", **settings.events.model_dump(include={"regions", "home_region"})}),
            _NOW_MS,
        )
        live = Pointer(session).read()
        assert Pointer(session).compare_and_set(live, generation)
        yield session, generation


def write(settings: Settings, session: CassandraSession, generation: int, *rows: tuple[str, str, int, int]) -> None:
    """Store (content, region, likes, dislikes) in both stores."""
    lease = Leases(session).acquire(
        Lease(lease_name(generation), _OWNER, "here", 1, "test", _NOW_MS), settings.job.lease_ttl_s
    )
    ids, regions, likes, dislikes = zip(*rows, strict=True)
    zeros, changes = [0] * len(rows), [number + 1 for number in range(len(rows))]
    Fences(session).claim(generation, _OWNER)
    with TotalsWriter(settings, generation, lease, 0) as writer:
        writer.write(ids, regions, likes, zeros, dislikes, zeros, changes, [int(time.time() * 1000)] * len(rows))

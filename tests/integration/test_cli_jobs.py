"""`likes job list | savepoint | stop` where nothing has been counted: they say so and create nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from connectors.cassandra import has_schema, open_session
from pipelines.settings import Settings
from tests.support import Likes

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def _no_keyspace_appears(settings: Settings) -> Iterator[None]:
    yield
    with open_session(settings) as session:
        assert not has_schema(session, settings)
        assert not session.rows(
            "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?", (session.keyspace,)
        )


def test_nothing_is_listed(likes: Likes, settings: Settings) -> None:
    listed = likes("job", "list", "--json", settings=settings)
    assert (listed.returncode, json.loads(listed.stdout)) == (0, [])


@pytest.mark.parametrize("verb", ["savepoint", "stop"])
def test_there_is_nothing_to_stop(likes: Likes, settings: Settings, verb: str) -> None:
    refused = likes("job", verb, settings=settings)
    assert refused.returncode == 3
    assert "nothing has been counted yet" in refused.stderr

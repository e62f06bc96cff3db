"""One stack of real services for the whole session, and settings on it that tests do not share."""

from __future__ import annotations

import itertools
import signal
import subprocess
import uuid
from collections.abc import Iterator, Mapping

import pytest
import redis

from deploy.flink.local_stack import Stack
from pipelines.settings import Settings, load_settings
from tests.support import CLI, ROOT, FreshSettings, Likes, cli_environment, running_stack

_REDIS_DATABASES = 16
# Started in the background by a shell, we would ignore interrupts and so would everything that we start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Kafka, Cassandra and Redis on free ports, with nothing in them; gone afterwards, whatever happens."""
    with running_stack(tmp_path_factory.mktemp("stack")) as started:
        yield started


@pytest.fixture(scope="session")
def fresh_settings(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> FreshSettings:
    """See `FreshSettings`. Topics and keyspace are named, not created; the Redis database is emptied."""
    numbers = itertools.cycle(range(_REDIS_DATABASES))

    def make(**sections: Mapping[str, object]) -> Settings:
        unique = uuid.uuid4().hex[:10]
        url = f"{stack.env()['REDIS_URL'].removesuffix('/0')}/{next(numbers)}"
        with redis.Redis.from_url(url) as client:
            client.flushdb()
        own: dict[str, Mapping[str, object]] = {
            "kafka": {
                "events_topic": f"like-events-{unique}",
                "dead_letters_topic": f"like-events-{unique}.dlq",
                "counts_topic": f"content-counts-{unique}",
            },
            "cassandra": {"keyspace": f"likes_{unique}"},
            "redis": {"url": url},
            "job": {"state_dir": str(tmp_path_factory.mktemp("state"))},
        }
        names = own.keys() | sections.keys()
        flags = {name: {**own.get(name, {}), **sections.get(name, {})} for name in names}
        return load_settings({}, stack=stack.env(), flags=flags)

    return make


@pytest.fixture
def settings(fresh_settings: FreshSettings) -> Settings:
    """Settings of this test alone."""
    return fresh_settings()


@pytest.fixture(scope="session")
def likes(stack: Stack) -> Likes:
    """See `Likes`."""

    def run(
        *arguments: str, settings: Settings | None = None, stdin: bytes = b"", timeout_s: float = 180.0
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*CLI, *arguments],
            input=stdin,
            capture_output=True,
            cwd=ROOT,
            env=cli_environment(stack, settings),
            timeout=timeout_s,
            check=False,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    return run

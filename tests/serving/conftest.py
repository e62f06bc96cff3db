"""The service as a process, on the session's stack."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import httpx
import jwt
import pytest

from connectors.cassandra import ensure_schema, open_session
from connectors.kafka import ensure_topics
from deploy.flink.local_stack import Stack
from pipelines.settings import Settings
from tests.support import CLI, ROOT, FreshSettings, cli_environment, wait_until

SECRET = "a secret of thirty-two bytes or more"  # noqa: S105
_START_S = 60.0
_ADDRESS = re.compile(r"http://127\.0\.0\.1:[0-9]+")

FAST = {"user_per_minute": 1_000_000, "user_burst": 100_000, "address_per_minute": 1_000_000, "address_burst": 100_000}


class Served:
    """A running service.

    Fields:
        url: Where.
        process: What runs.
        client: For requests.
    """

    def __init__(self, process: subprocess.Popen[bytes], url: str, log: Path) -> None:
        self.process = process
        self.url = url
        self.client = httpx.Client(base_url=url, timeout=30.0)
        self.log = log

    def metric(self, name: str, **labels: str) -> float:
        """The value of a metric, 0 if it was never set."""
        wanted = name + ("{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}" if labels else "")
        for line in self.client.get("/metrics").text.splitlines():
            sample, _, value = line.rpartition(" ")
            if sample == wanted:
                return float(value)
        return 0.0

    def is_ready(self) -> bool:
        """Whether everything that it needs answers."""
        answer = self.client.get("/readyz")
        return answer.status_code == 200 and all(it["up"] for it in answer.json()["dependencies"].values())


class Serve(Protocol):
    """Runs the service for the length of a block."""

    def __call__(self, settings: Settings, *, ready: bool = True) -> AbstractContextManager[Served]: ...


def bearer(user: str, **claims: object) -> dict[str, str]:
    """An Authorization header for a user."""
    made = {"sub": user, "iss": "likes", "aud": "likes", "exp": time.time() + 3_600, **claims}
    return {"Authorization": f"Bearer {jwt.encode(made, SECRET)}"}


@pytest.fixture(scope="session")
def serve(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Serve:
    """Runs `likes serve` for the length of a block, once everything answers."""

    @contextmanager
    def run(settings: Settings, *, ready: bool = True) -> Iterator[Served]:
        log = tmp_path_factory.mktemp("serve") / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*CLI, "serve", "--port", "0"],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env=cli_environment(stack, settings),
            )
        try:
            found = wait_until(lambda: _ADDRESS.search(log.read_text()) or process.poll(), _START_S, what="its address")
            assert isinstance(found, re.Match), log.read_text()
            served = Served(process, found[0], log)
            wait_until(lambda: _answers(served, ready=ready), _START_S, what=f"readiness: {log.read_text()}")
            yield served
            served.client.close()
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    return run


def _answers(served: Served, *, ready: bool) -> bool:
    assert served.process.poll() is None, served.log.read_text()
    try:
        return served.is_ready() if ready else served.client.get("/healthz").status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture(scope="session")
def service_settings(fresh_settings: FreshSettings) -> Callable[..., Settings]:
    """Settings for a service whose topics and tables exist, with limits that tests do not meet."""

    def make(**sections: dict[str, object]) -> Settings:
        own: dict[str, dict[str, object]] = {"auth": {"secret": SECRET}, "limit": dict(FAST)}
        merged = {name: {**own.get(name, {}), **sections.get(name, {})} for name in own.keys() | sections.keys()}
        settings = fresh_settings(**merged)
        ensure_topics(settings, 1)
        with open_session(settings) as session:
            ensure_schema(session, settings)
        return settings

    return make

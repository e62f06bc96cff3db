"""The HTTP service under load: pages of 21 counts and taps, one worker, on counts that a job has counted.

The load comes from wrk, beside it on the same cores: so many connections, each of which asks again once it is answered.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import httpx
import jwt
import redis

from bench.check import assert_exact, insist
from bench.fresh import environment_of
from bench.report import Row
from bench.workloads import SEED, ZIPF
from connectors import kafka
from connectors.redis import count_key
from deploy.flink.local_stack.ports import HOST, free_port
from pipelines.errors import ServiceUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench.counting import Bench, Filled
    from pipelines.settings import Settings

_WRK = Path(__file__).parent / "wrk"
_SECRET = "the benchmark's own, of thirty-two bytes"  # noqa: S105
_NO_LIMITS = dict.fromkeys(("user_per_minute", "user_burst", "address_per_minute", "address_burst"), 10_000_000)
_EVENTS = 200_000
_PAGE, _PAGES, _USERS = 21, 500, 2_000
_READERS, _WRITERS = (1, 2, 4, 8, 16, 32), (8, 32, 128)
_RUN_S = 8
_START_S = 60.0
_REST_S = 1.0
_GENERATION = 1


@dataclass(frozen=True, slots=True)
class Load:
    """What wrk says of one run.

    Fields:
        rate: Requests answered per second.
        requests: How many.
        p50_ms: Median of the times from asking to the whole answer.
        p99_ms: What 99 % of them do not exceed.
    """

    rate: float
    requests: int
    p50_ms: float
    p99_ms: float


def serving(bench: Bench, runs: int) -> Iterator[Row]:
    """Reads at ever more connections beside a bare client of Redis, then taps.

    Raises:
        ServiceUnavailable: wrk is not installed.
        AssertionError: A count that was served is wrong, a request was not answered, or a tap is not in the log.
    """
    filled = _counted(bench)
    with _service(bench, filled.settings) as url, tempfile.TemporaryDirectory(prefix="likes-bench-") as folder:
        _assert_served(url, filled)
        pages = _pages(filled)
        (Path(folder) / "paths").write_text("".join(f"/v1/counts?ids={','.join(page)}\n" for page in pages))
        (Path(folder) / "tokens").write_text("".join(f"{_token(f'u{number}')}\n" for number in range(_USERS)))
        (Path(folder) / "contents").write_text("".join(f"{content_id}\n" for content_id in filled.log.truth))
        given = {name.upper(): f"{folder}/{name}" for name in ("paths", "tokens", "contents")}
        _wrk(url, "reads", given, connections=16, seconds=_RUN_S)  # warm
        bare = [_bare(filled.settings, pages, _RUN_S) for _ in range(runs)]
        yield _row("bare pipelined client", "21 keys", bare)
        for connections in _READERS:
            loads = [_wrk(url, "reads", given, connections=connections, seconds=_RUN_S) for _ in range(runs)]
            more = {"over_bare": round(median(load.rate for load in loads) / median(bare), 2)}
            bench.tell(f"reads, {connections} connections: {_said(loads)}")
            yield _row("counts of 21", f"{connections} connections", loads, connections=connections, **more)
        for connections in _WRITERS:
            loads = []
            for _ in range(runs):
                before = _log_length(filled.settings)
                loads.append(_wrk(url, "writes", given, connections=connections, seconds=_RUN_S))
                _assert_logged(filled.settings, before, loads[-1], connections)
            bench.tell(f"taps, {connections} connections: {_said(loads)}")
            yield _row("taps", f"{connections} connections", loads, connections=connections)


def _counted(bench: Bench) -> Filled:
    """A log that a job has counted into both stores."""
    if shutil.which("wrk") is None:
        raise ServiceUnavailable("wrk is not installed", "install it: apt-get install wrk, or brew install wrk")
    filled = bench.fill(ZIPF, _EVENTS)
    settings = filled.settings
    updated = settings.model_copy(
        update={
            "auth": settings.auth.model_validate({"secret": _SECRET}),
            "limit": settings.limit.model_validate(_NO_LIMITS),
        }
    )
    filled = replace(filled, settings=updated)
    subprocess.run(
        [sys.executable, "-m", "cli.main", "job", "run", "--bounded"],
        env=environment_of(bench.stack, filled.settings),
        check=True,
    )
    return filled


@contextmanager
def _service(bench: Bench, settings: Settings) -> Iterator[str]:
    """`likes serve`, until the end of the block; yields its address once it is ready."""
    url = f"http://{HOST}:{free_port(set())}"
    with subprocess.Popen(
        [sys.executable, "-m", "cli.main", "serve", "--port", url.rpartition(":")[2]],
        env=environment_of(bench.stack, settings),
    ) as process:
        try:
            deadline = time.monotonic() + _START_S
            while not _is_ready(url):
                if time.monotonic() > deadline:
                    raise RuntimeError("the service is not ready")
                time.sleep(0.2)
            yield url
        finally:
            process.terminate()


def _is_ready(url: str) -> bool:
    try:
        ready = httpx.get(f"{url}/readyz").status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
    return ready and httpx.get(f"{url}/v1/operations").json()["generation"] == _GENERATION


def _token(user_id: str) -> str:
    claims = {"sub": user_id, "iss": "likes", "aud": "likes", "exp": int(time.time()) + 86_400}
    return jwt.encode(claims, _SECRET)


def _pages(filled: Filled) -> list[list[str]]:
    """What pages show: contents that have been tapped, at random."""
    chosen = random.Random(SEED)
    return [chosen.sample(list(filled.log.truth), _PAGE) for _ in range(_PAGES)]


def _assert_served(url: str, filled: Filled) -> None:
    """Every content has over HTTP exactly the likes and dislikes that it should have."""
    served: dict[str, tuple[int, int]] = {}
    ids = list(filled.log.truth)
    with httpx.Client(base_url=url) as client:
        for first in range(0, len(ids), 100):
            answer = client.get("/v1/counts", params={"ids": ",".join(ids[first : first + 100])})
            served |= {it["content_id"]: (it["likes"], it["dislikes"]) for it in answer.json()["counts"]}
    assert_exact(served, filled.log.truth)


def _wrk(url: str, script: str, given: Mapping[str, str], *, connections: int, seconds: int) -> Load:
    done = subprocess.run(
        ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s", "-s", str(_WRK / f"{script}.lua"), url],
        env={**os.environ, **given, "SAY": str(_WRK / "say.lua")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    said = json.loads(done.stdout.splitlines()[-1])
    insist(said["failed"] == said["refused"] == 0, done.stdout)
    return Load(said["requests"] / said["seconds"], said["requests"], said["p50_ms"], said["p99_ms"])


def _bare(settings: Settings, pages: list[list[str]], seconds: float) -> float:
    """Batches per second of the same keys, read from Redis by a client that does nothing else."""
    keys = [[count_key(_GENERATION, content_id) for content_id in page] for page in pages]
    with redis.Redis.from_url(settings.redis.url.get_secret_value()) as client:
        count, end = 0, time.monotonic() + seconds
        began = time.monotonic()
        while time.monotonic() < end:
            pipeline = client.pipeline(transaction=False)
            for key in keys[count % len(keys)]:
                pipeline.hgetall(key)
            insist(all(pipeline.execute()), "Redis misses a count")
            count += 1
        return count / (time.monotonic() - began)


def _log_length(settings: Settings) -> int:
    """Once it rests: wrk leaves taps behind that nobody waits for."""
    length = -1
    while (found := sum(kafka.end_offsets(settings, settings.kafka.events_topic).values())) != length:
        length = found
        time.sleep(_REST_S)
    return length


def _assert_logged(settings: Settings, before: int, load: Load, connections: int) -> None:
    """Every tap that was acknowledged is in the log; wrk does not wait for the last ones."""
    grown = _log_length(settings) - before
    insist(load.requests <= grown <= load.requests + connections, f"{load.requests} taps, {grown} events")


def _said(loads: list[Load]) -> str:
    return ", ".join(f"{load.rate:,.0f}/s p99 {load.p99_ms:.1f} ms" for load in loads)


def _row(name: str, workload: str, found: list[Load] | list[float], **more: float) -> Row:
    loads = [each for each in found if isinstance(each, Load)]
    if loads:
        more |= {
            "p50_ms": round(median(load.p50_ms for load in loads), 2),
            "p99_ms": round(median(load.p99_ms for load in loads), 2),
            "p99_max_ms": max(load.p99_ms for load in loads),
        }
    rates = tuple(each.rate if isinstance(each, Load) else each for each in found)
    return Row("serving", name, workload, rates, durable=True, stores=True, exact=True, more=more)

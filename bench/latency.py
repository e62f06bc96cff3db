"""From event to readable count, in both stores, while other traffic runs at a given rate."""

from __future__ import annotations

import json
import math
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from confluent_kafka import Producer

from bench.check import insist
from bench.fresh import environment_of
from bench.workloads import SEED, ZIPF
from connectors import kafka
from connectors.cassandra import ContentStats, ensure_schema, open_session
from connectors.redis import RedisCounts
from traffic.model import generate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.counting import Bench
    from pipelines.settings import Settings

_PROBE_EVERY_S = 0.1
_POLL_S = 0.05
_GIVE_UP_S = 60.0
_TIME = re.compile(rb'"event_time":[0-9]+,')


class TooSlow(Exception):
    """A probe was not counted in time: the job falls behind the traffic."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """Seconds from handing an event to the producer until both stores answer its count, sorted.

    Fields:
        seconds: One for each probe.
        events_per_s: How much other traffic there really was.
    """

    seconds: tuple[float, ...]
    events_per_s: float

    def quantile(self, share: float) -> float:
        """The smallest value that so many of the probes do not exceed."""
        return self.seconds[max(0, math.ceil(round(share * len(self.seconds), 6)) - 1)]


@contextmanager
def running_job(bench: Bench) -> Iterator[tuple[Settings, subprocess.Popen[bytes]]]:
    """A job that counts until the end of the block."""
    settings = bench.settings()
    kafka.ensure_topics(settings, 1)
    with open_session(settings) as session:
        ensure_schema(session, settings)  # it is read before the job has made it
    command = [sys.executable, "-m", "cli.main", "job", "run"]
    with subprocess.Popen(command, env=environment_of(bench.stack, settings)) as job:
        try:
            yield settings, job
        finally:
            job.send_signal(signal.SIGINT)


def present_lines() -> Iterator[bytes]:
    """Endless traffic without times of its own, so that it has the broker's; the model's would all be in the past."""
    model = generate(ZIPF.model, 100_000_000, SEED, start_ms=0, end_ms=1)
    return (_TIME.sub(b"", line.value) for line in model)


def measure(settings: Settings, lines: Iterator[bytes], *, events_per_s: int, probes: int) -> Latencies:
    """Publish background traffic at a rate and probes beside it; every probe likes a content of its own.

    Raises:
        AssertionError: A probe was not counted exactly once.
        TooSlow: One was not counted within a minute.
    """
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap, "linger.ms": 5, "acks": "all"})
    topic = settings.kafka.events_topic
    waiting: dict[str, float] = {}
    latencies: list[float] = []
    with (
        closing(RedisCounts(settings)) as counts,
        _Background(producer, topic, lines, events_per_s) as background,
        open_session(settings) as session,
    ):
        stats = ContentStats(session)
        begun, sent = time.monotonic(), 0
        while sent < probes or waiting:
            now = time.monotonic()
            if sent < probes and now - begun >= sent * _PROBE_EVERY_S:
                content_id = f"probe-{begun:.0f}-{sent}"
                event = {"content_id": content_id, "user_id": "prober", "action": "LIKE"}
                producer.produce(topic, json.dumps(event).encode(), key=content_id.encode())
                waiting[content_id] = now
                sent += 1
            producer.poll(0)
            ids = list(waiting)
            rows, hits = stats.read(1, ids), counts.read(1, ids)
            now = time.monotonic()
            for content_id in ids:
                if rows[content_id] and hits[content_id]:
                    likes = [total.pn.likes for total in rows[content_id]]
                    insist(likes == [1], f"{content_id} is not counted once")
                    latencies.append(now - waiting.pop(content_id))
            if any(now - since > _GIVE_UP_S for since in waiting.values()):
                raise TooSlow("a probe was not counted in a minute")
            time.sleep(_POLL_S)
    producer.flush()
    return Latencies(tuple(sorted(latencies)), background.events_per_s)


class _Background:
    """Traffic in a thread, until the end of the block."""

    def __init__(self, producer: Producer, topic: str, lines: Iterator[bytes], events_per_s: int) -> None:
        self._producer, self._topic, self._lines, self._wanted = producer, topic, lines, events_per_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.events_per_s = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        begun = time.monotonic()
        for number, line in enumerate(self._lines):
            if number % 100 == 0:
                self._producer.poll(0)
                wait_s = begun + number / self._wanted - time.monotonic()
                if self._stop.wait(wait_s) if wait_s > 0 else self._stop.is_set():
                    self.events_per_s = number / (time.monotonic() - begun)
                    return
            self._send(line)

    def _send(self, line: bytes) -> None:
        while True:
            try:
                return self._producer.produce(self._topic, line)
            except BufferError:  # the broker is slower than we are
                self._producer.poll(0.1)

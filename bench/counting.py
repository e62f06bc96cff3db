"""Counting a workload's log on one stack, several times in one process, each result asserted before its rate counts."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, cast

import redis

from bench import check
from bench.fill import fill
from bench.fresh import environment_of, fresh_settings, numbered
from bench.workloads import Log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.workloads import Workload
    from deploy.flink.local_stack import Stack
    from pipelines.settings import Settings


@dataclass(frozen=True, slots=True)
class Filled:
    """A topic with a log in it.

    Fields:
        log: Which.
        settings: Of the topic, and of names that nobody else has.
    """

    log: Log
    settings: Settings


@dataclass(frozen=True, slots=True)
class Counted:
    """One run that was exact.

    Fields:
        events: How many.
        rate: Events per second after the first quarter, see `pipelines.jobs.pace`.
        cpu_s: Processor time of the job, start-up and planning included; not the broker's or the stores'.
    """

    events: int
    rate: float
    cpu_s: float


class Bench:
    """Runs on one stack; every workload has a topic and a keyspace of its own.

    Args:
        stack: Which is up.
        tell: Gets lines of progress.
    """

    def __init__(self, stack: Stack, tell: Callable[[str], None]) -> None:
        self.stack = stack
        self.tell = tell

    def settings(self) -> Settings:
        """Settings on this stack with topics, a keyspace and state that nobody else has; Redis is emptied."""
        with redis.Redis.from_url(self.stack.env()["REDIS_URL"]) as client:
            client.flushdb()
        return fresh_settings(self.stack)

    def fill(self, workload: Workload, events: int) -> Filled:
        """A fresh topic with a workload's log in it, which ends now."""
        return self.write(Log(workload, events, time.time_ns() // 1_000_000))

    def write(self, log: Log) -> Filled:
        """A fresh topic with this log in it."""
        filled = Filled(log, self.settings())
        self.tell(f"{log.workload.name}: filling {filled.settings.kafka.events_topic} with {log.events:,} events")
        fill(filled.settings, log.lines(), spread=log.workload.spread)
        return filled

    def again(self, filled: Filled, **job: object) -> Filled:
        """The same log, to be counted from the beginning as if nobody had.

        Args:
            filled: The log.
            job: Settings of the job to change.
        """
        settings = self.settings()
        topic = {"events_topic": filled.settings.kafka.events_topic}
        changed = settings.model_copy(
            update={"kafka": settings.kafka.model_copy(update=topic), "job": settings.job.model_copy(update=job)}
        )
        return replace(filled, settings=changed)

    def counted(self, filled: Filled, *, stores: bool, runs: int, warm_up: bool = True) -> list[Counted]:
        """Count a log so often.

        Args:
            filled: The log; its settings are used up.
            stores: Whether Cassandra and Redis are written.
            runs: How often.
            warm_up: Count it once before, in the same process, for the JVM to compile what it runs.

        Raises:
            AssertionError: A count is wrong.
            RuntimeError: The process ended.
        """
        times = runs + int(warm_up)
        found = []
        with self._process(filled.settings, ["--runs", str(times), *([] if stores else ["--no-stores"])]) as process:
            stdin, stdout = cast("IO[str]", process.stdin), cast("IO[str]", process.stdout)
            for number in range(times):
                if number:
                    stdin.write("\n")
                    stdin.flush()
                line = stdout.readline()
                if not line:
                    raise RuntimeError(f"counting ended with {process.wait()}")
                outcome = json.loads(line)
                assert outcome["events"] == filled.log.events
                settings = numbered(filled.settings, number)
                check.assert_exact(check.stored(settings) if stores else check.published(settings), filled.log.truth)
                run = Counted(filled.log.events, float(outcome["events_per_s"]), float(outcome["cpu_s"]))
                what = "warm-up" if warm_up and not number else "exact"
                self.tell(f"{filled.log.workload.name}: {run.rate:,.0f} events/s, {what}")
                found.append(run)
        return found[int(warm_up) :]

    def staged(self, filled: Filled, stage: str, runs: int) -> Iterator[float]:
        """Events per second of the first steps of the plan alone, in a warm JVM; what they come to is thrown away.

        Args:
            filled: The log.
            stage: Of `bench.stages`.
            runs: How often.
        """
        done = subprocess.run(
            [sys.executable, "-m", "bench.stages", stage, "--runs", str(runs + 1)],
            env=environment_of(self.stack, filled.settings),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        for line in done.stdout.splitlines()[1:]:  # the first is the warm-up
            outcome = json.loads(line)
            assert outcome["events"] == filled.log.events
            rate = float(outcome["events_per_s"])
            self.tell(f"{stage}: {rate:,.0f} events/s")
            yield rate

    @contextmanager
    def _process(self, settings: Settings, arguments: list[str]) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.count", *arguments],
            env=environment_of(self.stack, settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:  # closes its pipes and waits
            try:
                yield process
            except BaseException:
                process.send_signal(signal.SIGINT)
                raise

"""Counting a workload's log on one stack, several times in one process, each result asserted before its rate counts."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Self, cast

import redis

from bench import check
from bench.fill import fill
from bench.fresh import environment_of, fresh_settings
from bench.workloads import Log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

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
        self._exit = ExitStack()
        self._counting = self._exit.enter_context(ExitStack())
        self._counter: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._exit.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.__exit__(kind, error, trace)

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
        changes = {
            "kafka": settings.kafka.model_copy(update=topic),
            "job": filled.settings.job.model_copy(update=job),
        }
        return replace(filled, settings=settings.model_copy(update=changes))

    def cool(self) -> None:
        """End the process that counts; the next run has a new JVM."""
        self._counting.close()
        self._counter = None

    def counted(self, filled: Filled, *, stores: bool, runs: int, warm_up: Filled | None = None) -> list[Counted]:
        """Count a log so often, each time as if nobody had; all of a bench's runs share one JVM until it is cooled.

        Args:
            filled: The log.
            stores: Whether Cassandra and Redis are written.
            runs: How often.
            warm_up: Counted before in a new JVM, for it to compile what it runs; None for the log itself.

        Raises:
            AssertionError: A count is wrong.
            RuntimeError: The process ended.
        """
        if self._counter is None:
            self._counter = self._counting.enter_context(_counting_process())
            self._count(self.again(warm_up or filled), stores=stores, what="warm-up")
        return [self._count(self.again(filled), stores=stores, what="exact") for _ in range(runs)]

    def _count(self, filled: Filled, *, stores: bool, what: str) -> Counted:
        assert self._counter is not None
        stdin, stdout = cast("IO[str]", self._counter.stdin), cast("IO[str]", self._counter.stdout)
        asked = {"environment": environment_of(self.stack, filled.settings), "stores": stores}
        stdin.write(json.dumps(asked) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise RuntimeError(f"counting ended with {self._counter.wait()}")
        outcome = json.loads(line)
        check.insist(outcome["events"] == filled.log.events, f"{outcome['events']} events were counted")
        counts = check.stored(filled.settings) if stores else check.published(filled.settings)
        check.assert_exact(counts, filled.log.truth)
        found = Counted(filled.log.events, float(outcome["events_per_s"]), float(outcome["cpu_s"]))
        self.tell(f"{filled.log.workload.name}: {found.rate:,.0f} events/s, {what}")
        return found

    def staged(self, filled: Filled, stages: Sequence[str], runs: int) -> Iterator[tuple[str, float]]:
        """Stages and events per second of the first steps of the plan alone, in a warm JVM; what they come to is thrown
        away.

        Args:
            filled: The log.
            stages: Of `bench.stages`.
            runs: How often each.
        """
        with subprocess.Popen(
            [sys.executable, "-m", "bench.stages", *stages, "--runs", str(runs)],
            env=environment_of(self.stack, filled.settings),
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            for number, line in enumerate(cast("IO[str]", process.stdout)):
                outcome = json.loads(line)
                check.insist(outcome["events"] == filled.log.events, f"{outcome['events']} events were read")
                stage, rate = str(outcome["stage"]), float(outcome["events_per_s"])
                self.tell(f"{stage}: {rate:,.0f} events/s, {'run' if number else 'warm-up'}")
                if number:
                    yield stage, rate
        if process.returncode:
            raise RuntimeError(f"the stages ended with {process.returncode}")


@contextmanager
def _counting_process() -> Iterator[subprocess.Popen[str]]:
    """A process that counts what it is asked to, until the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.count", "--asked"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:  # closes its pipes, which ends it, and waits
        try:
            yield process
        except BaseException:
            process.send_signal(signal.SIGINT)
            raise

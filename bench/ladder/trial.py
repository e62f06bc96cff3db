"""One design under one workload: started once, probed for staleness, measured several times, and killed in the end."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.difference import Counts, Difference, difference
from bench.fill import fill
from bench.fresh import environment_of, fresh_settings
from bench.ladder.designs import Design
from bench.ladder.log import Load, Parts, partition_of
from bench.ladder.progress import Progress, group_of_job, members, share
from bench.ladder.reference import Reference, continued
from bench.ladder.staleness import BACKGROUND_PER_S, probe_lines, schedule, staleness
from bench.ladder.stores import BothStores, Store, store_of
from bench.ladder.taps import tap_of
from bench.latency import Latencies
from bench.peers.log import HeldLog, primer, primer_truth
from bench.processes import PeerFailed, Processes
from bench.services import durable_redis, remove_topics
from connectors import kafka
from deploy.flink.local_stack import Stack
from pipelines.settings import Settings

_ROOT = Path(__file__).resolve().parents[2]
_LOOK_S = 0.05
_JOB_LOOK_S = 0.25
_LIMIT_S = 120.0
_PRIMER_EVENTS = 1_000

Tell = Callable[[str], None]


@dataclass(slots=True)
class Trial:
    """A design that runs, and what it should have counted so far.

    Fields:
        design: Which.
        load: What is tapped.
        settings: Of its topic and keyspace.
        group: Of its consumers, if it is a program.
        processes: Its own.
        store: Where its counts are.
        progress: How far it is.
        parts: Its taps: background of the probes, then one part for each run, then that of the kill.
        reference: Its rules; None: the truth.
        extra: What the truth has beside the parts'.
        published: Events so far.
    """

    design: Design
    load: Load
    settings: Settings
    group: str
    processes: Processes
    store: Store
    progress: Progress
    parts: Parts
    reference: Reference | None
    extra: dict[str, tuple[int, int]]
    published: int = 0
    _taken: int = 0

    def start(self) -> None:
        """Start the processes; returns when they have counted a primer.

        Raises:
            PeerFailed: They ended or were too slow.
        """
        lines = list(primer(_now_ms(), _PRIMER_EVENTS))
        begin = self.progress.ends()
        self.processes.start()
        self._gather()
        fill(self.settings, lines)
        self._settle(begin, self.progress.ends())
        for line in lines:
            self._take(line, kafka.content_key(line))
        self.extra.update(primer_truth(_PRIMER_EVENTS))

    def staleness(self) -> Latencies:
        """Seconds from tap to reader. Raises AssertionError or PeerFailed."""
        begin = self.progress.ends()
        due = schedule(self.parts.lines(0), probe_lines(self.design.probe_s))
        options = self.settings.kafka
        found = staleness(options.bootstrap, options.events_topic, due, self.load.key, self.store)
        self._settle(begin, self.progress.ends())
        for _, line, is_probe in due:
            self._take(line, self.load.key(line))
            if is_probe:
                tap = tap_of(line, 0)
                assert tap
                self.extra[tap.content_id] = (1, 0)
        self._taken = 1
        return found

    def measure(self) -> float:
        """Count the next part; returns the seconds from its release until it is applied and committed."""
        with self._held() as (held, begin, end):
            began = held.release()
            seconds = self._settle(begin, end) - began
        self._advance()
        return seconds

    def crash(self) -> tuple[Difference, float]:
        """Count the next part and kill everything while it writes; returns what that did, and at which share it came.

        Raises:
            PeerFailed: It had counted everything before it could be killed.
        """
        counted, before = self.store.counts(), self.expected()
        with self._held() as (held, begin, end):
            held.release()
            self._wait(begin, end, self.design.kill_after)
            self._await_write(begin, end)
            self.processes.kill()
            reached = share(self.progress.committed(), begin, end)
            self.processes.start()
            self._settle(begin, end)
        self._advance()
        return difference(self.store.counts(), continued(counted, before, self.expected())), reached

    def expected(self) -> Counts:
        """What the design should have counted by its own rules."""
        return self.reference.counts() if self.reference else self.truth()

    def truth(self) -> Counts:
        """What it should have counted."""
        return {**self.parts.truth(self._taken), **self.extra}

    @contextmanager
    def _held(self) -> Iterator[tuple[HeldLog, dict[int, int], dict[int, int]]]:
        options = self.settings.kafka
        begin = self.progress.ends()
        held = HeldLog(options.bootstrap, options.events_topic, self.parts.lines(self._taken), key=self.load.key)
        try:
            yield held, begin, self.progress.ends()
        finally:
            held.drop()

    def _advance(self) -> None:
        for line in self.parts.lines(self._taken):
            self._take(line, self.load.key(line))
        self._taken += 1

    def _take(self, line: bytes, key: bytes | None) -> None:
        assert key is not None
        self.published += 1
        if self.reference and (tap := tap_of(line, partition_of(key, self.settings.kafka.partitions))):
            self.reference.take(tap)

    def _gather(self) -> None:
        """Wait until all processes have partitions: who joins later makes others hand theirs over in mid-batch."""
        deadline = time.monotonic() + _LIMIT_S
        while not self.design.is_job and members(self.settings.kafka.bootstrap, self.group) < self.design.processes:
            self.processes.check(restart=False)
            if time.monotonic() > deadline:
                raise PeerFailed(f"{self.design.name} has not joined: {self.processes.last_lines()}")
            time.sleep(_LOOK_S)

    def _await_write(self, begin: dict[int, int], end: dict[int, int]) -> None:
        """Return as soon as the store has been written; what is done in between is kept short."""
        seen, look_at = self.store.changes(), 0.0
        while self.store.changes() == seen:
            if (now := time.monotonic()) < look_at:
                continue
            look_at = now + (_JOB_LOOK_S if self.design.is_job else _LOOK_S)
            self.processes.check(restart=False)
            if share(self.progress.committed(), begin, end) >= 1:
                raise PeerFailed(f"{self.design.name} was done before it could be killed")

    def _settle(self, begin: dict[int, int], end: dict[int, int]) -> float:
        """Wait until everything is committed; returns when, in monotonic seconds."""
        return self._wait(begin, end, 1.0)

    def _wait(self, begin: dict[int, int], end: dict[int, int], until: float) -> float:
        deadline = time.monotonic() + _LIMIT_S
        while (done := share(self.progress.committed(), begin, end)) < until:
            self.processes.check(restart=False)
            if time.monotonic() > deadline:
                raise PeerFailed(f"{self.design.name} has counted {done:.0%} in {_LIMIT_S:.0f} s")
            time.sleep(_JOB_LOOK_S if self.design.is_job else _LOOK_S)
        return time.monotonic()


@contextmanager
def prepared(stack: Stack, design: Design, load: Load, *, events: int, runs: int, tell: Tell) -> Iterator[Trial]:
    """A design with topics, a keyspace and a log of its own; everything is ended and removed afterwards.

    Args:
        stack: Of all services.
        design: Which.
        load: What is tapped.
        events: In each part.
        runs: How many parts there are, beside that of the kill.
        tell: Gets lines of progress.
    """
    settings = fresh_settings(stack)
    url, options = stack.env()["REDIS_URL"], settings.kafka
    folder = stack.folder / "ladder" / settings.cassandra.keyspace
    folder.mkdir(parents=True)
    with ExitStack() as closing:
        closing.callback(shutil.rmtree, folder, ignore_errors=True)
        kafka.ensure_topics(settings, 1)
        closing.callback(remove_topics, options.bootstrap, options.events_topic.removeprefix("like-events-"))
        # A rewrite of the file would hide what was appended to it.
        closing.enter_context(durable_redis(url, {"auto-aof-rewrite-percentage": "0"}))
        store = store_of(design.store, settings, url)
        closing.callback(store.close)
        group = settings.cassandra.keyspace
        name = (lambda: group_of_job(store.session)) if isinstance(store, BothStores) else lambda: group
        progress = Progress(options.bootstrap, options.events_topic, options.partitions, name)
        closing.callback(progress.close)
        tell(f"{design.name}, {load.name}: parts of {events:,} events")
        parts = Parts(load, [int(design.probe_s * BACKGROUND_PER_S), *[events] * (runs + 1)], _now_ms())
        capacity = max(1, runs * events // options.partitions)
        reference = design.reference(capacity) if design.reference else None
        commands = _commands(design, settings, url, group, capacity)
        environment = {**environment_of(stack, settings), "PYTHONPATH": str(_ROOT)}
        processes = Processes(design.name, commands, folder, environment)
        closing.callback(processes.kill)
        yield Trial(design, load, settings, group, processes, store, progress, parts, reference, {})


def _commands(design: Design, settings: Settings, url: str, group: str, capacity: int) -> list[list[str]]:
    if design.is_job:
        return [[sys.executable, "-m", "cli.main", "job", "run"]]
    flags = {
        "bootstrap": settings.kafka.bootstrap,
        "topic": settings.kafka.events_topic,
        "group": group,
        "redis": url,
        "cassandra-hosts": settings.cassandra.hosts,
        "cassandra-port": str(settings.cassandra.port),
        "keyspace": settings.cassandra.keyspace,
        "capacity": str(capacity),
    }
    common = [part for flag, value in flags.items() for part in (f"--{flag}", value)]
    program = [sys.executable, "-m", f"bench.ladder.programs.{design.name}", *common]
    return [[*program, "--index", str(index)] for index in range(design.processes)]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

"""One run of one peer: how fast it counts a log, or whether it counts it exactly although it is killed twice."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.difference import Counts, difference
from bench.fill import fill
from bench.peers.catalogue import Peer
from bench.peers.log import HeldLog, primer, primer_truth
from bench.peers.outputs import Output, RedisOutput, TopicOutput
from bench.processes import PeerFailed, Processes
from bench.services import durable_redis, remove_topics
from bench.workloads import Log
from deploy.flink.local_stack import Stack
from deploy.flink.local_stack.ports import HOST, free_port
from pipelines.settings import Settings, load_settings

_SAMPLE_S = 0.1
# A peer that commits every 5 s rests so long between two commits.
_REST_S = 3.0
_SETTLED_S = 6.0
_START_S = 180.0
# After a kill, Kafka waits for the session of who was killed, and then for its transaction.
_SILENCE_S = 150.0
_CRASH_POLL_S = 0.2
FIRST_KILL, _SECOND_KILL = 0.4, 0.6
_APART, _LATEST = 0.1, 0.95
_TIMEOUT_S = 30.0

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to.

    Fields:
        events: How many the measured part of the log has.
        seconds: From the release of the log until the last change of a count was visible; 0 in a crash run.
        is_exact: Whether every count is the true one.
        off_by: By how many likes and dislikes the counts are off, over all contents.
        killed_at: Which shares of all likes and dislikes were visible when it was killed.
        restarts: How often a process of it that had ended by itself was started again.
    """

    events: int
    seconds: float
    is_exact: bool
    off_by: int
    killed_at: tuple[float, ...] = ()
    restarts: int = 0

    @property
    def rate(self) -> float:
        """Events per second."""
        return self.events / self.seconds if self.seconds else 0.0


def off_by(counted: Counts, truth: Counts) -> int:
    """How many likes and dislikes are too few or too many."""
    return difference(counted, truth).total


def share_of(counted: Counts, truth: Counts) -> float:
    """How much of all true likes and dislikes is counted, 0 to about 1; other contents do not matter."""
    seen = sum(sum(counted.get(content_id, (0, 0))) for content_id in truth)
    return seen / max(1, sum(map(sum, truth.values())))


def second_kill(first: float) -> float:
    """At which share to kill again: later than the first kill was, which a peer that commits seldom may delay."""
    return min(_LATEST, max(_SECOND_KILL, first + _APART))


def measure(stack: Stack, peer: Peer, log: Log, tell: Tell) -> Outcome:
    """Run a peer over a log once.

    In the figure: reading, parsing, registers, counting, state, commits, and the time until the last change of a count
    is visible to a reader of committed records, sampled ten times a second. Not in it: start-up and filling, see
    `bench.peers.log`; nor the warm-up of a JVM, whose peers get a longer primer.

    Args:
        stack: Kafka and Redis.
        peer: Which.
        log: What it counts.
        tell: Gets lines of progress.

    Raises:
        PeerFailed: It ended by itself, or did not count the primer.
    """
    with _prepared(stack, peer, log, tell) as run:
        began = run.start_and_release()
        wrong = run.finish(restart=False)
        seconds = run.output.changed_at() - began
    return Outcome(log.events, seconds, wrong == 0, wrong)


def crash(stack: Stack, peer: Peer, log: Log, tell: Tell) -> Outcome:
    """Run a peer over a log and kill it twice, with SIGKILL and all its processes at once, about in the middle.

    It is started again with the same command and state. A process that then ends by itself is started again too, as a
    supervisor would do, a few times.

    Args:
        stack: Kafka and Redis; these are not killed.
        peer: Which.
        log: What it counts.
        tell: Gets lines of progress.

    Raises:
        PeerFailed: It keeps ending by itself, or did not count the primer.
    """
    with _prepared(stack, peer, log, tell) as run:
        run.start_and_release()
        first = run.kill_at(FIRST_KILL)
        second = run.kill_at(second_kill(first))
        tell(f"{peer.name}: killed at {first:.0%} and {second:.0%}")
        wrong = run.finish(restart=True)
    return Outcome(log.events, 0.0, wrong == 0, wrong, (first, second), run.processes.restarts)


@dataclass(slots=True)
class _Run:
    """A peer with its log, ready to start."""

    peer: Peer
    log_truth: Counts
    held: HeldLog
    output: Output
    processes: Processes
    _seen: tuple[float, int] = field(default=(0.0, -1))

    def start_and_release(self) -> float:
        """Start the peer, wait until it has counted the primer, show it the rest; returns when."""
        self.processes.start()
        self._seen = (time.monotonic(), -1)
        deadline = time.monotonic() + _START_S
        while off_by(self.output.counts(), primer_truth(self.peer.primer_events)):
            self.processes.check(restart=False)
            if time.monotonic() > deadline:
                raise PeerFailed(f"{self.peer.name} did not count the primer: {self.processes.last_lines()}")
            self._sample()
            time.sleep(_SAMPLE_S)
        return self.held.release()

    def kill_at(self, share: float) -> float:
        """Kill the peer once so much is visible and start it again; returns how much it was."""
        while (visible := share_of(self.output.counts(), self.log_truth)) < share:
            self.processes.check(restart=True)
            if self._silence() > _SILENCE_S:
                raise PeerFailed(f"{self.peer.name} went silent at {visible:.0%}: {self.processes.last_lines()}")
            self._sample()
            time.sleep(_CRASH_POLL_S)
        self.processes.kill()
        self.processes.start()
        self._seen = (time.monotonic(), -1)
        return visible

    def finish(self, *, restart: bool) -> int:
        """Wait until the counts are true and stay so, or nothing has changed for long; returns how far they are off."""
        self._seen = (time.monotonic(), -1)
        truth = {**self.log_truth, **primer_truth(self.peer.primer_events)}
        while True:
            self.processes.check(restart=restart)
            self._sample()
            if self._silence() >= _REST_S:
                wrong = off_by(self.output.counts(), truth)
                self._sample()  # reading takes a while
                if (not wrong and self._silence() >= _SETTLED_S) or self._silence() >= _SILENCE_S:
                    return wrong
                time.sleep(_SAMPLE_S * 5)
            time.sleep(_SAMPLE_S)

    def _sample(self) -> None:
        now = time.monotonic()
        amount = self.output.sample(now)
        if amount != self._seen[1]:
            self._seen = (now, amount)

    def _silence(self) -> float:
        return time.monotonic() - self._seen[0]


@contextmanager
def _prepared(stack: Stack, peer: Peer, log: Log, tell: Tell) -> Iterator[_Run]:
    """Topics, log, state folder and commands for one run; everything is ended and removed afterwards."""
    start = peer.command(tell)
    unique = f"{peer.name.replace('_', '-')}-{uuid.uuid4().hex[:8]}"
    folder = stack.folder / "flink" / unique
    folder.mkdir(parents=True)
    settings = _settings(stack, unique)
    bootstrap, url = settings.kafka.bootstrap, stack.env()["REDIS_URL"]
    tell(f"{peer.name}: writing {log.events:,} events")
    fill(settings, primer(time.time_ns() // 1_000_000, peer.primer_events))
    out = f"{unique}-out"
    _create(bootstrap, out, settings.kafka.partitions)
    taken: set[int] = set()
    for _ in range(peer.ports):
        taken.add(free_port(taken))
    (state := folder / "state").mkdir()
    arguments: Mapping[str, str] = {
        "bootstrap": bootstrap,
        "topic": settings.kafka.events_topic,
        "out": out,
        "group": unique,
        "state": str(state),
        "redis": url,
        **({"addresses": ";".join(f"{HOST}:{port}" for port in sorted(taken))} if taken else {}),
    }
    flags = [part for name, value in arguments.items() for part in (f"--{name}", value)]
    commands = [[*start, *flags, "--index", str(index)] for index in range(peer.processes)]
    processes = Processes(peer.name, commands, folder, peer.environment)
    store = durable_redis(url) if peer.output == "redis" else nullcontext()
    with store, closing(_output(peer, bootstrap, url, out, settings.kafka.partitions)) as output:
        held = HeldLog(bootstrap, settings.kafka.events_topic, log.lines())
        try:
            yield _Run(peer, log.truth, held, output, processes)
        finally:
            processes.stop()
            held.drop()
            remove_topics(bootstrap, unique)
            shutil.rmtree(folder, ignore_errors=True)


def _settings(stack: Stack, unique: str) -> Settings:
    names = {"events_topic": unique, "dead_letters_topic": f"{unique}-dlq", "counts_topic": f"{unique}-counts"}
    return load_settings({}, stack=stack.env(), flags={"kafka": names})


def _output(peer: Peer, bootstrap: str, url: str, out: str, partitions: int) -> Output:
    return RedisOutput(url) if peer.output == "redis" else TopicOutput(bootstrap, out, partitions)


def _create(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config={"cleanup.policy": "compact"})
    admin.create_topics([new])[topic].result(_TIMEOUT_S)

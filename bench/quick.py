"""`make bench-quick`: the headline figures, each asserted exact before it is printed.

    .venv/bin/python -m bench.quick --events 4000000

Starts a stack of its own in a temporary folder and removes it. Rates are from when all tasks run until every event is
stored and checkpointed, so start-up is not in them.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import redis

from bench import check, machine
from bench.fill import fill
from bench.fresh import environment_of, fresh_settings
from bench.latency import Latencies, measure
from connectors import kafka
from connectors.cassandra import ensure_schema, open_session
from deploy.flink.local_stack import Stack
from pipelines.settings import Settings
from traffic.model import TrafficModel, generate, generate_blocks
from traffic.truth import truth

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SEED = 20_261_130
_LATENCY_EVENTS_PER_S = 2_000


@dataclass(frozen=True, slots=True)
class Workload:
    """A log and its truth.

    Fields:
        name: For the report.
        model: What it was made by.
        spread: Whether producers spread contents over the partitions.
    """

    name: str
    model: TrafficModel
    spread: bool = False

    def lines(self, events: int, now_ms: int) -> Iterator[bytes]:
        """The log, ending now."""
        return (line.value for line in generate(self.model, events, _SEED, start_ms=now_ms - 3_600_000, end_ms=now_ms))

    def truth(self, events: int, now_ms: int) -> Mapping[str, tuple[int, int]]:
        """(likes, dislikes) by content."""
        blocks = generate_blocks(self.model, events, _SEED, start_ms=now_ms - 3_600_000, end_ms=now_ms)
        return {
            content_id: (it.likes, it.dislikes) for content_id, it in truth(self.model, blocks).by_content().items()
        }


# All from one region, as the log of a region is; what visitors from other regions cost is a figure of its own.
_HOME = ("us",)
ZIPF = Workload("Zipf", TrafficModel(regions=_HOME, moves=0.0))
VIRAL = Workload("one video", TrafficModel(contents=1, spike_share=0.0, regions=_HOME, moves=0.0), spread=True)
MIXED = Workload("Zipf from three regions", TrafficModel())


class Bench:
    """Runs on one stack; every workload has a topic and a keyspace of its own."""

    def __init__(self, stack: Stack, events: int, probes: int) -> None:
        self._stack = stack
        self._events = events
        self._probes = probes
        self._now_ms = time.time_ns() // 1_000_000

    def rate(self, workload: Workload, settings: Settings, *, stores: bool) -> float:
        """Events per second of one bounded run, its result asserted exact."""
        done = subprocess.run(
            [sys.executable, "-m", "bench.count", *([] if stores else ["--no-stores"])],
            env=environment_of(self._stack, settings),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        outcome = json.loads(done.stdout.splitlines()[-1])
        assert outcome["events"] == self._events
        counted = check.stored(settings) if stores else check.published(settings)
        check.assert_exact(counted, workload.truth(self._events, self._now_ms))
        return self._events / float(outcome["counting_s"])

    def fill(self, workload: Workload) -> Settings:
        """A fresh topic with the workload's log in it."""
        settings = self.settings()
        _tell(f"{workload.name}: filling {settings.kafka.events_topic} with {self._events:,} events")
        fill(settings, workload.lines(self._events, self._now_ms), spread=workload.spread)
        return settings

    def again(self, filled: Settings) -> Settings:
        """Settings that count the same topic from the beginning, as if nobody had."""
        settings = self.settings()
        same = {"events_topic": filled.kafka.events_topic}
        return settings.model_copy(update={"kafka": settings.kafka.model_copy(update=same)})

    def settings(self) -> Settings:
        """Settings on this stack with topics, a keyspace and state that nobody else has; Redis is emptied."""
        url = self._stack.env()["REDIS_URL"]
        with redis.Redis.from_url(url) as client:
            client.flushdb()
        return fresh_settings(self._stack)

    def latency(self) -> tuple[Latencies, float]:
        """Event to readable beside steady traffic, and the whole stack's memory in GB meanwhile."""
        settings = self.settings()
        kafka.ensure_topics(settings, 1)
        with open_session(settings) as session:
            ensure_schema(session, settings)  # it is read before the job has made it
        # Without a time of its own an event has the broker's; the model's would all be in the past.
        model = generate(ZIPF.model, 100_000_000, _SEED, start_ms=0, end_ms=1)
        lines = (line.value.replace(b'"event_time":', b'"model_time":') for line in model)
        command = [sys.executable, "-m", "cli.main", "job", "run"]
        with subprocess.Popen(command, env=environment_of(self._stack, settings)) as job:
            try:
                measure(settings, lines, events_per_s=_LATENCY_EVENTS_PER_S, probes=100)  # until the JVM is warm
                found = measure(settings, lines, events_per_s=_LATENCY_EVENTS_PER_S, probes=self._probes)
                return found, _memory_gb([job.pid, *(s.pid for s in self._stack.services().values() if s.pid)])
            finally:
                job.send_signal(signal.SIGINT)


def _memory_gb(pids: list[int]) -> float:
    """Resident memory of processes and their children."""
    roots = [psutil.Process(pid) for pid in pids]
    everyone = {process for root in roots for process in [root, *root.children(recursive=True)]}
    return sum(process.memory_info().rss for process in everyone) / 1e9


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def run(bench: Bench, *, rates: bool = True, latency: bool = True) -> list[dict[str, object]]:
    """The figures, one row each.

    Args:
        bench: Where.
        rates: Throughput and skew.
        latency: Event to readable count, and memory.
    """
    rows: list[dict[str, object]] = []

    def row(name: str, value: float, unit: str, floor: float | None) -> float:
        rows.append({"name": name, "value": round(value, 3), "unit": unit, "floor": floor})
        print(f"{name:<44} {value:>12,.2f} {unit:<10} {'' if floor is None else f'(floor {floor:,})'}", flush=True)
        return value

    if rates:
        zipf = bench.fill(ZIPF)
        stored = row("Zipf, both stores written", bench.rate(ZIPF, zipf, stores=True), "events/s", 40_000)
        other = bench.again(zipf)
        row("Zipf, without the stores", bench.rate(ZIPF, other, stores=False), "events/s", 60_000)
        viral = row("all on one video", bench.rate(VIRAL, bench.fill(VIRAL), stores=True), "events/s", None)
        row("one video over Zipf", viral / stored, "ratio", 0.8)
        mixed = row(
            "Zipf from three regions, both stores", bench.rate(MIXED, bench.fill(MIXED), stores=True), "events/s", None
        )
        row("three regions over one", mixed / stored, "ratio", None)
    if latency:
        latencies, memory = bench.latency()
        row("event to readable, median", latencies.quantile(0.5), "s", 5)
        row("event to readable, p99", latencies.quantile(0.99), "s", 8)
        row("whole stack and job, resident", memory, "GB", 6)
    return rows


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=4_000_000, help="in each log")
    parser.add_argument("--probes", type=int, default=600, help="in the latency figures; ten a second")
    parser.add_argument("--only", choices=("rates", "latency"), help="half of it")
    parser.add_argument("--json", type=Path, help="also write the report here")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell started us in the background
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the stack is taken down
    described = machine.describe()
    print(json.dumps(described))
    with tempfile.TemporaryDirectory(prefix="likes-bench-") as folder:
        stack = Stack(Path(folder) / "stack")
        try:
            stack.up(_tell)
            rows = run(
                Bench(stack, arguments.events, arguments.probes),
                rates=arguments.only != "latency",
                latency=arguments.only != "rates",
            )
        finally:
            stack.down(purge=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": described, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

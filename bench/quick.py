"""`make bench-quick`: the headline figures, each asserted exact before it is printed.

    .venv/bin/python -m bench.quick --events 3000000

Starts a stack of its own in a temporary folder and removes it. Rates are of the log after its
first quarter, until every event is stored and checkpointed: a JVM compiles a new plan while it runs.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import psutil

from bench import machine
from bench.counting import Bench, Filled
from bench.harness import own_stack
from bench.latency import Latencies, measure, present_lines, running_job
from bench.workloads import MIXED, VIRAL, ZIPF

_LATENCY_EVENTS_PER_S = 2_000


def rate(bench: Bench, filled: Filled, *, stores: bool) -> float:
    """Events per second of one bounded run, its result asserted exact."""
    (counted,) = bench.counted(filled, stores=stores, runs=1)
    return counted.rate


def latency(bench: Bench, probes: int) -> tuple[Latencies, float]:
    """Event to readable beside steady traffic, and the whole stack's memory in GB meanwhile."""
    with running_job(bench) as (settings, job):
        measure(settings, present_lines(), events_per_s=_LATENCY_EVENTS_PER_S, probes=100)  # until the JVM is warm
        found = measure(settings, present_lines(), events_per_s=_LATENCY_EVENTS_PER_S, probes=probes)
        return found, _memory_gb([job.pid, *(s.pid for s in bench.stack.services().values() if s.pid)])


def _memory_gb(pids: list[int]) -> float:
    """Resident memory of processes and their children."""
    roots = [psutil.Process(pid) for pid in pids]
    everyone = {process for root in roots for process in [root, *root.children(recursive=True)]}
    return sum(process.memory_info().rss for process in everyone) / 1e9


def run(bench: Bench, events: int, probes: int, *, only: str | None = None) -> list[dict[str, object]]:
    """The figures, one row each.

    Args:
        bench: Where.
        events: In each log.
        probes: In the latency figures.
        only: "rates" (throughput and skew) or "latency" (event to readable count, and memory).
    """
    rows: list[dict[str, object]] = []

    def row(name: str, value: float, unit: str, floor: float | None) -> float:
        rows.append({"name": name, "value": round(value, 3), "unit": unit, "floor": floor})
        print(f"{name:<44} {value:>12,.2f} {unit:<10} {'' if floor is None else f'(floor {floor:,})'}", flush=True)
        return value

    if only != "latency":
        zipf = bench.fill(ZIPF, events)
        stored = row("Zipf, both stores written", rate(bench, zipf, stores=True), "events/s", 40_000)
        row("Zipf, without the stores", rate(bench, zipf, stores=False), "events/s", 60_000)
        viral = row("all on one video", rate(bench, bench.fill(VIRAL, events), stores=True), "events/s", None)
        row("one video over Zipf", viral / stored, "ratio", 0.8)
        mixed = rate(bench, bench.fill(MIXED, events), stores=True)
        row("Zipf from three regions, both stores", mixed, "events/s", None)
        row("three regions over one", mixed / stored, "ratio", None)
    if only != "rates":
        latencies, memory = latency(bench, probes)
        row("event to readable, median", latencies.quantile(0.5), "s", 5)
        row("event to readable, p99", latencies.quantile(0.99), "s", 8)
        row("whole stack and job, resident", memory, "GB", 6)
    return rows


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=3_000_000, help="in each log")
    parser.add_argument("--probes", type=int, default=600, help="in the latency figures; ten a second")
    parser.add_argument("--only", choices=("rates", "latency"), help="half of it")
    parser.add_argument("--json", type=Path, help="also write the report here")
    arguments = parser.parse_args()
    with own_stack() as bench:
        rows = run(bench, arguments.events, arguments.probes, only=arguments.only)
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"machine": machine.describe(), "rows": rows}, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()

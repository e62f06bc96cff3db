"""The sections of the report that this project runs alone: what holds it back, how it bears skew, state and rates."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench import state
from bench.latency import Latencies, TooSlow, measure, present_lines, running_job
from bench.report import Row
from bench.stages import STAGES
from bench.workloads import SKEWS, ZIPF
from pipelines.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.counting import Bench, Counted, Filled

OURS = "likes_counter"
# The largest that a section counts; others are as long as an hour for all of them allows.
_EVENTS, _SKEW_EVENTS, _SCALE_EVENTS = 2_000_000, 1_000_000, 1_000_000
_LATENCY_RATES = (500, 2_000, 10_000, 30_000, 50_000)
_PROBES, _WARM_UP_PROBES = 120, 100


def limits(bench: Bench, runs: int) -> Iterator[Row]:
    """What each step costs: ever longer parts of the same plan on the same log."""
    zipf = bench.fill(ZIPF, _EVENTS)
    rates: dict[str, list[float]] = {}
    for stage, rate in bench.staged(zipf, list(STAGES), runs):
        rates.setdefault(stage, []).append(rate)
    for stage, found in rates.items():
        notes = "rows thrown away; the whole plan below asserts what they come to"
        yield Row("limits", stage, ZIPF.name, tuple(found), durable=True, stores=False, exact=None, notes=notes)
    yield _row("limits", "publish", bench.counted(zipf, stores=False, runs=runs), zipf)
    stored = bench.counted(zipf, stores=True, runs=runs)
    yield _row("limits", "store", stored, zipf, stores=True)
    heap = bench.again(zipf, state_backend="hashmap")
    yield _row("limits", "publish, state on the heap", bench.counted(heap, stores=False, runs=runs), zipf)


def skew(bench: Bench, runs: int) -> Iterator[Row]:
    """From even to viral, both stores written."""
    for workload in SKEWS:
        filled = bench.fill(workload, _SKEW_EVENTS)
        yield _row("skew", OURS, bench.counted(filled, stores=True, runs=runs), filled, stores=True)


def scale(bench: Bench, runs: int) -> Iterator[Row]:
    """One subtask of each operator and two, with the processor time that an event takes."""
    zipf = bench.fill(ZIPF, _SCALE_EVENTS)
    for parallelism in (1, 2):
        filled = bench.again(zipf, parallelism=parallelism)
        yield _row("scale", f"parallelism {parallelism}", bench.counted(filled, stores=False, runs=runs), zipf)


def registers(bench: Bench, _runs: int) -> Iterator[Row]:
    """How fast dedup and counting are as state grows."""
    with tempfile.TemporaryDirectory(prefix="likes-bench-") as folder:
        grown = state.measure(Settings(), state.SIZES[-1], Path(folder), bench.tell)
    for size in state.SIZES:
        yield Row(
            "state",
            "dedup and count",
            f"{size:,} registers",
            state.slice_rates(grown.samples, size),
            durable=True,
            stores=False,
            exact=None,
            notes="events from Flink's generator, each a register of its own; three slices of one run",
            more={"registers": float(size), "bytes_per_register": grown.bytes_per_register},
        )


def latency(bench: Bench, runs: int) -> Iterator[Row]:
    """From event to readable in both stores, beside steady traffic of ever higher rates, until the job falls behind."""
    with running_job(bench) as (settings, _):
        measure(settings, present_lines(), events_per_s=_LATENCY_RATES[0], probes=_WARM_UP_PROBES)
        for rate in _LATENCY_RATES:
            bench.tell(f"latency at {rate:,} events/s")
            try:
                found = [measure(settings, present_lines(), events_per_s=rate, probes=_PROBES) for _ in range(runs)]
            except TooSlow as error:
                bench.tell(f"latency at {rate:,} events/s: {error}")
                return
            yield _latency_row(rate, found)


def _latency_row(rate: int, found: Sequence[Latencies]) -> Row:
    more: dict[str, float | None] = {"asked_events_per_s": float(rate)}
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        quantiles = [each.quantile(share) for each in found]
        more |= {f"{name}_s": round(median(quantiles), 3), f"{name}_max_s": round(max(quantiles), 3)}
    achieved = tuple(each.events_per_s for each in found)
    return Row("latency", OURS, f"Zipf at {rate:,}/s", achieved, durable=True, stores=True, exact=True, more=more)


def _row(section: str, name: str, counted: Sequence[Counted], filled: Filled, *, stores: bool = False) -> Row:
    return Row(
        section,
        name,
        filled.log.workload.name,
        tuple(run.rate for run in counted),
        durable=True,
        stores=stores,
        exact=True,  # a wrong count ends the benchmark
        more={"cpu_us_per_event": round(median(run.cpu_s / run.events * 1e6 for run in counted), 2)},
    )

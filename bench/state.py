"""How fast dedup and counting stay as registers accumulate: one run, every event a register of its own.

    .venv/bin/python -m bench.state --registers 50000000

The events are made by Flink's own generator, so that Kafka and validation do not hide what state costs. Prints one JSON
object: rates (events/s) while the state held so many registers, and its bytes per register in the last checkpoint.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.harness import tell
from bench.stages import environment, throw_away
from pipelines.domain.register import REACTION_SHIFT, TIME_SHIFT, Reaction
from pipelines.errors import JobFailed, ServiceUnavailable
from pipelines.settings import Settings
from pipelines.steps.changes import changes
from pipelines.steps.count import count
from pipelines.steps.dedup import dedup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pipelines.jobs.rest import FlinkRest

_CONTENTS = 100_003
_FIRST_MS = 1_767_225_600_000
_POLL_S = 1.0
_SLICE, _SLICES = 2_000_000, 3
SIZES = (1_000_000, 10_000_000, 50_000_000)
_EVENTS = "synthetic_events"


@dataclass(frozen=True, slots=True)
class Sample:
    """How far the run was.

    Fields:
        seconds: Since the first sample.
        registers: In the state.
    """

    seconds: float
    registers: int


@dataclass(frozen=True, slots=True)
class Grown:
    """A run that filled the state.

    Fields:
        samples: In order.
        bytes_per_register: In the newest checkpoint.
    """

    samples: tuple[Sample, ...]
    bytes_per_register: float


def slice_rates(samples: Sequence[Sample], registers: int) -> tuple[float, ...]:
    """Events per second in three slices of two million registers each, of which the last ends with so many.

    With less than seven million it begins there instead: before, the JVM is still cold. Registers come in bundles of a
    checkpoint each, and are heard of later still, so between two news of them they are taken to have grown evenly.

    Args:
        samples: In order.
        registers: Where it ends or begins.
    """
    first = _first(registers)
    news = [later for earlier, later in pairwise(samples) if later.registers > earlier.registers]
    seen = np.array([sample.registers for sample in news], dtype=float)
    at = np.array([sample.seconds for sample in news])
    marks = np.interp([first + number * _SLICE for number in range(_SLICES + 1)], seen, at)
    return tuple(float(_SLICE / (later - earlier)) for earlier, later in pairwise(marks))


def _first(registers: int) -> int:
    before = registers - _SLICES * _SLICE
    return before if before >= _SLICE // 2 else registers


def measure(settings: Settings, registers: int, folder: Path, tell: Callable[[str], None]) -> Grown:
    """Fill the state with so many registers."""
    env, rest = environment(settings, "bench state", folder)
    env.execute_sql(
        f"""CREATE TEMPORARY TABLE numbers (i BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100000000',
'fields.i.min' = '0', 'fields.i.max' = '{10**15}')"""
    )
    # Of random users among so many hardly two are the same.
    env.create_temporary_view(
        _EVENTS,
        env.sql_query(
            f"""SELECT CONCAT('v', CAST(MOD(i * 7919, {_CONTENTS}) AS STRING)) AS content_id,
            CONCAT('u', CAST(i AS STRING)) AS user_id,
            ({_FIRST_MS} + MOD(i, 1000000000)) * {1 << TIME_SHIFT} + {int(Reaction.LIKE) << REACTION_SHIFT} AS register
            FROM numbers"""
        ),
    )
    dedup(env, _EVENTS)
    changes(env, settings.events)
    count(env)
    client = throw_away(env, "count")
    grown = _watch(rest, str(client.get_job_id()), registers, tell)
    client.cancel().result()
    return grown


def _watch(rest: FlinkRest, job_id: str, registers: int, tell: Callable[[str], None]) -> Grown:
    began, samples = time.monotonic(), [Sample(0.0, 0)]
    while samples[-1].registers < registers:
        time.sleep(_POLL_S)
        samples.append(Sample(time.monotonic() - began, _registers(rest, job_id)))
        if len(samples) % 10 == 0:
            tell(f"{samples[-1].registers:,} of {registers:,} registers, {samples[-1].seconds:.0f} s")
    done = rest.completed_checkpoints(job_id)
    while rest.completed_checkpoints(job_id) == done:
        time.sleep(_POLL_S)
    return Grown(tuple(samples), round(rest.state_bytes(job_id) / _registers(rest, job_id), 1))


def _registers(rest: FlinkRest, job_id: str) -> int:
    """What dedup has been sent; hardly two events are of one user and content, so each is a register."""
    try:
        vertices = rest.vertices(job_id)
    except (ServiceUnavailable, JobFailed):
        return 0
    dedup_vertex = next(vertex for vertex in vertices if "ProcessTableFunction" in vertex["name"])
    return int(dedup_vertex["metrics"]["read-records"])


def main() -> None:
    """Run once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--registers", type=int, default=50_000_000)
    registers = parser.parse_args().registers
    with tempfile.TemporaryDirectory(prefix="likes-bench-") as folder:
        grown = measure(Settings(), registers, Path(folder), tell)
    sizes = [size for size in SIZES if _first(size) + _SLICES * _SLICE <= registers]
    rates = {str(size): [round(rate) for rate in slice_rates(grown.samples, size)] for size in sizes}
    print(json.dumps({"registers": registers, "bytes_per_register": grown.bytes_per_register, "events_per_s": rates}))


if __name__ == "__main__":
    main()

"""How fast dedup and counting stay as registers accumulate: one run, every event a register of its own.

    .venv/bin/python -m bench.state --registers 50000000

The events are made by Flink's own generator, so that Kafka and validation do not hide what state costs. Prints one JSON
object: the rate while the state held so many registers, and its bytes per register in the last checkpoint.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.stages import environment, tell, throw_away
from pipelines.domain.register import REACTION_SHIFT, TIME_SHIFT, Reaction
from pipelines.errors import JobFailed, ServiceUnavailable
from pipelines.settings import Settings
from pipelines.steps.changes import changes
from pipelines.steps.count import count
from pipelines.steps.dedup import dedup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipelines.jobs.rest import FlinkRest

_CONTENTS = 100_003
_FIRST_MS = 1_767_225_600_000
_POLL_S = 1.0
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


def rate_until(samples: Sequence[Sample], registers: int) -> float:
    """Events per second while the state grew from half of so many registers to all of them: the slope of a line.

    Registers come in bundles of a checkpoint each, so two samples alone would tell little.

    Args:
        samples: In order.
        registers: Where it ends.
    """
    window = [sample for sample in samples if registers / 2 <= sample.registers <= registers]
    slope, _ = np.polyfit([sample.seconds for sample in window], [sample.registers for sample in window], 1)
    return float(slope)


def measure(settings: Settings, registers: int, folder: Path) -> dict[str, Any]:
    """Fill the state.

    Returns:
        registers, seconds, samples ([seconds, registers]), bytes_per_register (in the newest checkpoint).
    """
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
    samples, bytes_each = _watch(rest, str(client.get_job_id()), registers)
    client.cancel().result()
    return {
        "registers": registers,
        "seconds": round(samples[-1].seconds - samples[0].seconds, 1),
        "samples": [[round(sample.seconds, 2), sample.registers] for sample in samples],
        "bytes_per_register": round(bytes_each, 1),
    }


def _watch(rest: FlinkRest, job_id: str, registers: int) -> tuple[list[Sample], float]:
    """Samples until the state has so many registers, and the bytes of each in the checkpoint that comes then."""
    began, samples = time.monotonic(), [Sample(0.0, 0)]
    while samples[-1].registers < registers:
        time.sleep(_POLL_S)
        samples.append(Sample(time.monotonic() - began, _registers(rest, job_id)))
        if len(samples) % 10 == 0:
            tell(f"{samples[-1].registers:,} of {registers:,} registers, {samples[-1].seconds:.0f} s")
    done = rest.completed_checkpoints(job_id)
    while rest.completed_checkpoints(job_id) == done:
        time.sleep(_POLL_S)
    return samples, rest.state_bytes(job_id) / _registers(rest, job_id)


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
        found = measure(Settings(), registers, Path(folder))
    samples = [Sample(*sample) for sample in found.pop("samples")]
    sizes = [size for size in (4_000_000, 10_000_000, 50_000_000) if size <= registers]
    print(json.dumps(found | {"events_per_s": {str(size): round(rate_until(samples, size)) for size in sizes}}))


if __name__ == "__main__":
    main()

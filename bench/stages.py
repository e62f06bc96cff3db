"""Bounded runs of the first steps of the plan, in a process of their own, rows thrown away; prints a JSON outcome each.

    .venv/bin/python -m bench.stages parse dedup --runs 3

What each step adds is the difference between two of these: raw (bytes from Kafka), parse (validated), dedup (registers
in state), count (totals in state; no Python, no sinks). Settings come from the environment, as for `likes`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bench.harness import tell
from bench.machine import cpu_s
from cli.common import settings_from_process
from connectors import kafka
from deploy.flink.local_stack.jars import ensure_jars
from deploy.flink.local_stack.ports import free_port
from pipelines.errors import JobFailed, ServiceUnavailable
from pipelines.jobs import flink, tables
from pipelines.jobs.pace import Pace
from pipelines.jobs.progress import progress_of_run
from pipelines.jobs.rest import FlinkRest
from pipelines.jobs.saved_state import StateFolders
from pipelines.jobs.tail import Tail
from pipelines.steps.changes import changes
from pipelines.steps.count import TOTALS, count
from pipelines.steps.dedup import REGISTERS, dedup
from pipelines.steps.read import LIKE_EVENTS, read
from pipelines.steps.touch import TOUCHED, touch
from pipelines.steps.validate import CHECKED, validate

if TYPE_CHECKING:
    from pyflink.common import JobClient
    from pyflink.table import TableEnvironment

    from pipelines.settings import Settings

_REGISTER = "content_id STRING, user_id STRING, register BIGINT"
_TOTAL = (
    "content_id STRING, region STRING, likes_p BIGINT, likes_n BIGINT, dislikes_p BIGINT, dislikes_n BIGINT,"
    " changes BIGINT, as_of_ms BIGINT"
)
# What is thrown away, and where it comes from.
STAGES = {
    "raw": (
        "record BYTES, `partition` INT, `offset` BIGINT",
        f"SELECT `value`, `partition`, `offset` FROM {LIKE_EVENTS}",
    ),
    "parse": (_REGISTER, f"SELECT content_id, user_id, register FROM {CHECKED} WHERE reason IS NULL"),
    "dedup": (_REGISTER, f"SELECT content_id, user_id, register FROM {REGISTERS}"),
    "count": (_TOTAL, f"SELECT * FROM {TOTALS}"),
}
_POLL_S = 0.25


def environment(settings: Settings, name: str, folder: Path) -> tuple[TableEnvironment, FlinkRest]:
    """An embedded cluster as jobs have it, all its files in a folder, and its REST API."""
    target = flink.Target(f"http://127.0.0.1:{free_port(set())}", embedded=True, log_dir=folder, scratch_dir=folder)
    options = flink.configuration(
        settings.job,
        name=name,
        run=uuid.uuid4().hex,
        parallelism=settings.job.parallelism,
        jars=ensure_jars("flink", tell),
        folders=StateFolders(folder / "state"),
        restore=None,
    )
    env = flink.environment(options | flink.embedded_options(settings.job, target), target)
    return env, FlinkRest(target.rest_url)


def throw_away(env: TableEnvironment, stage: str) -> JobClient:
    """Start the job that computes a stage and keeps nothing of it."""
    columns, query = STAGES[stage]
    env.execute_sql(f"CREATE TEMPORARY TABLE nowhere ({columns}) WITH ('connector' = 'blackhole')")
    client = env.execute_sql(f"INSERT INTO nowhere {query}").get_job_client()
    assert client is not None
    return client


def measure(settings: Settings, stage: str, folder: Path) -> dict[str, object]:
    """Run one stage to the topic's present end.

    Returns:
        stage, events, events_per_s (see `pipelines.jobs.pace`; by the same clock as a counting run's),
        cpu_us_per_event (planning included).
    """
    folders = StateFolders(folder / "state")
    env, rest = environment(settings, f"bench {stage}", folder)
    topic = settings.kafka.events_topic
    ends = kafka.end_offsets(settings, topic)
    group = f"bench-{uuid.uuid4().hex[:8]}"
    kafka.commit_offsets(settings, topic, group, dict.fromkeys(ends, 0))
    read(env, tables.source(settings, group, None))
    validate(env, settings.events)
    touch(env, settings.events)
    dedup(env, TOUCHED)
    changes(env, settings.events)
    count(env)
    used_s = cpu_s()
    client = throw_away(env, stage)
    job_id = str(client.get_job_id())
    while not (age_s := rest.age_s(job_id)):
        time.sleep(_POLL_S)
    events = sum(ends.values())
    began = time.monotonic() - age_s
    tail, pace = Tail(began, 0), Pace(began, 0, events)
    while (done := sum(progress_of_run(settings, group, folders.latest()).values())) < events:
        pace.saw(time.monotonic(), done)
        if tail.is_due(time.monotonic(), done, events - done):
            with suppress(ServiceUnavailable, JobFailed):  # the periodic one comes too
                rest.checkpoint(job_id)
        time.sleep(_POLL_S)
    per_s = round(pace.per_s(time.monotonic(), events), 1)
    client.cancel().result()
    cost_us = round((cpu_s() - used_s) / max(1, events) * 1e6, 2)
    return {"stage": stage, "events": events, "events_per_s": per_s, "cpu_us_per_event": cost_us}


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="+", choices=STAGES)
    parser.add_argument("--runs", type=int, default=1, help="of each, after one of the last that warms the JVM up")
    arguments = parser.parse_args()
    for stage in [arguments.stages[-1], *(name for name in arguments.stages for _ in range(arguments.runs))]:
        with tempfile.TemporaryDirectory(prefix="likes-bench-") as folder:
            print(json.dumps(measure(settings_from_process(), stage, Path(folder))), flush=True)


if __name__ == "__main__":
    main()

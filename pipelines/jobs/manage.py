"""Jobs that run, from the outside: which there are, saving them, stopping them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from connectors import kafka
from connectors.cassandra import Generations, Leases, Pointer, has_schema, open_session
from connectors.store import lease_name
from pipelines.errors import JobFailed, Refused, ServiceUnavailable
from pipelines.jobs.names import state_folders
from pipelines.jobs.prepare import identity_of
from pipelines.jobs.progress import standing
from pipelines.jobs.rest import ENDED, FlinkJob, FlinkRest

if TYPE_CHECKING:
    from pathlib import Path

    from connectors.cassandra import CassandraSession, Lease
    from pipelines.jobs.plan import Pipeline
    from pipelines.jobs.saved_state import StateFolders
    from pipelines.settings import Settings

_POLL_S = 0.1
_STOP_S = 60.0


@dataclass(frozen=True, slots=True)
class JobInfo:
    """A pipeline of a generation: what runs and what is saved.

    Fields:
        pipeline: Its name.
        generation: What it counts; None for `user-likes`, which has none.
        live: Whether readers see this generation.
        state: Flink's word for the running job, `not running`, or `unknown` where Flink does not answer.
        job_id: Flink's id, empty when not running.
        rest_url: Where it runs, empty when not running.
        saved: Path of the newest saved state, empty if none.
        counted: Records stored so far, over all partitions from offset 0.
        lag: Records in the log that are not counted yet.
    """

    pipeline: str
    generation: int | None
    live: bool
    state: str
    job_id: str
    rest_url: str
    saved: str
    counted: int
    lag: int


def list_jobs(settings: Settings) -> list[JobInfo]:
    """Every generation's job, newest generation last, then `user-likes`. Creates nothing.

    Raises:
        ServiceUnavailable: Cassandra or Kafka does not answer.
        SettingError: There is no topic.
    """
    with open_session(settings) as session:
        if not has_schema(session, settings):
            return []
        live = Pointer(session).read()
        known = Generations(session).all()
        found = [_info(settings, session, "like-counts", g.generation, identity_of(g.rules), live) for g in known]
        if known:
            found.append(_info(settings, session, "user-likes", None, identity_of(known[0].rules), live))
        return found


def savepoint(settings: Settings, pipeline: Pipeline, generation: int | None) -> str:
    """Take a savepoint of a running job; returns its path.

    Args:
        settings: Of the job.
        pipeline: Which.
        generation: What it counts, None for the live one; `user-likes` has none.

    Raises:
        Refused: No such job runs.
        JobFailed: The savepoint failed.
        ServiceUnavailable: Cassandra or Flink does not answer.
    """
    with open_session(settings) as session:
        _, rest, job, folders = _running(settings, session, pipeline, generation)
    return rest.savepoint(job.job_id, _savepoints_of(job, folders).as_uri(), stop=False)


def stop(settings: Settings, pipeline: Pipeline, generation: int | None, *, with_savepoint: bool) -> str | None:
    """Stop a running job; returns the path of the savepoint if one was taken.

    Without one the last checkpoint stays, from which the next run resumes.

    Args:
        settings: Of the job.
        pipeline: Which.
        generation: What it counts, None for the live one; `user-likes` has none.
        with_savepoint: Save its state at the very end.

    Raises:
        Refused: No such job runs.
        JobFailed: The savepoint failed; the job runs on.
        ServiceUnavailable: Cassandra or Flink does not answer.
    """
    with open_session(settings) as session:
        name, rest, job, folders = _running(settings, session, pipeline, generation)
        path = None
        if with_savepoint:
            path = _stop_with_savepoint(rest, job, folders)
        else:
            rest.cancel(job.job_id)
        _await_end(rest, job)
        held = Leases(session).read(name)
        if held is not None and held.pid == 0:  # a local run gives its own lease up
            Leases(session).release(held)
    return path


def _stop_with_savepoint(rest: FlinkRest, job: FlinkJob, folders: StateFolders) -> str:
    folder = _savepoints_of(job, folders)
    before = set(folder.glob("*/_metadata"))
    try:
        return rest.savepoint(job.job_id, folder.as_uri(), stop=True)
    except (ServiceUnavailable, JobFailed):
        # An embedded cluster goes with its job, often before it has answered; what it wrote tells.
        new = [found for found in folder.glob("*/_metadata") if found not in before]
        if not new:
            raise
        return str(new[0].parent)


def _savepoints_of(job: FlinkJob, folders: StateFolders) -> Path:
    folder = folders.savepoints / job.job_id
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _await_end(rest: FlinkRest, job: FlinkJob) -> None:
    deadline = time.monotonic() + _STOP_S
    while time.monotonic() < deadline:
        try:
            if rest.state(job.job_id) in ENDED:
                return
        except (ServiceUnavailable, JobFailed):
            return
        time.sleep(_POLL_S)
    raise JobFailed(f"job {job.job_id} is still stopping after {_STOP_S:g} s", f"see {rest.url}")


def _running(
    settings: Settings, session: CassandraSession, pipeline: Pipeline, wanted: int | None
) -> tuple[str, FlinkRest, FlinkJob, StateFolders]:
    """The lease's name, where the job runs, the job, and where its state lies."""
    if not has_schema(session, settings):
        raise Refused("nothing has been counted yet", "see `likes job list`")
    known = Generations(session).all()
    number = Pointer(session).read() if wanted is None else wanted
    found = next((g for g in known if g.generation == number), None)
    if number is None or found is None:
        what = "nothing has been counted yet" if number is None else f"there is no generation {number}"
        raise Refused(what, "see `likes job list`")
    generation, rules = (number, found.rules) if pipeline == "like-counts" else (None, known[0].rules)
    name = pipeline if generation is None else lease_name(generation)
    held = Leases(session).read(name)
    try:
        job = _job(held)
    except ServiceUnavailable:
        if held is None or held.pid == 0:
            raise
        where = f"its process is {held.pid} on {held.host}"
        raise Refused(f"the job {name} does not answer: it starts, or has died ({where})", "try again") from None
    if held is None or job is None or job.state in ENDED:
        raise Refused(f"no job {name} runs", "see `likes job list`")
    return name, FlinkRest(held.job), job, state_folders(settings, pipeline, generation, identity_of(rules))


def _job(held: Lease | None) -> FlinkJob | None:
    """The Flink job of a lease, whose owner is the job's id."""
    return None if held is None else FlinkRest(held.job).find(held.owner)


def _info(
    settings: Settings,
    session: CassandraSession,
    pipeline: Pipeline,
    generation: int | None,
    identity: str,
    live: int | None,
) -> JobInfo:
    name = pipeline if generation is None else lease_name(generation)
    held = Leases(session).read(name)
    state, job_id = "not running", ""
    if held is not None:
        try:
            job = _job(held)
            state, job_id = ("starting", "") if job is None else (job.state, job.job_id)
        except ServiceUnavailable:
            state = "unknown"
    saved, done = standing(settings, session, pipeline, generation, identity)
    ends = kafka.end_offsets(settings, settings.kafka.events_topic)
    counted = sum(done.values())
    return JobInfo(
        pipeline=pipeline,
        generation=generation,
        live=generation is not None and generation == live,
        state=state,
        job_id=job_id,
        rest_url=held.job if held else "",
        saved=str(saved.path) if saved else "",
        counted=counted,
        lag=sum(ends.values()) - counted,
    )

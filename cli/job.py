"""`likes job`: run, list, save and stop the pipelines."""

from __future__ import annotations

import json
import signal
from dataclasses import asdict
from typing import Annotated, Literal

import typer

from cli.common import Json, settings_from_process, tell
from cli.tables import print_table
from pipelines.jobs.manage import JobInfo, list_jobs, savepoint, stop
from pipelines.jobs.offsets import parse_position
from pipelines.jobs.plan import Pipeline, Request
from pipelines.jobs.run import run

Generation = Annotated[int | None, typer.Option(min=1, help="Default: the live generation.")]
PipelineOption = Annotated[Pipeline, typer.Option("--pipeline", help="The counts, or each user's own reactions.")]

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


@app.command("run", epilog="Example: likes job run --bounded")
def run_job(
    *,
    bounded: Annotated[
        bool, typer.Option("--bounded", help="Count to the topic's present end, keep the state, exit.")
    ] = False,
    start: Annotated[
        str, typer.Option("--from", help="earliest, latest, committed, timestamp:MS or offsets:P=O,…")
    ] = "earliest",
    to: Annotated[
        str, typer.Option("--to", help="latest, timestamp:MS or offsets:P=O,…; other than latest keeps no state.")
    ] = "",
    parallelism: Annotated[int | None, typer.Option(min=1, help="Default: setting job.parallelism.")] = None,
    generation: Annotated[
        Literal["live", "new"], typer.Option(help="The live generation, or a new one beside it.")
    ] = "live",
    target: Annotated[
        Literal["local", "cluster"], typer.Option(help="The embedded MiniCluster, or the cluster at job.flink_rest.")
    ] = "local",
    pipeline: PipelineOption = "like-counts",
    as_json: Json = False,
) -> None:
    """Count. Resumes the generation's latest checkpoint; without one it starts from offset 0 of every partition."""
    if pipeline == "user-likes" and generation == "new":
        raise typer.BadParameter("user-likes has no generations", param_hint="--generation")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as by Ctrl-C: the lease is given up
    flags = {} if parallelism is None else {"job": {"parallelism": parallelism}}
    end = parse_position(to) if to and to != "latest" else None
    request = Request(
        pipeline=pipeline,
        bounded=bounded or bool(to),
        start=parse_position(start),
        end=end,
        new_generation=generation == "new",
        target=target,
    )
    outcome = run(settings_from_process(**flags), request, tell)
    if as_json:
        typer.echo(json.dumps(asdict(outcome)))


@app.command("list", epilog="Example: likes job list --json")
def list_running(*, as_json: Json = False) -> None:
    """Show every generation's job: whether it runs, where, what is saved, how far it is."""
    found = list_jobs(settings_from_process())
    if as_json:
        typer.echo(json.dumps([asdict(info) for info in found]))
        return
    columns = ("pipeline", "generation", "state", "counted", "lag", "UI", "saved state")
    print_table(columns, (_row(info) for info in found), right=frozenset({"counted", "lag"}))


@app.command("savepoint", epilog="Example: likes job savepoint")
def take_savepoint(
    *, pipeline: PipelineOption = "like-counts", generation: Generation = None, as_json: Json = False
) -> None:
    """Save the state of the running job to a place that nothing deletes; the job goes on."""
    path = savepoint(settings_from_process(), pipeline, generation)
    typer.echo(json.dumps({"savepoint": path}) if as_json else path)


@app.command("stop", epilog="Example: likes job stop --savepoint")
def stop_job(
    *,
    with_savepoint: Annotated[bool, typer.Option("--savepoint", help="Save its state at the very end first.")] = False,
    pipeline: PipelineOption = "like-counts",
    generation: Generation = None,
    as_json: Json = False,
) -> None:
    """Stop the running job. The next run resumes from its savepoint, or without one from its last checkpoint."""
    path = stop(settings_from_process(), pipeline, generation, with_savepoint=with_savepoint)
    if as_json:
        typer.echo(json.dumps({"stopped": True, "savepoint": path}))
    else:
        typer.echo(f"stopped; state in {path}" if path else "stopped; the last checkpoint stays")


def _row(info: JobInfo) -> tuple[object, ...]:
    number = "" if info.generation is None else f"{info.generation}{' (live)' if info.live else ''}"
    return info.pipeline, number, info.state, f"{info.counted:,}", f"{info.lag:,}", info.rest_url, info.saved

"""`likes job`: run, list, save and stop the pipelines."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Literal

import typer

from cli.common import Json, settings_from_process, tell
from pipelines.jobs.offsets import parse_position
from pipelines.jobs.run import Request, run

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
    pipeline: Annotated[
        Literal["like-counts", "user-likes"], typer.Option(help="The counts, or each user's own reactions.")
    ] = "like-counts",
    as_json: Json = False,
) -> None:
    """Count. Resumes the generation's latest checkpoint; without one it starts from offset 0 of every partition."""
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

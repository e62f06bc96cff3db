"""`likes stack`: Kafka, Cassandra and a Redis-protocol server on this machine."""

from __future__ import annotations

import json
import os
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from deploy.flink.local_stack import ServiceStatus, Stack
from pipelines.errors import ServiceUnavailable

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")

Port = Annotated[int | None, typer.Option(min=1, max=65_535, help="Default: the one it had, else a free one.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command(epilog="Example: likes stack up --kafka-port 9092")
def up(*, kafka_port: Port = None, cassandra_port: Port = None, redis_port: Port = None) -> None:
    """Start what is not running and wait until it answers. Data and ports of an earlier run stay."""
    stack = Stack()
    wanted = {"kafka": kafka_port, "cassandra": cassandra_port, "redis": redis_port}
    _tell(f"stack in {stack.folder}")
    stack.up(_tell, {name: port for name, port in wanted.items() if port is not None})
    env = stack.env()
    for name, value in env.items():
        if os.environ.get(name, value) != value:
            _tell(f"note: {name}={os.environ[name]} in the environment ranks above this stack")
    typer.echo("up: " + " ".join(f"{name}={value}" for name, value in env.items()))


@app.command(epilog="Example: likes stack down --purge")
def down(*, purge: Annotated[bool, typer.Option("--purge", help="Remove its data and logs too.")] = False) -> None:
    """Stop what `up` started, and nothing else. Data stays."""
    stack = Stack()
    if not stack.down(purge=purge, progress=_tell):
        _tell(f"nothing was running in {stack.folder}")


@app.command(epilog="Example: likes stack status --json")
def status(*, as_json: Json = False) -> None:
    """Show what runs. Exit code 0 when everything is up, 5 when not."""
    stack = Stack()
    services = stack.status()
    missing = [service.name for service in services if not service.is_up]
    if as_json:
        entries = [_as_json(service) for service in services]
        typer.echo(json.dumps({"folder": str(stack.folder), "up": not missing, "services": entries}))
    else:
        Console().print(_as_table(services))
    if missing:
        raise ServiceUnavailable(f"not running: {', '.join(missing)}", "run `likes stack up`")


@app.command(epilog="Example: export $(likes stack env)")
def env(*, as_json: Json = False) -> None:
    """Print where the running stack is: one NAME=VALUE a line."""
    stack = Stack()
    if not stack.is_running():
        raise ServiceUnavailable(f"no stack is running in {stack.folder}", "run `likes stack up`")
    values = stack.env()
    typer.echo(json.dumps(values) if as_json else "\n".join(f"{name}={value}" for name, value in values.items()))


def _as_json(service: ServiceStatus) -> dict[str, object]:
    return {
        "name": service.name,
        "up": service.is_up,
        "pid": service.pid,
        "port": service.port,
        "rss_mb": service.rss_mb,
    }


def _as_table(services: list[ServiceStatus]) -> Table:
    table = Table("service", "state", "pid", "address", "memory", box=None, pad_edge=False)
    for service in services:
        state = "[green]up[/]" if service.is_up else "[yellow]not answering[/]" if service.pid else "[red]down[/]"
        address = f"127.0.0.1:{service.port}" if service.port else ""
        memory = f"{service.rss_mb} MB" if service.pid else ""
        table.add_row(service.name, state, str(service.pid or ""), address, memory)
    return table


def _tell(line: str) -> None:
    typer.echo(line, err=True)

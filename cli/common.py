"""What the verbs share: settings of this process, and where words for people go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deploy.flink.local_stack import running_stack_env
from pipelines.settings import Settings, from_process

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def settings_from_process(**flags: Mapping[str, object]) -> Settings:
    """Defaults, the running local stack, the TOML file, the environment, then these flags by section."""
    return from_process(running_stack_env(), **flags)


def tell(line: str) -> None:
    """A line for the person at the terminal; results alone go to stdout."""
    typer.echo(line, err=True)

"""The `likes` command: what verbs there are, and what becomes of errors.

A verb group is a module with `app: typer.Typer`; a single verb is a module with a function. Either is one line in
`VERBS` and loaded only when it is called, so that `likes --help` and completion do not wait for Flink.
"""

from __future__ import annotations

import os
import sys
import traceback
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from pipelines.errors import LikesError, of_file_system

if TYPE_CHECKING:
    from typer._click import Command, Context  # typer's annotations name its own copy of click

INTERRUPTED = 130
BROKEN_PIPE = 141
_BUG = 1

EPILOG = """\
[bold]Exit codes[/]  0 done · 1 a bug · 2 wrong usage · 3 refused, since counts would be wrong · 4 a setting · \
5 a service cannot be reached · 6 bad input · 7 the job failed · 8 superseded by a newer job · 130 interrupted

[bold]Services[/]  Where they are comes from KAFKA_BOOTSTRAP, CASSANDRA_HOSTS, CASSANDRA_PORT and REDIS_URL, else from \
the stack that `likes stack up` started.

[bold]Example[/]  likes stack up && likes events sample && likes job run --bounded && likes counts v1 --json
"""


@dataclass(frozen=True, slots=True)
class Verb:
    """A line of `likes --help`.

    Fields:
        name: What the user types.
        target: `module:attribute`, a `typer.Typer` for a group or a function for a single verb.
        help: One line.
    """

    name: str
    target: str
    help: str


VERBS = (
    Verb("demo", "cli.demo:demo", "Start everything, replay a real reaction log and watch the counts."),
    Verb("stack", "cli.stack:app", "Start, stop and inspect Kafka, Cassandra and Redis on this machine."),
    Verb("events", "cli.events:app", "Publish events: a file, a traffic model or a real reaction log."),
    Verb("job", "cli.job:app", "Run, list, save and stop the counting job."),
    Verb("serve", "cli.serve:serve", "Take taps and answer counts over HTTP."),
    Verb("token", "cli.serve:token", "Print a development token for the local stack."),
    Verb("counts", "cli.counts:counts", "Read the counts of some contents."),
    Verb("reactions", "cli.reactions:reactions", "Read what one user thinks of which contents."),
    Verb("dead-letters", "cli.dead_letters:app", "Look at rejected events and replay them."),
    Verb("cache", "cli.cache:app", "Rebuild the cache from the system of record."),
)


class LazyGroup(TyperGroup):
    """A group that knows its verbs' names and help, and loads the one that is called."""

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 - typer's own arguments, handed on
        super().__init__(**attributes)
        for verb in VERBS:
            self.commands[verb.name] = TyperCommand(name=verb.name, help=verb.help)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """As its parent, with the real command in the place of the one that only has a name."""
        name, command, rest = super().resolve_command(ctx, args)
        found = next((verb for verb in VERBS if verb.name == name), None)
        return name, load(found) if found else command, rest


def load(verb: Verb) -> Command:
    """Import a verb's module and make its command."""
    module, _, attribute = verb.target.partition(":")
    target = getattr(import_module(module), attribute)
    if isinstance(target, typer.Typer):
        group = get_group(target)
        group.name, group.help = verb.name, group.help or verb.help
        return group
    single = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    single.command(name=verb.name)(target)
    return get_command(single)


app = typer.Typer(cls=LazyGroup, no_args_is_help=True, rich_markup_mode="rich", epilog=EPILOG)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it with the flag's value
    if wanted:
        typer.echo(f"likes {version('likes-counter')}")
        raise typer.Exit


@app.callback()
def _likes(
    *,
    debug: Annotated[bool, typer.Option("--debug", help="Show the trace of an error; may stand anywhere.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Exact like and dislike counts from a Kafka log."""


def run() -> None:
    """The entry point: runs the command and exits with its code."""
    arguments, debug = _without_debug(sys.argv[1:])
    sys.exit(invoke(arguments, debug=debug))


def invoke(arguments: list[str], *, debug: bool) -> int:
    """Run one command line; returns the exit code. What the operator can fix is one line on stderr."""
    try:
        get_command(app)(arguments, prog_name="likes")
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except LikesError as error:
        code = _report(error, str(error), error.exit_code, debug=debug)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = BROKEN_PIPE
    except Exception as error:  # noqa: BLE001 - the last resort: whatever this is, it is not the operator's
        known = of_file_system(error) if isinstance(error, OSError) else None
        what = str(known or f"this is a bug: {type(error).__name__}: {error}; --debug shows the trace")
        code = _report(error, what, known.exit_code if known else _BUG, debug=debug)
    return _flush() or code


def _report(error: Exception, line: str, code: int, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    sys.stderr.write(f"error: {' '.join(line.split())}\n")
    return code


def _flush() -> int:
    """Write out what is buffered while a closed pipe can still be told from a bug."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at exit, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return 0


def _without_debug(arguments: list[str]) -> tuple[list[str], bool]:
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = [argument for argument in arguments[:end] if argument != "--debug"]
    return options + arguments[end:], len(options) < end


if __name__ == "__main__":
    run()

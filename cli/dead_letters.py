"""`likes dead-letters`: look at rejected events and replay them."""

from __future__ import annotations

import heapq
import json
import time
from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cli import replay as replaying
from cli.common import Json, settings_from_process, tell
from cli.dead_letter_log import Passed, distinct_letters
from cli.progress import Tally
from cli.replay import Request, Summary
from cli.tables import print_table
from pipelines.domain.events import REASONS
from pipelines.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pipelines.domain.dead_letters import DeadLetter

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")

_SHOWN_CHARACTERS = 70
_TOLD = 20

_LIST_EPILOG = """Examples:

* `likes dead-letters list --summary`
* `likes dead-letters list --reason unknown_region --limit 10 --json`
"""
_REPLAY_EPILOG = """Examples:

* `likes dead-letters replay --policy stop` after a region was added to the settings
* `likes dead-letters replay --policy fix --fix "jq -c '.action |= ascii_upcase'" --dry-run`
* `likes dead-letters replay --policy drop --limit 1`
"""


@app.command("list", epilog=_LIST_EPILOG)
def list_letters(
    *,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the newest so many.")] = None,
    reason: Annotated[str | None, typer.Option(help="Only those with this reason code.")] = None,
    summary: Annotated[bool, typer.Option("--summary", help="Only how many there are, by reason.")] = False,
    as_json: Json = False,
) -> None:
    """Show the dead letters up to the topic's present end, each once, in the order of their timestamps.

    Those that a replay has dealt with are among them: the topic is a log too.
    """
    if reason is not None and reason not in REASONS:
        raise typer.BadParameter(f"{reason!r} is none of {', '.join(REASONS)}", param_hint="--reason")
    passed = Passed()
    with Tally("read dead letters") as tally:
        letters = _chosen(tally.over(distinct_letters(settings_from_process(), passed)), reason)
        if summary:
            counts = Counter(letter.reason for letter in letters)
        else:
            chosen = _newest(letters, limit)
    if passed.unreadable:
        tell(f"note: records of the topic that are no dead letters: {passed.unreadable}")
    if summary:
        _print_summary(counts, as_json=as_json)
    elif as_json:
        lines = ",\n".join(json.dumps(letter.to_message()) for letter in chosen)
        typer.echo(f"[\n{lines}\n]" if lines else "[]")
    elif chosen:
        print_table(("record", "time, UTC", "reason", "value"), map(_row, chosen))
    else:
        tell("no dead letters")


@app.command(epilog=_REPLAY_EPILOG)
def replay(
    *,
    policy: Annotated[Literal["drop", "fix", "stop"], typer.Option(help="What to do with each, see above.")],
    fix: Annotated[
        str, typer.Option(help="Shell command: reads one record on stdin, writes it mended.", metavar="COMMAND")
    ] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Deal with this many at most.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done; a --fix command does run.")
    ] = False,
    as_json: Json = False,
) -> None:
    r"""Deal with the dead letters that no earlier replay has dealt with, up to the topic's present end.

    drop: never mind them. fix: publish what the command makes of the exact original bytes (one \n at its end is left
    off); where it fails, writes nothing or writes what would be rejected again, the dead letter is left as it is. stop:
    publish the original bytes of those that are valid by now, and stop at the first that is not.

    An event without event_time is given the time of its first arrival, so that it does not beat what its user did
    since. Publishing an event again never changes a count, so an interrupted replay may simply be repeated; and where
    a dead letter is left, the next replay comes again to those after it in its partition of the topic.

    The exit code is 6 if a dead letter was left.
    """
    if bool(fix) != (policy == "fix"):
        raise typer.BadParameter("--policy fix and --fix COMMAND belong together", param_hint="--fix")
    request = Request(policy, fix, limit, dry_run)
    settings = settings_from_process()
    told = Counter[str]()

    def left(letter: DeadLetter, why: str) -> None:
        told["left"] += 1
        if told["left"] <= _TOLD:
            tell(f"left: {_place(letter)}, {why}")
        elif told["left"] == _TOLD + 1:
            tell("left: more than these")

    done = replaying.replay(settings, request, now_ms=lambda: time.time_ns() // 1_000_000, left=left)
    _report(done, request, as_json=as_json)


def _chosen(letters: Iterable[DeadLetter], reason: str | None) -> Iterator[DeadLetter]:
    return (letter for letter in letters if reason is None or letter.reason == reason)


def _newest(letters: Iterable[DeadLetter], limit: int | None) -> list[DeadLetter]:
    def order(letter: DeadLetter) -> tuple[int, str, int, int]:
        return letter.timestamp_ms, *letter.identity

    if limit is None:
        return sorted(letters, key=order)
    return heapq.nlargest(limit, letters, key=order)[::-1]


def _print_summary(counts: Counter[str], *, as_json: bool) -> None:
    total = counts.total()
    if as_json:
        typer.echo(json.dumps({"total": total, "reasons": dict(counts.most_common())}))
        return
    rows = [(reason, number, REASONS.get(reason, "")) for reason, number in counts.most_common()]
    print_table(("reason", "count", "meaning"), [*rows, ("total", total, "")], right=frozenset({"count"}))


def _row(letter: DeadLetter) -> tuple[str, str, str, str]:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=letter.timestamp_ms)
    return _place(letter), at.strftime("%Y-%m-%d %H:%M:%S"), letter.reason, _shown(letter.value)


def _shown(value: bytes | None) -> str:
    """The beginning of a record on one line, with nothing in it that a terminal would obey."""
    if value is None:
        return ""
    try:
        text = repr(value.decode())
    except UnicodeDecodeError:
        text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def _place(letter: DeadLetter) -> str:
    return f"{letter.topic}-{letter.partition}@{letter.offset}"


def _report(done: Summary, request: Request, *, as_json: bool) -> None:
    left = done.rejected + done.failed
    if as_json:
        counts = {name: value for name, value in asdict(done).items() if name not in ("passed", "first_left")}
        fields = {"policy": request.policy, "dry_run": request.dry_run, **counts, "left": left, **asdict(done.passed)}
        typer.echo(json.dumps(fields))
    else:
        would = "would be " if request.dry_run else ""
        typer.echo(
            f"{done.looked_at} dead letters: {done.resent} {would}resent, {done.dropped} {would}dropped, {left} left"
            f" ({done.rejected} still rejected, {done.failed} not fixed); passed over {done.passed.duplicates}"
            f" duplicates and {done.passed.unreadable} records that are no dead letters"
        )
    if done.first_left is None:
        return
    letter, why = done.first_left
    if request.policy == "stop":
        raise BadInput(
            f"stopped at {_place(letter)}: {why}",
            "mend it with --policy fix, or pass over it with --policy drop --limit 1",
        )
    raise BadInput(f"dead letters left: {left}, the first is {_place(letter)}: {why}", "improve the command")

"""How the demo looks: one screen of 80 columns or more for a terminal, one line now and then for anything else."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group
from rich.measure import Measurement
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from cli.demo.stats import Snapshot
    from pipelines.domain.counting import Reactions

# Lines that are neither contents nor the state: heading, bar, 4 of numbers, the list's own heading, 4 of addresses, 3
# blank ones, and one for the prompt that follows the last picture.
_OTHER_LINES = 15
_FEWEST, _MOST = 3, 10
_WIDEST = 120
_LIKES, _DISLIKES, _DIM = "green", "red", "bright_black"


@dataclass(frozen=True, slots=True)
class Scene:
    """What does not change while the demo runs.

    Fields:
        title: Of the log that is replayed.
        total: Events that the replay publishes.
        names: What contents are called, by id.
        addresses: Of the services, by name.
        page: Address of the watch page.
        hint: What to type elsewhere.
    """

    title: str
    total: int
    names: Mapping[str, str]
    addresses: Mapping[str, str]
    page: str
    hint: str


@dataclass(frozen=True, slots=True)
class Moment:
    """What the main thread adds to a snapshot.

    Fields:
        elapsed_s: Since the replay began.
        now_ms: Milliseconds since the epoch.
        published: Events that the replay has published.
        waiting: Whether the replay waits for the job.
        finished: Whether the brokers have all events.
    """

    elapsed_s: float
    now_ms: int
    published: int
    waiting: bool = False
    finished: bool = False


def screen(scene: Scene, snapshot: Snapshot, moment: Moment, *, width: int, height: int) -> RenderableType:
    """The whole screen.

    Args:
        scene: What stays.
        snapshot: What was read last.
        moment: When that is shown.
        width: Columns of the terminal.
        height: Its lines; the list of contents gets what is left of them.
    """
    width = min(width, _WIDEST)
    blank = Text()
    doing = state(snapshot, moment)
    said = textwrap.wrap(doing.plain, width)
    most = max(_FEWEST, min(_MOST, height - _OTHER_LINES - len(said)))
    return Group(
        _heading(scene, moment, width),
        _progress(scene, moment, width),
        Text("\n".join(said), doing.style),
        blank,
        _numbers(snapshot, moment, width),
        blank,
        _contents(scene, snapshot, width, most),
        blank,
        _addresses(scene, snapshot, width),
    )


def line(snapshot: Snapshot, moment: Moment) -> str:
    """The same as one line of text."""
    parts = (
        f"in {snapshot.events_in:,}",
        f"counted {snapshot.counted:,}",
        f"lag {snapshot.lag:,}",
        f"staleness {staleness_s(snapshot, moment):.1f} s",
        f"users {snapshot.users:,}",
        f"likes {snapshot.likes:,}",
        f"dislikes {snapshot.dislikes:,}",
        f"dead letters {snapshot.dead_letters:,}",
    )
    return f"{clock(moment.elapsed_s)}  {', '.join(parts)}; {state(snapshot, moment).plain}"


def state(snapshot: Snapshot, moment: Moment) -> Text:
    """What is going on, in one sentence: what is wrong, else how far the replay is."""
    if snapshot.trouble:
        return Text(f"trouble: {snapshot.trouble}", "yellow")
    if snapshot.verdict is not None and snapshot.verdict.different:
        return Text(f"wrong: {snapshot.verdict}", "bold red")
    if snapshot.job_state not in {"running", "starting"}:
        return Text(f"the job is {snapshot.job_state}; the log keeps what it has not counted", "yellow")
    return _stage(snapshot, moment)


def _stage(snapshot: Snapshot, moment: Moment) -> Text:
    if not moment.finished:
        if snapshot.job_state != "starting":
            again = f" beside {snapshot.earlier:,} events of earlier runs: the same taps again change no count"
            return Text(f"replaying{again if snapshot.earlier else ''}")
        return Text(f"the job starts; {'the replay waits for it' if moment.waiting else 'the log grows meanwhile'}")
    if snapshot.lag or snapshot.events_in < moment.published:
        return Text("replay finished; counting the rest")
    if snapshot.verdict is None:
        return Text("replay finished; all counted; checking")
    return Text(f"replay finished; all counted; checked: {snapshot.verdict}", "bold green")


def staleness_s(snapshot: Snapshot, moment: Moment) -> float:
    """For how long the oldest event that is not counted has been in the log; what readers see is at most that old."""
    return 0.0 if snapshot.oldest_waiting_ms is None else max(moment.now_ms - snapshot.oldest_waiting_ms, 0) / 1000


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def _heading(scene: Scene, moment: Moment, width: int) -> RenderableType:
    grid = Table.grid(expand=True)
    grid.width = width
    grid.add_column(no_wrap=True, overflow="ellipsis")
    grid.add_column(justify="right", no_wrap=True)
    grid.add_row(Text.assemble(("likes demo", "bold"), f"  {scene.title}"), clock(moment.elapsed_s))
    return grid


def _progress(scene: Scene, moment: Moment, width: int) -> RenderableType:
    grid = Table.grid(expand=True)
    grid.width = width
    grid.add_column(ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    done = f"  {moment.published:,} of {scene.total:,} published"
    grid.add_row(ProgressBar(scene.total, moment.published, style=_DIM, complete_style="cyan"), done)
    return grid


def _numbers(snapshot: Snapshot, moment: Moment, width: int) -> RenderableType:
    newest_ms = snapshot.newest_total_ms
    age = "" if newest_ms is None else f"{max(moment.now_ms - newest_ms, 0) / 1000:.0f} s ago"
    grid = Table.grid(expand=True)
    grid.width = width
    grid.add_column(min_width=13, no_wrap=True, style=_DIM)
    grid.add_column(min_width=7, no_wrap=True, justify="right", style="bold")
    grid.add_column(min_width=9, no_wrap=True, style=_DIM, ratio=1)
    grid.add_column(min_width=14, no_wrap=True, style=_DIM)
    grid.add_column(min_width=8, no_wrap=True, justify="right", style="bold")
    grid.add_column(min_width=2, ratio=1)
    grid.add_column(min_width=10, no_wrap=True, style=_DIM)
    grid.add_column(min_width=9, no_wrap=True, justify="right", style="bold")
    users, contents = f"{snapshot.users:,}", f"{snapshot.contents:,}"
    likes, dislikes = Text(f"{snapshot.likes:,}", _LIKES), Text(f"{snapshot.dislikes:,}", _DISLIKES)
    in_rate, counted_rate = f" {snapshot.in_rate:,.0f}/s", f" {snapshot.counted_rate:,.0f}/s"
    grid.add_row("events in", f"{snapshot.events_in:,}", in_rate, "unique users", users, "", "likes", likes)
    grid.add_row("counted", f"{snapshot.counted:,}", counted_rate, "contents", contents, "", "dislikes", dislikes)
    grid.add_row("lag", f"{snapshot.lag:,}", " events", "dead letters", f"{snapshot.dead_letters:,}", "", "", "")
    stale = f"{staleness_s(snapshot, moment):.1f}"
    grid.add_row("staleness", stale, " s", "newest total", age, "", "job", snapshot.job_state)
    return grid


def _contents(scene: Scene, snapshot: Snapshot, width: int, most: int) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), width=width, header_style=_DIM)
    table.add_column("content", no_wrap=True)
    if scene.names:
        table.add_column("", no_wrap=True, overflow="ellipsis", width=width // 3)
    table.add_column("likes", justify="right", no_wrap=True, min_width=6)
    table.add_column("dislikes", justify="right", no_wrap=True)
    table.add_column("", ratio=1, no_wrap=True)
    shown = snapshot.top[:most]
    scale = max((reactions.likes + reactions.dislikes for _, reactions in shown), default=0)
    for content_id, reactions in shown:
        name = (Text(scene.names.get(content_id, "")),) if scene.names else ()
        likes, dislikes = Text(f"{reactions.likes:,}", _LIKES), Text(f"{reactions.dislikes:,}", _DISLIKES)
        table.add_row(Text(content_id), *name, likes, dislikes, Bar(reactions, scale))
    for _ in range(most - len(shown)):
        table.add_row("")
    return table


@dataclass(frozen=True, slots=True)
class Bar:
    """Likes, then dislikes, as one line that is full where their sum is `scale`."""

    reactions: Reactions
    scale: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Rich's protocol: as wide as the column is."""
        likes = round(self.reactions.likes * options.max_width / (self.scale or 1))
        both = round((self.reactions.likes + self.reactions.dislikes) * options.max_width / (self.scale or 1))
        yield Text.assemble(("━" * likes, _LIKES), ("━" * (both - likes), _DISLIKES))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Rich's protocol: anything from a little to everything."""
        return Measurement(4, options.max_width)


def _addresses(scene: Scene, snapshot: Snapshot, width: int) -> RenderableType:
    grid = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(4):
        grid.add_column(no_wrap=True)
    places = [("Flink UI", snapshot.job_url or "…"), *scene.addresses.items()]
    for left, right in zip(places[::2], places[1::2], strict=True):
        grid.add_row(Text(left[0], _DIM), left[1], Text(right[0], _DIM), right[1])
    hint = Text.assemble(
        ("elsewhere  ", _DIM), (scene.hint, "cyan"), ("    Ctrl-C stops everything", _DIM), no_wrap=True
    )
    hint.truncate(width, overflow="ellipsis")
    page = Text.assemble(("open       ", _DIM), (scene.page, "cyan"), no_wrap=True)
    return Group(grid, page, hint)

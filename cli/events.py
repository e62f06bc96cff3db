"""`likes events`: publish a file as it is, a traffic model, or a real reaction log."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated

import typer

from cli.common import Json, settings_from_process, tell
from cli.lines import STANDARD, opened_input, opened_output, read_lines
from cli.progress import Tally
from connectors.kafka import Publisher, content_key, ensure_topics, max_event_bytes
from connectors.kafka.admin import max_message_bytes
from deploy.flink.local_stack.paths import cache_dir
from pipelines.errors import BadInput, LikesError
from traffic import movielens as data
from traffic.model import TrafficModel, generate
from traffic.replay import paced

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cli.lines import Line
    from pipelines.settings import Settings

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")

# The first generation's counts topic is made along with the others; a job makes that of its own generation. So events
# can be sent while Cassandra, which knows the live generation, is away.
_GENERATION = 1
# The 64 characters of a valid id fit; a longer key could make a record too large that was not.
_MAX_KEY_BYTES = 256
_ENVELOPE_BYTES = 512  # key, headers of record and batch; compressing what cannot be compressed adds a thousandth
_HOUR_MS = 3_600_000
_USUAL = TrafficModel()

Rate = Annotated[float, typer.Option(min=0, help="Events per second; 0: as fast as possible.")]
Output = Annotated[str, typer.Option(help="Write JSON Lines to this file, - for stdout, instead of publishing.")]


@app.command(epilog="Examples:\n\n* `likes events send events.jsonl`\n* `tail -f events.jsonl | likes events send -`")
def send(
    file: Annotated[str, typer.Argument(help="JSON Lines; - for stdin.", metavar="FILE|-")],
    *,
    rate: Rate = 0,
    as_json: Json = False,
) -> None:
    r"""Publish the lines of a file, byte for byte, each as one record.

    A line ends with \n, which is left off; a \r before it stays, and so do an empty line and one that is no event: the
    job makes dead letters of what it cannot count. The key is the content id, where one can be read. A line that is
    too large for the topic is named and left out, the others are sent, and the exit code is 6.
    """
    settings = settings_from_process()
    topic = settings.kafka.events_topic
    ensure_topics(settings, _GENERATION)
    limit = _largest_line(settings)
    refused: list[int] = []
    with opened_input(file) as stream:
        timed = ((int(1000 * line.number / rate) if rate else 0, line) for line in read_lines(stream, limit))
        sent = _publish(settings, _fitting(paced(timed, float(rate > 0)), topic, limit, refused), None)
    _report_sent(sent, topic, as_json=as_json, too_large=len(refused))
    if refused:
        raise BadInput(
            f"too large for {topic} and not sent: {len(refused)} of the lines, the first is line {refused[0]}",
            "shorten them, or raise the topic's max.message.bytes",
        )


@app.command(
    epilog="Examples:\n\n* `likes events sample --events 500000 --seed 7`\n* `likes events sample --rate 2000`"
)
def sample(
    *,
    events: Annotated[int, typer.Option(min=1, help="How many, resends included.")] = 100_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes the same events.")] = 1,
    rate: Rate = 0,
    output: Output = "",
    contents: Annotated[int, typer.Option(min=1, help="How many; v1 is the most popular.")] = _USUAL.contents,
    users: Annotated[int, typer.Option(min=1, help="How many; all are equally active.")] = _USUAL.users,
    exponent: Annotated[
        float, typer.Option(min=0, help="Of the Zipf popularity; 0: all are equally popular.")
    ] = _USUAL.zipf_exponent,
    toggles: Annotated[
        float, typer.Option(min=0, max=1, help="Share of events that take a recent reaction back, or repeat it.")
    ] = _USUAL.toggles,
    duplicates: Annotated[
        float, typer.Option(min=0, max=1, help="Share of events that are exact resends of a recent one.")
    ] = _USUAL.duplicates,
    late: Annotated[float, typer.Option(min=0, max=1, help="Share of events that come minutes late.")] = _USUAL.late,
    spike: Annotated[
        float, typer.Option(min=0, max=1, help="What the viral content takes of the traffic during its spike.")
    ] = _USUAL.spike_share,
    end: Annotated[
        int, typer.Option(min=0, help="When the last event is sent, ms since the epoch; 0: now.", metavar="MS")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Publish events of a traffic model: Zipf popularity, toggles, a viral spike, resends, late events, regions.

    Without --rate they are spread over the last hour; with it they happen as they are sent. Give --seed and --end to
    get the same bytes again.
    """
    if rate and end:
        raise typer.BadParameter("--end makes no sense with --rate: those events happen as they are sent")
    settings = settings_from_process()
    try:
        model = TrafficModel(
            contents=contents,
            users=users,
            zipf_exponent=exponent,
            toggles=toggles,
            duplicates=duplicates,
            late=late,
            spike_share=spike,
            regions=settings.events.regions,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    now_ms = _now_ms()
    end_ms = now_ms + int(1000 * events / rate) if rate else end or now_ms
    start_ms = now_ms if rate else end_ms - _HOUR_MS
    lines = generate(model, events, seed, start_ms=start_ms, end_ms=end_ms)
    _deliver(settings, paced(lines, float(rate > 0)), events, output, as_json=as_json)


@app.command(epilog="Examples:\n\n* `likes events movielens`\n* `likes events movielens --speed 1000000 --limit 20000`")
def movielens(
    *,
    speed: Annotated[
        float, typer.Option(min=0, help="How many times faster than it happened; 0: as fast as possible.")
    ] = 0,
    limit: Annotated[int, typer.Option(min=1, help="Only the first so many events.")] = data.RATINGS,
    output: Output = "",
    as_json: Json = False,
) -> None:
    """Publish a real reaction log: the 100000 ratings of MovieLens 100K, in order of time, shifted to end now.

    A rating of 4 or 5 is LIKE, 1 or 2 is DISLIKE, 3 is UNLIKE. Ids are those of the data: content_id the film's,
    user_id the user's. The log is 215 days long: --speed 1000000 replays it in 19 seconds.

    MovieLens is by GroupLens, University of Minnesota. Its licence allows research, not passing the data on. So it is
    downloaded for you, inside the recbole wheel, and what --output writes is for you alone.
    """
    settings = settings_from_process()
    ratings = data.read_ratings(data.fetch_wheel(cache_dir(), tell))[:limit]
    lines = data.events(ratings, _now_ms())
    _deliver(settings, paced(lines, speed), len(ratings), output, as_json=as_json)


def _deliver(settings: Settings, lines: Iterator[bytes], total: int, output: str, *, as_json: bool) -> None:
    if not output:
        ensure_topics(settings, _GENERATION)
        sent = _publish(settings, lines, total)
        _report_sent(sent, settings.kafka.events_topic, as_json=as_json)
        return
    with opened_output(output) as stream, Tally("written events", total) as tally:
        for value in tally.over(lines):
            stream.write(value + b"\n")
        stream.flush()
    place = "stdout" if output == STANDARD else output
    report = json.dumps({"written": total, "output": output}) if as_json else f"wrote {total} events to {place}"
    typer.echo(report, err=output == STANDARD)


def _publish(settings: Settings, lines: Iterable[bytes], total: int | None) -> int:
    """Send all lines; returns how many the brokers have acknowledged: all."""
    topic = settings.kafka.events_topic
    with Publisher(settings, topic) as publisher, Tally("sent events", total) as tally:
        try:
            for value in tally.over(lines):
                publisher.send(value, _key(value))
            publisher.flush()
        except KeyboardInterrupt:
            publisher.flush()
            tell(f"interrupted: {publisher.acknowledged} events are in {topic}")
            raise
        except LikesError:
            tell(f"{publisher.acknowledged} events are in {topic} for certain; sending them again changes no count")
            raise
        return publisher.acknowledged


def _key(value: bytes) -> bytes | None:
    key = content_key(value)
    return None if key is None or len(key) > _MAX_KEY_BYTES else key


def _largest_line(settings: Settings) -> int:
    takes = min(max_event_bytes(settings), max_message_bytes(settings, settings.kafka.events_topic))
    return max(0, takes - takes // 1000 - _ENVELOPE_BYTES)


def _fitting(lines: Iterator[Line], topic: str, limit: int, refused: list[int]) -> Iterator[bytes]:
    """The values; lines without one are told and their numbers added to `refused`."""
    for line in lines:
        if line.value is None:
            tell(f"line {line.number} has {line.size} bytes, {topic} takes {limit}: not sent")
            refused.append(line.number)
        else:
            yield line.value


def _report_sent(sent: int, topic: str, *, as_json: bool, too_large: int = 0) -> None:
    fields = {"sent": sent, "topic": topic, "too_large": too_large}
    typer.echo(json.dumps(fields) if as_json else f"sent {sent} events to {topic}")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

"""Where a job starts and ends: the `--from` and `--to` of the command line, resolved to one offset per partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from connectors import kafka
from pipelines.errors import BadInput, Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pipelines.settings import Settings

Kind = Literal["earliest", "latest", "committed", "timestamp", "offsets"]
_BITS = 63
_FORMS = "earliest, latest, committed, timestamp:MS or offsets:P=O,P=O"


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the log as the user names it.

    Fields:
        kind: Which form.
        timestamp_ms: With `timestamp`: broker time, milliseconds since the epoch.
        offsets: With `offsets`: offset by partition.
    """

    kind: Kind
    timestamp_ms: int = 0
    offsets: Mapping[int, int] | None = None

    def __str__(self) -> str:
        match self.kind:
            case "timestamp":
                return f"timestamp:{self.timestamp_ms}"
            case "offsets":
                return "offsets:" + ",".join(f"{p}={o}" for p, o in sorted((self.offsets or {}).items()))
            case _:
                return self.kind


def parse_position(text: str) -> Position:
    """Read `earliest`, `latest`, `committed`, `timestamp:MS` or `offsets:P=O,…`.

    Raises:
        BadInput: Anything else.
    """
    kind, _, rest = text.partition(":")
    try:
        match kind:
            case "earliest" | "latest" | "committed" if not rest and ":" not in text:
                return Position(kind)
            case "timestamp":
                return Position("timestamp", timestamp_ms=_natural(rest))
            case "offsets":
                pairs = [pair.split("=") for pair in rest.split(",")]
                offsets = {_natural(partition): _natural(offset) for partition, offset in pairs}
                if len(offsets) == len(pairs):
                    return Position("offsets", offsets=offsets)
    except ValueError:
        pass
    raise BadInput(f"{text!r} is not a position in the log", f"use {_FORMS}")


def resolve(settings: Settings, position: Position, committed: Callable[[], Mapping[int, int]]) -> dict[int, int]:
    """The offset of every partition that a position means.

    Args:
        settings: Of the topic.
        position: What the user asked for.
        committed: Asks for the offsets that `committed` means.

    Raises:
        Refused: A partition is not listed, is unknown, was never committed, or its offset is not in the log.
        ServiceUnavailable: No broker answers.
        SettingError: The topic does not exist.
    """
    topic = settings.kafka.events_topic
    first, last = kafka.beginning_offsets(settings, topic), kafka.end_offsets(settings, topic)
    match position.kind:
        case "earliest":
            return first
        case "latest":
            return last
        case "timestamp":
            return kafka.offsets_for_times(settings, topic, position.timestamp_ms)
        case "committed":
            found = dict(committed())
            missing = sorted(p for p in last if p not in found and last[p] > first[p])
            if missing:
                raise Refused(f"no job has counted anything of partition {missing[0]} yet", "use another --from")
            return first | found
        case "offsets":
            return _listed(position.offsets or {}, first, last)


def _listed(offsets: Mapping[int, int], first: Mapping[int, int], last: Mapping[int, int]) -> dict[int, int]:
    # Flink would take partitions that are not listed from the group's committed offsets.
    if missing := sorted(last.keys() - offsets.keys()):
        raise Refused(f"offsets: partition {missing[0]} is not listed", f"list all of 0 to {max(last)}")
    if unknown := sorted(offsets.keys() - last.keys()):
        raise Refused(f"offsets: there is no partition {unknown[0]}", f"list 0 to {max(last)}")
    for partition, offset in sorted(offsets.items()):
        if not first[partition] <= offset <= last[partition]:
            raise Refused(
                f"offsets: {offset} is not in partition {partition}",
                f"it holds {first[partition]} to {last[partition]}",
            )
    return dict(offsets)


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) >> _BITS:
        raise ValueError(text)
    return int(text)

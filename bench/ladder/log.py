"""The taps of one trial: a log of `traffic.model`, cut into what is published one after the other, with its truth."""

from __future__ import annotations

import dataclasses
import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import orjson

from bench.difference import Counts
from bench.workloads import SEED, VIRAL, ZIPF
from connectors import kafka
from traffic.model import Block, TrafficModel, generate_blocks
from traffic.truth import truth

_HOUR_MS = 3_600_000

Key = Callable[[bytes], bytes | None]


def user_key(line: bytes) -> bytes | None:
    """The user of an event: a hot content's taps are spread over the partitions, and each user's stay in order."""
    user_id: str = orjson.loads(line)["user_id"]
    return user_id.encode()


@dataclass(frozen=True, slots=True)
class Load:
    """What is tapped.

    Fields:
        name: In the report.
        model: What makes the taps.
        key: Of a record; those of one user on one content are in one partition.
    """

    name: str
    model: TrafficModel
    key: Key


HOT = Load("hot key", VIRAL.model, user_key)
SPREAD = Load("spread keys", ZIPF.model, kafka.content_key)
LOADS = (HOT, SPREAD)


class Parts:
    """A log that ends now, in parts.

    Args:
        load: What is tapped.
        sizes: Events in each part.
        now_ms: Milliseconds since the epoch.
    """

    def __init__(self, load: Load, sizes: Sequence[int], now_ms: int) -> None:
        blocks = generate_blocks(load.model, sum(sizes), SEED, start_ms=now_ms - _HOUR_MS, end_ms=now_ms)
        self._model, self._whole = load.model, _joined(list(blocks))
        self._ends = [0, *itertools.accumulate(sizes)]

    def lines(self, part: int) -> Iterator[bytes]:
        """The events of one part."""
        return (line.value for line in _cut(self._whole, self._ends[part], self._ends[part + 1]).lines())

    def truth(self, parts: int) -> Counts:
        """(likes, dislikes) by content once the first so many parts are counted."""
        if not self._ends[parts]:
            return {}
        total = truth(self._model, [_cut(self._whole, 0, self._ends[parts])])
        return {content_id: (it.likes, it.dislikes) for content_id, it in total.by_content().items()}


def partition_of(key: bytes, partitions: int) -> int:
    """Where librdkafka puts a record with this key, by its default partitioner, `consistent_random`."""
    return zlib.crc32(key) % partitions


def _joined(blocks: list[Block]) -> Block:
    columns = {
        field.name: np.concatenate([getattr(block, field.name) for block in blocks])
        for field in fields(Block)
        if field.name != "regions"
    }
    return dataclasses.replace(blocks[0], **columns)


def _cut(whole: Block, first: int, end: int) -> Block:
    columns = {field.name: getattr(whole, field.name)[first:end] for field in fields(Block) if field.name != "regions"}
    return dataclasses.replace(whole, **columns)

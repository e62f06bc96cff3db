"""The logs that are counted in benchmarks, and their truth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from traffic.model import TrafficModel, generate, generate_blocks
from traffic.truth import truth

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.difference import Counts

SEED = 20_261_130


@dataclass(frozen=True, slots=True)
class Workload:
    """A log and its truth.

    Fields:
        name: For the report.
        model: What it was made by.
        spread: Whether producers spread contents over the partitions.
    """

    name: str
    model: TrafficModel
    spread: bool = False

    def lines(self, events: int, now_ms: int) -> Iterator[bytes]:
        """The log, ending now."""
        return (line.value for line in generate(self.model, events, SEED, start_ms=now_ms - 3_600_000, end_ms=now_ms))

    def truth(self, events: int, now_ms: int) -> Counts:
        """(likes, dislikes) by content."""
        blocks = generate_blocks(self.model, events, SEED, start_ms=now_ms - 3_600_000, end_ms=now_ms)
        return {
            content_id: (it.likes, it.dislikes) for content_id, it in truth(self.model, blocks).by_content().items()
        }


@dataclass(frozen=True)
class Log:
    """What is to be counted.

    Fields:
        workload: What it is made by.
        events: How many it has.
        now_ms: When it ends.
    """

    workload: Workload
    events: int
    now_ms: int

    def lines(self) -> Iterator[bytes]:
        """Its events, in order."""
        return self.workload.lines(self.events, self.now_ms)

    @cached_property
    def truth(self) -> Counts:
        """What it comes to."""
        return self.workload.truth(self.events, self.now_ms)


# All from one region, as the log of a region is; what visitors from other regions cost is a figure of its own.
_HOME = ("us",)
ZIPF = Workload("Zipf", TrafficModel(regions=_HOME, moves=0.0))
VIRAL = Workload("one video", TrafficModel(contents=1, spike_share=0.0, regions=_HOME, moves=0.0), spread=True)
MIXED = Workload("Zipf from three regions", TrafficModel())

_OTHERS = TrafficModel(spike_share=0.0, regions=_HOME, moves=0.0)
SKEWS = (
    Workload("uniform", replace(_OTHERS, zipf_exponent=0.0)),
    Workload("Zipf 1.0", replace(_OTHERS, zipf_exponent=1.0)),
    Workload("Zipf 1.2", replace(_OTHERS, zipf_exponent=1.2)),
    Workload("Zipf 1.5", replace(_OTHERS, zipf_exponent=1.5)),
    Workload("one video takes 50 %", replace(_OTHERS, viral_share=0.5), spread=True),
    Workload("one video takes 90 %", replace(_OTHERS, viral_share=0.9), spread=True),
    Workload("one video takes 100 %", replace(_OTHERS, viral_share=1.0), spread=True),
)
"""From even to viral, without spikes."""

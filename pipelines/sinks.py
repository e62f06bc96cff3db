"""Where a pipeline's tables come from and go to, as WITH options; Kafka in production, anything else in tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Sinks:
    """The connectors of a counting job's outputs.

    Fields:
        counts: Takes upserts of totals.
        dead_letters: Takes appended dead letters.
    """

    counts: Mapping[str, str]
    dead_letters: Mapping[str, str]

"""The executable specification of the counting job, and the oracle that counts a whole log.

`apply` is one flush of the Flink plan: it may have merged the events of one register that fell into the same bundle.
`count` never looks at bundles: it is what every way of cutting the log must come to.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pipelines.domain.counter import ZERO, Change, PnCount, RegionTotal, changes, touches
from pipelines.domain.dead_letters import DeadLetter
from pipelines.domain.events import LikeEvent, Rules, parse
from pipelines.domain.register import EMPTY, REACTION_SHIFT, REGION_BITS, TIME_SHIFT, Reaction
from pipelines.domain.version import Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LOW_BITS = (1 << TIME_SHIFT) - 1  # reaction and region

Registers = dict[str, dict[str, int]]
"""Packed register by content id, then user id."""


@dataclass(frozen=True, slots=True)
class RegionCount:
    """The running count of one content in one region, as the job's state holds it.

    Fields:
        pn: What was gained and lost.
        changes: Register changes and touches counted.
        as_of_ms: Newest event time among the changes, milliseconds since the epoch; 0 if there were only touches.
    """

    pn: PnCount = ZERO
    changes: int = 0
    as_of_ms: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """Everything that a checkpoint holds.

    Fields:
        registers: Packed register by (content_id, user_id).
        counts: Running count by (content_id, region name).
    """

    registers: Mapping[tuple[str, str], int] = field(default_factory=dict)
    counts: Mapping[tuple[str, str], RegionCount] = field(default_factory=dict)


def apply(state: State, events: Iterable[LikeEvent], rules: Rules) -> tuple[State, dict[tuple[str, str], RegionCount]]:
    """Count one bundle of events.

    Args:
        state: What has been counted; left as it is.
        events: In any order. Those of one register are merged to the winner before they count, touches of one region
            to one.
        rules: For the regions' names and the home region.

    Returns:
        The new state, and the new counts by (content_id, region name) that changed or were touched.
    """
    bundle: dict[tuple[str, str], int] = {}
    touched: dict[tuple[str, Change], None] = {}
    for event in events:
        key = (event.content_id, event.user_id)
        bundle[key] = max(bundle.get(key, EMPTY), event.register)
        touched.update(dict.fromkeys((event.content_id, touch) for touch in touches(event.register, rules.home)))
    pending: list[tuple[str, Change]] = list(touched)
    registers = dict(state.registers)
    for key, register in bundle.items():
        old = registers.get(key, EMPTY)
        pending.extend((key[0], change) for change in changes(old, register))
        registers[key] = max(old, register)
    changed: dict[tuple[str, str], RegionCount] = {}
    for content_id, change in pending:
        row = (content_id, rules.regions[change.region])
        before = changed.get(row) or state.counts.get(row) or RegionCount()
        changed[row] = RegionCount(
            before.pn.plus(change.delta), before.changes + 1, max(before.as_of_ms, change.event_time_ms)
        )
    return State(registers, {**state.counts, **changed}), changed


def stamp(row: tuple[str, str], region_count: RegionCount, *, generation: int, epoch: int, now_ms: int) -> RegionTotal:
    """Make a count the total that a writer stores.

    Args:
        row: Content id and region name.
        region_count: The running count.
        generation: Which counting this is.
        epoch: The writer's, as `pipelines.domain.fence.take` gave it.
        now_ms: The writer's clock; a client whose clock runs ahead does not make a total look fresher than now.

    Raises:
        PartOverflow: A part of the version is used up; the message names it.
    """
    version = Version(generation, epoch, region_count.changes).pack()
    return RegionTotal(*row, region_count.pn, version, min(region_count.as_of_ms, now_ms))


class Record(NamedTuple):
    """One record of the log. A plain tuple in this order does as well.

    Fields:
        topic: Where it was read.
        partition: Where it was read.
        offset: Where it was read.
        timestamp_ms: The broker's timestamp.
        value: Its bytes, None for a tombstone.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Reactions:
    """How many users like and dislike something."""

    likes: int = 0
    dislikes: int = 0


@dataclass(frozen=True, slots=True)
class Counted:
    """What a whole log comes to.

    Fields:
        registers: Packed register by content id, then user id.
        totals: Reactions by (content_id, region name), zeros included, for each region that holds a register. A stored
            row that is absent here is one that users have left: it must be zero.
        dead_letters: In the order of the log.
    """

    registers: Registers
    totals: dict[tuple[str, str], Reactions]
    dead_letters: list[DeadLetter]

    def by_content(self) -> dict[str, Reactions]:
        """Reactions by content id, over all regions."""
        sums: defaultdict[str, Reactions] = defaultdict(Reactions)
        for (content_id, _), total in self.totals.items():
            before = sums[content_id]
            sums[content_id] = Reactions(before.likes + total.likes, before.dislikes + total.dislikes)
        return dict(sums)


def count(records: Iterable[Record], rules: Rules) -> Counted:
    """Count a whole log exactly: about 4 million records in half a minute."""
    registers: defaultdict[str, dict[str, int]] = defaultdict(dict)
    dead_letters = []
    for topic, partition, offset, timestamp_ms, value in records:
        event = parse(value, timestamp_ms, rules)
        if isinstance(event, LikeEvent):
            users = registers[event.content_id]
            if event.register > users.get(event.user_id, EMPTY):
                users[event.user_id] = event.register
        else:
            dead_letters.append(DeadLetter(event.reason, event.message, topic, partition, offset, timestamp_ms, value))
    return Counted(dict(registers), recount_exact(registers, rules), dead_letters)


def recount_exact(registers: Mapping[str, Mapping[str, int]], rules: Rules) -> dict[tuple[str, str], Reactions]:
    """Likes are the registers in LIKE, dislikes those in DISLIKE: by (content_id, region name), zeros included.

    Args:
        registers: Packed register by content id, then user id.
        rules: For the regions' names.
    """
    totals = {}
    for content_id, users in registers.items():
        tally: defaultdict[int, int] = defaultdict(int)  # users by reaction and region
        for register in users.values():
            tally[register & _LOW_BITS] += 1
        for region in {low & ((1 << REGION_BITS) - 1) for low in tally}:
            totals[content_id, rules.regions[region]] = Reactions(
                tally.get(Reaction.LIKE << REACTION_SHIFT | region, 0),
                tally.get(Reaction.DISLIKE << REACTION_SHIFT | region, 0),
            )
    return totals

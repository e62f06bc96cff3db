"""The PN-counter of a content: one entry per region, each with a single writer, merged as newest version per region.

An entry counts up only: P what a reaction gained, N what it lost. Only P - N is a function of the log (several taps of
one user inside one bundle may be merged into one); it is never negative and nothing clamps it. After Shapiro et al.,
"A comprehensive study of Convergent and Commutative Replicated Data Types" (2011), specification 7, with the version
in place of the vector's component-wise maximum, because a replay may count less P and N for the same P - N.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.domain import register as registers
from pipelines.domain.bounds import SIGNED_64_MAX, PartOverflow
from pipelines.domain.register import EMPTY, Reaction
from pipelines.domain.version import Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


@dataclass(frozen=True, slots=True, order=True)
class PnCount:
    """What was gained and lost, each a signed 64-bit integer that is never negative."""

    likes_p: int = 0
    likes_n: int = 0
    dislikes_p: int = 0
    dislikes_n: int = 0

    @property
    def likes(self) -> int:
        """Users who like it now."""
        return self.likes_p - self.likes_n

    @property
    def dislikes(self) -> int:
        """Users who dislike it now."""
        return self.dislikes_p - self.dislikes_n

    def plus(self, other: PnCount) -> PnCount:
        """The sum, part by part.

        Raises:
            PartOverflow: A part passes 2^63 - 1; the message names it.
        """
        total = PnCount(
            self.likes_p + other.likes_p,
            self.likes_n + other.likes_n,
            self.dislikes_p + other.dislikes_p,
            self.dislikes_n + other.dislikes_n,
        )
        for name in ("likes_p", "likes_n", "dislikes_p", "dislikes_n"):
            if getattr(total, name) > SIGNED_64_MAX:
                raise PartOverflow(f"{name} {getattr(total, name)} is outside 0..{SIGNED_64_MAX}")
        return total


ZERO = PnCount()
_GAINED = {Reaction.LIKE: PnCount(likes_p=1), Reaction.DISLIKE: PnCount(dislikes_p=1), Reaction.NONE: ZERO}
_LOST = {Reaction.LIKE: PnCount(likes_n=1), Reaction.DISLIKE: PnCount(dislikes_n=1), Reaction.NONE: ZERO}


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one region's entry: what `TO_CHANGELOG` makes a row of.

    Fields:
        region: Code of the region.
        delta: What the change gains and loses; zero for a touch.
        event_time_ms: Time of the register that came or went, milliseconds since the epoch; 0 for a touch.
    """

    region: int
    delta: PnCount
    event_time_ms: int


def changes(old: int, new: int) -> Iterator[Change]:
    """What a register's change does: the old value leaves its region, the new one enters its own.

    Args:
        old: The packed register before, `EMPTY` if there was none.
        new: The packed register after. Not above `old`: nothing changes.
    """
    if new <= old:
        return
    if old != EMPTY:
        yield Change(registers.region_of(old), _LOST[registers.reaction_of(old)], registers.time_of(old))
    yield Change(registers.region_of(new), _GAINED[registers.reaction_of(new)], registers.time_of(new))


def touches(register: int, home: int) -> Iterator[Change]:
    """The zero changes that an event makes beside its register's: in its own region and at home, if those differ.

    A replay may merge a visit to a region away that an earlier run had already stored. The touch makes the replay store
    that region again, under its newer version, though nothing in it changes.

    Args:
        register: The event's packed register.
        home: Code of the home region.
    """
    region = registers.region_of(register)
    if region != home:
        yield Change(region, ZERO, 0)
        yield Change(home, ZERO, 0)


@dataclass(frozen=True, slots=True)
class RegionTotal:
    """An absolute total as it is stored: a row of content_stats, a field of a Redis hash, a content-counts message.

    Fields:
        content_id: Of which content.
        region: Name of the region.
        pn: What was gained and lost there.
        version: Packed as in `pipelines.domain.version`.
        as_of_ms: Newest event time among the counted changes, milliseconds since the epoch; in both stores at most the
            writer's now.
    """

    content_id: str
    region: str
    pn: PnCount
    version: int
    as_of_ms: int

    @property
    def generation(self) -> int:
        """The counting that the total belongs to."""
        return Version.unpack(self.version).generation

    def message(self) -> dict[str, str | int]:
        """The total as the JSON object that travels on content-counts (schemas/content_count.schema.json)."""
        return {
            "content_id": self.content_id,
            "region": self.region,
            "generation": self.generation,
            "likes_p": self.pn.likes_p,
            "likes_n": self.pn.likes_n,
            "dislikes_p": self.pn.dislikes_p,
            "dislikes_n": self.pn.dislikes_n,
            "version": self.version,
            "as_of_ms": self.as_of_ms,
        }

    @classmethod
    def from_message(cls, fields: Mapping[str, Any]) -> RegionTotal:
        """The total that such an object is of. Raises KeyError where a field is missing."""
        pn = PnCount(fields["likes_p"], fields["likes_n"], fields["dislikes_p"], fields["dislikes_n"])
        return cls(fields["content_id"], fields["region"], pn, fields["version"], fields["as_of_ms"])


def newer(left: RegionTotal, right: RegionTotal) -> RegionTotal:
    """The newer of two totals of one content and region.

    Equal versions carry equal totals, for one writer made both; the rest of the order only makes the choice total.
    """
    return max(left, right, key=lambda total: (total.version, total.pn, total.as_of_ms))


def merge(left: Mapping[str, RegionTotal], right: Mapping[str, RegionTotal]) -> dict[str, RegionTotal]:
    """Merge two replicas of one content, totals by region name: newest per region. A join, so a state-based CRDT."""
    merged = dict(left)
    for region, total in right.items():
        merged[region] = newer(merged[region], total) if region in merged else total
    return merged


@dataclass(frozen=True, slots=True)
class ContentTotal:
    """A content over all its regions.

    Fields:
        pn: Sum over the regions.
        version: Newest packed version among the regions, 0 if there is none.
        as_of_ms: Newest event time among the regions, 0 if there is none.
    """

    pn: PnCount
    version: int
    as_of_ms: int


def summed(totals: Iterable[RegionTotal]) -> ContentTotal:
    """Sum one content's regions, one total for each.

    Raises:
        PartOverflow: A sum passes 2^63 - 1; the message names it.
    """
    pn, version, as_of_ms = ZERO, 0, 0
    for total in totals:
        pn, version, as_of_ms = pn.plus(total.pn), max(version, total.version), max(as_of_ms, total.as_of_ms)
    return ContentTotal(pn, version, as_of_ms)

"""Fake stores for the fencing model, and the rules that the real ones are used by, one by one.

Everything that is atomic in a store is one method.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipelines.domain.counting import Reactions
from pipelines.domain.fence import NO_ATTEMPT, Fence, begin, claim, take

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipelines.domain.counter import RegionTotal

Key = tuple[int, str]
"""Generation and content id: one Cassandra partition, one Redis hash."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """The rules that keep totals right.

    version_holds_epoch: What a newer attempt stores outranks what an older one stored.
    epochs_are_fenced: A writer gets its epoch through the fence, not simply the next one.
    take_heeds_attempt: The fence lets no older attempt of a run in.
    take_heeds_owner: The fence lets no older run in.
    recovered_job_is_claimed_anew: A job whose JobManager starts over, with attempt 0, is a new run.
    claim_precedes_choice: A launcher claims the generation before it looks for the checkpoint to resume from.
    only_the_newest_run_is_resumed: Nobody resumes from what an older run saved after a newer one had begun.
    every_begin_is_on_record: A run that resumed nothing leaves nothing older to resume either.
    redis_compares_versions: An update of a hash carries its version.
    redis_load_needs_its_token: A load counts only if it read after the last one was announced.
    """

    version_holds_epoch: bool = True
    epochs_are_fenced: bool = True
    take_heeds_attempt: bool = True
    take_heeds_owner: bool = True
    recovered_job_is_claimed_anew: bool = True
    claim_precedes_choice: bool = True
    only_the_newest_run_is_resumed: bool = True
    every_begin_is_on_record: bool = True
    redis_compares_versions: bool = True
    redis_load_needs_its_token: bool = True


@dataclass(slots=True)
class Cassandra:
    """Rows that the largest timestamp wins, and the fences by generation."""

    protocol: Protocol
    rows: dict[tuple[Key, str], RegionTotal] = field(default_factory=dict)
    fences: dict[int, Fence] = field(default_factory=dict)
    ties: list[tuple[RegionTotal, RegionTotal]] = field(default_factory=list)

    def claim(self, generation: int, owner: str) -> None:
        self.fences[generation] = claim(self.fences.get(generation, Fence()), owner)

    def begin(self, generation: int, owner: str, base: str) -> None:
        self.fences[generation] = begin(self.fences[generation], owner, base)

    def take(self, generation: int, owner: str, attempt: int) -> int:
        held = known = self.fences[generation]
        if not self.protocol.take_heeds_owner or not self.protocol.epochs_are_fenced:
            known = known._replace(owner=owner)
        if not self.protocol.take_heeds_attempt or not self.protocol.epochs_are_fenced:
            known = known._replace(attempt=NO_ATTEMPT)
        taken = take(known, owner, attempt)
        self.fences[generation] = taken if self.protocol.epochs_are_fenced else held._replace(latest=taken.latest)
        return taken.latest

    def write(self, total: RegionTotal) -> None:
        row = ((total.generation, total.content_id), total.region)
        known = self.rows.get(row)
        if known is None or total.version > known.version:
            self.rows[row] = total
        elif total.version == known.version and total != known:
            self.ties.append((known, total))  # Cassandra would mix their cells

    def partition(self, key: Key) -> dict[str, RegionTotal]:
        return {region: total for (owner, region), total in self.rows.items() if owner == key}


@dataclass(slots=True)
class Hash:
    complete: bool = False
    fill: int = 0
    fields: dict[str, RegionTotal] = field(default_factory=dict)


@dataclass(slots=True)
class Redis:
    """Hashes that may vanish at any time; each method is one Lua call."""

    protocol: Protocol
    hashes: dict[Key, Hash] = field(default_factory=dict)
    tokens: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def store(self, totals: list[RegionTotal]) -> dict[Key, int]:
        """Update complete hashes in place; return the incomplete ones with the token to load them with."""
        incomplete: dict[Key, int] = {}
        for total in totals:
            key = (total.generation, total.content_id)
            token = self.miss(key)
            if token is None:
                self._set(self.hashes[key], total)
            else:
                incomplete[key] = token
        return incomplete

    def miss(self, key: Key) -> int | None:
        """Announce a load of what is not complete: the newest announcement is the only one that counts."""
        entry = self.hashes.setdefault(key, Hash())
        if entry.complete:
            return None
        entry.fill = next(self.tokens)
        return entry.fill

    def load(self, key: Key, token: int, rows: dict[str, RegionTotal]) -> None:
        entry = self.hashes.get(key, Hash())
        if entry.fill != token and self.protocol.redis_load_needs_its_token:
            return
        self.hashes[key] = entry
        for total in rows.values():
            self._set(entry, total)
        entry.complete, entry.fill = True, 0

    def lose(self, *, only_incomplete: bool = False, content_id: str = "") -> None:
        """Forget hashes: a restart without data, an eviction, or announcements that ran out."""
        for key, entry in list(self.hashes.items()):
            if not (only_incomplete and entry.complete) and content_id in {"", key[1]}:
                del self.hashes[key]

    def _set(self, entry: Hash, total: RegionTotal) -> None:
        known = entry.fields.get(total.region)
        if known is None or total.version > known.version or not self.protocol.redis_compares_versions:
            entry.fields[total.region] = total


def differences(
    truth: dict[tuple[str, str], Reactions], cassandra: Cassandra, redis: Redis, generation: int
) -> list[str]:
    """Where a store differs from the truth: Cassandra in any row, Redis in any complete hash."""
    rows = {(key[1], region): total for (key, region), total in cassandra.rows.items() if key[0] == generation}
    problems = _differences("Cassandra", truth, rows)
    for key, entry in redis.hashes.items():
        if entry.complete and key[0] == generation:
            expected = {row: total for row, total in truth.items() if row[0] == key[1]}
            problems += _differences("Redis", expected, {(key[1], r): total for r, total in entry.fields.items()})
    return problems


def _differences(
    store: str, truth: dict[tuple[str, str], Reactions], stored: dict[tuple[str, str], RegionTotal]
) -> list[str]:
    problems = []
    for row in sorted(truth.keys() | stored.keys()):
        expected = truth.get(row, Reactions())
        found = Reactions(stored[row].pn.likes, stored[row].pn.dislikes) if row in stored else Reactions()
        if found != expected:
            problems.append(f"{store} says {found} of {row}, truth is {expected}")
    return problems

"""Fake stores for the fencing model, and the rules that the real ones are used by, one by one.

Everything that is atomic in a store is one method.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipelines.domain.counter import RegionTotal

Key = tuple[int, str]
"""Generation and content id: one Cassandra partition, one Redis hash."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """The rules that keep totals right.

    `epochs_are_taken_at_the_start`: every writer has its epoch before a newer attempt takes one. It is what all else
    stands on. Where it does not hold, the three rules after it repair most of the damage, not all.
    """

    version_holds_epoch: bool = True
    epochs_are_taken_at_the_start: bool = True
    superseded_writer_stops: bool = True
    idle_writer_checks_too: bool = True
    superseded_job_replays_all: bool = True
    abandoned_checkpoints_are_forgotten: bool = True
    redis_compares_versions: bool = True
    redis_load_needs_its_token: bool = True


@dataclass(slots=True)
class Cassandra:
    """Rows that the largest timestamp wins, and the fencing numbers."""

    rows: dict[tuple[Key, str], RegionTotal] = field(default_factory=dict)
    latest: dict[int, int] = field(default_factory=dict)
    ties: list[tuple[RegionTotal, RegionTotal]] = field(default_factory=list)

    def take_epoch(self, generation: int) -> int:
        self.latest[generation] = self.latest.get(generation, 0) + 1
        return self.latest[generation]

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

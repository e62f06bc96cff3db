"""The control plane: which generation is live, which exist, and who may write them.

Every change is a lightweight transaction. One that times out may or may not have happened; a serial read settles it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipelines.domain import fence as fences
from pipelines.domain.bounds import check_part
from pipelines.domain.fence import Fence
from pipelines.domain.version import EPOCH_BITS, GENERATION_BITS
from pipelines.errors import Refused, Superseded

if TYPE_CHECKING:
    from collections.abc import Callable

    from connectors.cassandra.session import CassandraSession

_LIVE = "live"
_READ_POINTER = "SELECT generation FROM {keyspace}.pointer WHERE name = ?"
# Comparing with null is comparing with a row that is not there.
_SET_POINTER = "UPDATE {keyspace}.pointer SET generation = ? WHERE name = ? IF generation = ?"
_READ_FENCE = "SELECT latest, owner, attempt, saver, base FROM {keyspace}.epochs WHERE generation = ?"
_SET_FENCE = (
    "UPDATE {keyspace}.epochs SET latest = ?, owner = ?, attempt = ?, saver = ?, base = ? WHERE generation = ?"
    " IF latest = ? AND owner = ? AND attempt = ? AND saver = ? AND base = ?"
)
_LIST_GENERATIONS = "SELECT generation, toUnixTimestamp(created_at), rules FROM {keyspace}.generations"
_NEW_GENERATION = "INSERT INTO {keyspace}.generations (generation, created_at, rules) VALUES (?, ?, ?) IF NOT EXISTS"
_REPLACE_RULES = "UPDATE {keyspace}.generations SET rules = ? WHERE generation = ? IF rules = ?"
# A lost race means that someone else got on, so a handful is plenty for any number of writers.
_RACES = 200


class Pointer:
    """The generation that readers see.

    Guarantee: linearizable; readers that cache it for a second are at most that old.
    """

    def __init__(self, session: CassandraSession) -> None:
        self._session = session

    def read(self) -> int | None:
        """The live generation, None before the first.

        Raises:
            ServiceUnavailable: Cassandra does not answer, after retries.
        """
        row = self._session.serial_row(_READ_POINTER, (_LIVE,))
        return row[0] if row else None

    def compare_and_set(self, expected: int | None, generation: int) -> bool:
        """Make `generation` live if `expected` is.

        Returns:
            Whether it is live now; when the answer was lost, also if someone else made the same change.

        Raises:
            ServiceUnavailable: Cassandra does not answer, after retries.
        """
        for _ in range(_RACES):
            applied = self._session.compare_and_set(_SET_POINTER, (generation, _LIVE, expected))
            if applied is not None:
                return applied
            live = self.read()
            if live != expected:
                return live == generation
        raise _contended(self._session, "the live pointer")


@dataclass(frozen=True, slots=True)
class Generation:
    """One counting from offset 0.

    Fields:
        generation: Its number, 1 to 511.
        created_at_ms: When, milliseconds since the epoch.
        rules: What it counts by.
    """

    generation: int
    created_at_ms: int
    rules: str


class Generations:
    """The countings that exist.

    Guarantee: a number is given out once. A creation whose answer is lost may leave an unused number behind.
    """

    def __init__(self, session: CassandraSession) -> None:
        self._session = session

    def create_next(self, rules: str, now_ms: int) -> int:
        """Create the generation after the newest.

        Args:
            rules: What it counts by.
            now_ms: Milliseconds since the epoch.

        Raises:
            Refused: All 511 numbers are used.
            ServiceUnavailable: Cassandra does not answer, after retries.
        """
        for _ in range(_RACES):
            number = max((known.generation for known in self.all()), default=0) + 1
            if number >> GENERATION_BITS:
                raise Refused(f"all {number - 1} generations are used", "count into a new keyspace")
            if self._session.compare_and_set(_NEW_GENERATION, (number, now_ms, rules)):
                return number
        raise _contended(self._session, "generations")

    def replace_rules(self, generation: int, expected: str, rules: str) -> bool:
        """Change what a generation counts by, if nobody else has.

        Returns:
            Whether the new rules are on record.

        Raises:
            ServiceUnavailable: Cassandra does not answer, after retries.
        """
        if self._session.compare_and_set(_REPLACE_RULES, (rules, generation, expected)):
            return True
        return any(known.rules == rules for known in self.all() if known.generation == generation)

    def all(self) -> list[Generation]:
        """Every generation, oldest first.

        Raises:
            ServiceUnavailable: Cassandra does not answer, after retries.
        """
        return sorted((Generation(*row) for row in self._session.rows(_LIST_GENERATIONS)), key=lambda g: g.generation)


class Fences:
    """The fence of each generation: which run may write, and under which epoch (see `pipelines.domain.fence`).

    Guarantee: linearizable; an epoch belongs to one attempt of one run and is above all given out before.
    """

    def __init__(self, session: CassandraSession) -> None:
        self._session = session

    def read(self, generation: int) -> Fence:
        """The fence as it is.

        Raises:
            ServiceUnavailable: Cassandra does not answer, after retries.
        """
        row = self._session.serial_row(_READ_FENCE, (generation,))
        return Fence(*row) if row else Fence()

    def claim(self, generation: int, owner: str) -> Fence:
        """Make a run, which holds the lease, the only one whose attempts can take epochs; returns the fence.

        Raises:
            ServiceUnavailable: Cassandra does not answer, after retries.
        """
        return self._change(generation, lambda fence: fences.claim(fence, owner))

    def begin(self, generation: int, owner: str, base: str) -> None:
        """Make a run that has claimed the one whose states may be resumed, or until it has any, `base`.

        Raises:
            ServiceUnavailable: Cassandra does not answer, after retries.
            Superseded: Another run has claimed the generation since.
        """
        try:
            self._change(generation, lambda fence: fences.begin(fence, owner, base))
        except fences.Outranked as error:
            raise Superseded(str(error), "another run was started meanwhile; see `likes job list`") from None

    def take(self, generation: int, owner: str, attempt: int) -> int:
        """The epoch of an attempt; the first of its subtasks to ask makes it.

        Raises:
            PartOverflow: All 2^21 - 1 epochs are used.
            ServiceUnavailable: Cassandra does not answer, after retries.
            Superseded: Another run has claimed the generation, or a newer attempt has begun.
        """
        try:
            return self._change(generation, lambda fence: fences.take(fence, owner, attempt)).latest
        except fences.Outranked as error:
            raise Superseded(str(error), "nothing to do if the job was restarted; else stop one of the two") from None

    def _change(self, generation: int, step: Callable[[Fence], Fence]) -> Fence:
        for _ in range(_RACES):
            now = self.read(generation)
            wanted = step(now)
            if wanted == now:
                return now
            check_part("epoch", wanted.latest, EPOCH_BITS)
            then = (None,) * len(now) if now == Fence() else now
            if self._session.compare_and_set(_SET_FENCE, (*wanted, generation, *then)):
                return wanted
            # Lost a race, or lost the answer: both show when the fence is read again.
        raise _contended(self._session, f"the fence of generation {generation}")


def _contended(session: CassandraSession, what: str) -> Exception:
    return session.service.unavailable(TimeoutError(f"{_RACES} lightweight transactions on {what} were not decided"))

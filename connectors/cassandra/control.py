"""The control plane: which generation is live, which exist, and the fencing numbers of their writers.

Every change is a lightweight transaction. One that times out may or may not have happened; a serial read settles it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipelines.domain.bounds import check_part
from pipelines.domain.version import EPOCH_BITS, GENERATION_BITS
from pipelines.errors import Refused

if TYPE_CHECKING:
    from connectors.cassandra.session import CassandraSession

_LIVE = "live"
_READ_POINTER = "SELECT generation FROM {keyspace}.pointer WHERE name = ?"
# Comparing with null is comparing with a row that is not there.
_SET_POINTER = "UPDATE {keyspace}.pointer SET generation = ? WHERE name = ? IF generation = ?"
_READ_EPOCH = "SELECT latest FROM {keyspace}.epochs WHERE generation = ?"
_SET_EPOCH = "UPDATE {keyspace}.epochs SET latest = ? WHERE generation = ? IF latest = ?"
_LIST_GENERATIONS = "SELECT generation, toUnixTimestamp(created_at), rules FROM {keyspace}.generations"
_NEW_GENERATION = "INSERT INTO {keyspace}.generations (generation, created_at, rules) VALUES (?, ?, ?) IF NOT EXISTS"
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

    def all(self) -> list[Generation]:
        """Every generation, oldest first.

        Raises:
            ServiceUnavailable: Cassandra does not answer, after retries.
        """
        return sorted((Generation(*row) for row in self._session.rows(_LIST_GENERATIONS)), key=lambda g: g.generation)


class Epochs:
    """Fencing numbers: whoever starts to write takes the next.

    Guarantee: no number is given out twice and every number is above all given out before. A take whose answer is lost
    takes a further number; the lost one stays unused.
    """

    def __init__(self, session: CassandraSession) -> None:
        self._session = session

    def take(self, generation: int) -> int:
        """Take the next epoch of a generation; the first is 1.

        Raises:
            PartOverflow: All 2^21 - 1 epochs are used.
            ServiceUnavailable: Cassandra does not answer, after retries.
        """
        for _ in range(_RACES):
            row = self._session.serial_row(_READ_EPOCH, (generation,))
            latest: int | None = row[0] if row else None
            epoch = (latest or 0) + 1
            check_part("epoch", epoch, EPOCH_BITS)
            if self._session.compare_and_set(_SET_EPOCH, (epoch, generation, latest)):
                return epoch
        raise _contended(self._session, f"epochs of generation {generation}")

    def latest(self, generation: int) -> int:
        """The newest epoch that anyone has taken, 0 if nobody has.

        Raises:
            ServiceUnavailable: Cassandra does not answer, after retries.
        """
        row = self._session.serial_row(_READ_EPOCH, (generation,))
        return row[0] if row else 0


def _contended(session: CassandraSession, what: str) -> Exception:
    return session.service.unavailable(TimeoutError(f"{_RACES} lightweight transactions on {what} were not decided"))

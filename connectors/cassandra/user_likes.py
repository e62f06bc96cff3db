"""user_likes: what each user thinks of each content, one partition per user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from connectors.cassandra.pipelined import batched, run_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from connectors.cassandra.session import CassandraSession

_UPSERT = "INSERT INTO {keyspace}.user_likes (user_id, content_id, register) VALUES (?, ?, ?) USING TIMESTAMP ?"
_READ = "SELECT content_id, register FROM {keyspace}.user_likes WHERE user_id = ?"
_READ_SOME = _READ + " AND content_id IN ?"
_READ_SEVERAL = "SELECT user_id, content_id, register FROM {keyspace}.user_likes WHERE user_id IN ? AND content_id IN ?"


@dataclass(frozen=True, slots=True)
class UserLike:
    """One user's register on one content.

    Fields:
        user_id: Whose.
        content_id: On what.
        register: Packed as in `pipelines.domain.register`.
    """

    user_id: str
    content_id: str
    register: int


class UserLikes:
    """Users' reactions in Cassandra.

    Guarantee: a write that returns is at the configured consistency. The register is the cell's timestamp, so whatever
    is repeated, reordered or late, the largest register wins: the same winner as in the count, ties included.
    """

    def __init__(self, session: CassandraSession) -> None:
        self._session = session

    def upsert(self, likes: Sequence[UserLike]) -> None:
        """Write registers; the same user and content may come more than once.

        Raises:
            ServiceUnavailable: Some rows were not acknowledged after retries.
        """
        if likes:
            run_all(self._session, self.upserts(likes))

    def upserts(self, likes: Sequence[UserLike]) -> list[Any]:
        """The statements that `upsert` executes; each may be repeated.

        Raises:
            ServiceUnavailable: As `ContentStats.reads`.
        """
        rows = [(like.user_id, like.content_id, like.register, like.register) for like in likes]
        return batched(self._session, self._session.prepare(_UPSERT), rows)

    def some(self, user_id: str, content_ids: Sequence[str]) -> Any:  # noqa: ANN401  untyped driver
        """The statement that reads (content_id, register) of some contents, from the user's one partition.

        Raises:
            ServiceUnavailable: As `ContentStats.reads`.
        """
        return self._session.prepare(_READ_SOME).bind((user_id, list(content_ids)))

    def of_several(self, wanted: Sequence[tuple[str, str]]) -> Any:  # noqa: ANN401  untyped driver
        """The statement that reads (user_id, content_id, register) of some users on some contents.

        It also reads of each user what was wanted of the others; for a few that come at the same time.

        Raises:
            ServiceUnavailable: As `ContentStats.reads`.
        """
        users, contents = zip(*wanted, strict=True)
        return self._session.prepare(_READ_SEVERAL).bind((list(set(users)), list(set(contents))))

    def read(self, user_id: str) -> dict[str, int]:
        """All registers of a user, packed, by content id.

        Raises:
            ServiceUnavailable: Cassandra does not answer, after retries.
        """
        return {row[0]: row[1] for row in self._session.rows(_READ, (user_id,))}

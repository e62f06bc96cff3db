"""Where a design's counts are: read as its readers would, and asked what it has cost to write them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import redis

from bench import check
from bench.difference import Counts
from bench.ladder.programs.redis_sharded_incr import SHARDS
from connectors.cassandra import CassandraSession, ContentStats, connect, ensure_schema
from connectors.redis import RedisCounts
from pipelines.errors import LikesError
from pipelines.settings import Settings

_PAGE = 2_000
# A lightweight transaction writes its ballots and proposals here, before the row itself.
_PAXOS = ("system", "paxos")
_WRITTEN = "SELECT keyspace_name, table_name, count FROM system_views.local_write_latency"


class Store(ABC):
    """One kind of store, open until `close`."""

    @abstractmethod
    def counts(self) -> Counts:
        """(likes, dislikes) by content."""

    @abstractmethod
    def likes(self, content_ids: Sequence[str]) -> Mapping[str, int]:
        """Likes of contents, of those that have any."""

    @abstractmethod
    def writes(self) -> int:
        """Commands that may write, and mutations, since the store was started."""

    def changes(self) -> int:
        """A number that grows whenever counts are written."""
        return self.writes()

    def file_bytes(self) -> int | None:
        """Length of the file that makes Redis durable; None where Redis is not the record."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Disconnect."""


class RedisStore(Store):
    """Keys `likes:<content>` and `dislikes:<content>`, or with `:<shard>` after them.

    Args:
        url: Of the server.
        shards: How many keys a counter has.
    """

    def __init__(self, url: str, shards: int = 0) -> None:
        self._client = redis.Redis.from_url(url, decode_responses=True)
        self._writing = writing_commands(self._client)
        self._suffixes = [f":{shard}" for shard in range(shards)] or [""]

    def counts(self) -> Counts:
        """All the keys, summed."""
        sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
        for position, kind in enumerate(("likes", "dislikes")):
            keys = list(self._client.scan_iter(f"{kind}:*", count=_PAGE))
            for first in range(0, len(keys), _PAGE):
                page = keys[first : first + _PAGE]
                values: Any = self._client.mget(page)
                for key, value in zip(page, values, strict=True):
                    sums[key.split(":")[1]][position] += int(value or 0)
        return {content_id: (likes, dislikes) for content_id, (likes, dislikes) in sums.items()}

    def likes(self, content_ids: Sequence[str]) -> Mapping[str, int]:
        """By one MGET."""
        keys = [f"likes:{content_id}{suffix}" for content_id in content_ids for suffix in self._suffixes]
        values: Any = self._client.mget(keys) if keys else []
        found: defaultdict[str, int] = defaultdict(int)
        for key, value in zip(keys, values, strict=True):
            if value is not None:
                found[key.split(":")[1]] += int(value)
        return found

    def writes(self) -> int:
        """As the server counts them by command."""
        return written(self._client, self._writing)

    def file_bytes(self) -> int | None:
        """Of the append-only file."""
        information: Any = self._client.info("persistence")
        return int(information["aof_current_size"])

    def close(self) -> None:
        """Disconnect."""
        self._client.close()


class CassandraStore(Store):
    """One row for each content, in a keyspace of its own that is made here and removed by `close`.

    Args:
        settings: Of the cluster and the keyspace.
    """

    def __init__(self, settings: Settings) -> None:
        self._session = connect(settings)
        self._keyspace = settings.cassandra.keyspace
        self._session.driver.execute(
            f"CREATE KEYSPACE {self._keyspace}"
            " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        self._session.driver.execute(
            f"CREATE TABLE {self._keyspace}.counts (content_id text PRIMARY KEY, likes bigint, dislikes bigint)"
        )

    def counts(self) -> Counts:
        """All the rows."""
        rows = self._session.rows("SELECT content_id, likes, dislikes FROM {keyspace}.counts")
        return {content_id: (likes, dislikes) for content_id, likes, dislikes in rows}

    def likes(self, content_ids: Sequence[str]) -> Mapping[str, int]:
        """By one query."""
        query = "SELECT content_id, likes FROM {keyspace}.counts WHERE content_id IN ?"
        return dict(self._session.rows(query, (list(content_ids),))) if content_ids else {}

    def writes(self) -> int:
        """As the node counts them by table, the transactions' own included."""
        return mutations(self._session)

    def close(self) -> None:
        """Remove the keyspace and disconnect."""
        self._session.driver.execute(f"DROP KEYSPACE {self._keyspace}")
        self._session.cluster.shutdown()


class BothStores(Store):
    """This project's: totals in Cassandra and in Redis.

    Args:
        settings: Of both.
        url: Of Redis.
    """

    def __init__(self, settings: Settings, url: str) -> None:
        self._settings = settings
        self._session = connect(settings)
        ensure_schema(self._session, settings)  # it is read before the job has made it
        self._stats, self._cache = ContentStats(self._session), RedisCounts(settings)
        self._client = redis.Redis.from_url(url, decode_responses=True)
        self._writing = writing_commands(self._client)

    def counts(self) -> Counts:
        """As Cassandra has them; asserts that Redis has the same."""
        return check.stored(self._settings)

    def likes(self, content_ids: Sequence[str]) -> Mapping[str, int]:
        """Where both stores answer."""
        try:
            rows, hits = self._stats.read(1, content_ids), self._cache.read(1, content_ids)
        except LikesError:
            return {}  # the stores are busy; the next look will tell
        return {
            content_id: sum(total.pn.likes for total in rows[content_id])
            for content_id in content_ids
            if rows[content_id] and hits[content_id]
        }

    def writes(self) -> int:
        """Of both."""
        return mutations(self._session) + self.changes()

    def changes(self) -> int:
        """Of Redis: leases are renewed in Cassandra, whatever is counted."""
        return written(self._client, self._writing)

    def close(self) -> None:
        """Remove the keyspace and disconnect."""
        self._session.driver.execute(f"DROP KEYSPACE {self._settings.cassandra.keyspace}")
        self._session.cluster.shutdown()
        self._cache.close()
        self._client.close()

    @property
    def session(self) -> CassandraSession:
        """Of the keyspace."""
        return self._session


def store_of(kind: str, settings: Settings, url: str) -> Store:
    """The store of a design.

    Args:
        kind: "redis", "shards", "cassandra" or "both".
        settings: Of the keyspace.
        url: Of Redis.
    """
    if kind == "cassandra":
        return CassandraStore(settings)
    return BothStores(settings, url) if kind == "both" else RedisStore(url, SHARDS if kind == "shards" else 0)


def writing_commands(client: redis.Redis) -> frozenset[str]:
    """The commands that may write, as the server says."""
    names: Any = client.command_list(category="write")
    return frozenset(str(name).lower() for name in names)


def written(client: redis.Redis, names: frozenset[str]) -> int:
    """How often commands of these names have run, inside of scripts too."""
    statistics: Any = client.info("commandstats")
    return sum(
        int(values["calls"])
        for name, values in statistics.items()
        if name.removeprefix("cmdstat_").partition("|")[0] in names
    )


def mutations(session: CassandraSession) -> int:
    """How many the node has applied to the tables of the keyspace, and for lightweight transactions."""
    rows = session.rows(_WRITTEN)
    return sum(count for keyspace, table, count in rows if keyspace == session.keyspace or (keyspace, table) == _PAXOS)

"""The system of record: totals, users' reactions, and the lightweight transactions that fence and lease."""

from connectors.cassandra.asynchronous import rows_of
from connectors.cassandra.control import Fences, Generation, Generations, Pointer
from connectors.cassandra.leases import Lease, Leases
from connectors.cassandra.schema import ensure_schema, has_schema
from connectors.cassandra.session import CassandraSession, connect, open_session
from connectors.cassandra.stats import ContentStats, total_of
from connectors.cassandra.user_likes import UserLike, UserLikes

__all__ = [
    "CassandraSession",
    "ContentStats",
    "Fences",
    "Generation",
    "Generations",
    "Lease",
    "Leases",
    "Pointer",
    "UserLike",
    "UserLikes",
    "connect",
    "ensure_schema",
    "has_schema",
    "open_session",
    "rows_of",
    "total_of",
]

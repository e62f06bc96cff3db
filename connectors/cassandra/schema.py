"""The keyspace and its tables, created where they are missing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cassandra import AlreadyExists, ConfigurationException

from connectors.cassandra.session import TRANSIENT
from connectors.retry import insist
from schemas import cassandra_statements

if TYPE_CHECKING:
    from connectors.cassandra.session import CassandraSession
    from pipelines.settings import Settings

# Two processes that create the same thing at once may both be told that it was missing.
_RACES: tuple[type[BaseException], ...] = (AlreadyExists, ConfigurationException)


def ensure_schema(session: CassandraSession, settings: Settings) -> None:
    """Create what schemas/cassandra.cql declares and what is missing; existing tables are left alone.

    Several processes may run it at once: every statement is IF NOT EXISTS, a lost race is tried again, and where
    everything exists nothing is sent.

    Raises:
        ServiceUnavailable: Cassandra does not answer, or its nodes do not agree on the schema in time.
    """
    if not has_schema(session, settings):
        statements = _statements(settings)
        insist(settings.retry, session.service, (*TRANSIENT, *_RACES), lambda: _create(session, statements))


def has_schema(session: CassandraSession, settings: Settings) -> bool:
    """Whether every table is there. Creates nothing. Raises ServiceUnavailable."""
    return _declared(_statements(settings)) <= _tables(session)


def _create(session: CassandraSession, statements: tuple[str, ...]) -> None:
    for statement in statements:
        # Execute waits until the nodes agree on the schema (max_schema_agreement_wait, 10 s).
        session.driver.execute(statement)


def _tables(session: CassandraSession) -> set[str]:
    query = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?"
    return {name for (name,) in session.rows(query, (session.keyspace,))}


def _declared(statements: tuple[str, ...]) -> set[str]:
    named = (re.match(r"CREATE TABLE IF NOT EXISTS \w+\.(\w+)", statement) for statement in statements)
    return {match[1] for match in named if match}


def _statements(settings: Settings) -> tuple[str, ...]:
    return cassandra_statements(settings.cassandra.keyspace, _replication(settings))


def _replication(settings: Settings) -> str:
    """The replication map as CQL. Data centre names come from settings, so they are quoted."""
    replicas = settings.cassandra.replication
    if not replicas:
        return "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    centres = ", ".join(f"'{_quoted(name)}': {count}" for name, count in replicas.items())
    return f"{{'class': 'NetworkTopologyStrategy', {centres}}}"


def _quoted(text: str) -> str:
    return text.replace("'", "''")

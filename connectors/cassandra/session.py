"""One connection to Cassandra, with every choice that matters for the counts made explicitly.

The driver ships without types: its objects are `Any` here, and nothing outside connectors.cassandra sees them.
"""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from cassandra import AuthenticationFailed, ConsistencyLevel, DriverException, OperationTimedOut, ProtocolVersion
from cassandra import RequestExecutionException as CoordinatorFailure
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
from cassandra.connection import ConnectionBusy, ConnectionException, ProtocolVersionUnsupported
from cassandra.policies import (
    DCAwareRoundRobinPolicy,
    ExponentialReconnectionPolicy,
    FallthroughRetryPolicy,
    TokenAwarePolicy,
)
from cassandra.protocol import ErrorMessage
from cassandra.query import tuple_factory

from connectors.retry import Service, insist
from pipelines.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pipelines.settings import Settings

_T = TypeVar("_T")

# ErrorMessage is what the driver makes of codes that it has no class for, among them CAS_WRITE_UNKNOWN (0x1700).
TRANSIENT: tuple[type[BaseException], ...] = (
    NoHostAvailable,
    OperationTimedOut,
    CoordinatorFailure,
    ConnectionException,
    ConnectionBusy,
    ErrorMessage,
)
_RECONNECT_FIRST_S, _RECONNECT_LAST_S = 0.2, 2.0
# Without it every request of more than one packet waits 40 ms for a delayed ACK: batches of 80 rows, one at a time,
# went from 1.6 K to 19 K rows/s (2 cores, node on the same machine).
_SOCKET_OPTIONS = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]


class CassandraSession:
    """A driver session with retrying calls. Safe to share between threads; made by `open_session`.

    Guarantee: a call that returns was answered at the configured consistency (LOCAL_QUORUM by default); a call that
    raises `ServiceUnavailable` may or may not have happened, so callers only send what is idempotent.
    """

    def __init__(self, settings: Settings, cluster: Any, driver: Any) -> None:  # noqa: ANN401  untyped driver
        self.settings = settings
        self.keyspace = settings.cassandra.keyspace
        self.cluster = cluster
        self.driver = driver
        self.service = service_of(settings)
        self._prepared: dict[str, Any] = {}
        self._lock = threading.Lock()

    def prepare(self, query: str) -> Any:  # noqa: ANN401  untyped driver
        """Prepare a statement once. `{keyspace}` in the query stands for the configured keyspace.

        Raises:
            ServiceUnavailable: Cassandra does not answer.
        """
        with self._lock:
            if query not in self._prepared:
                statement = self.insist(lambda: self.driver.prepare(query.replace("{keyspace}", self.keyspace)))
                statement.is_idempotent = True
                self._prepared[query] = statement
            return self._prepared[query]

    def insist(self, call: Callable[[], _T]) -> _T:
        """Call with retries; `call` must be idempotent.

        Raises:
            ServiceUnavailable: The last attempt failed too.
        """
        return insist(self.settings.retry, self.service, TRANSIENT, call)

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run a read or an idempotent write to its end and return all rows.

        Raises:
            ServiceUnavailable: The last attempt failed too.
        """
        statement = self.prepare(query)
        return self.insist(lambda: list(self.driver.execute(statement, parameters)))

    def serial_row(self, query: str, parameters: Sequence[object]) -> tuple[Any, ...] | None:
        """Read one row after finishing any lightweight transaction on it that is still undecided.

        Raises:
            ServiceUnavailable: The last attempt failed too.
        """
        bound = self.prepare(query).bind(parameters)
        bound.consistency_level = ConsistencyLevel.LOCAL_SERIAL
        found = self.insist(lambda: list(self.driver.execute(bound)))
        return found[0] if found else None

    def compare_and_set(self, query: str, parameters: Sequence[object]) -> bool | None:
        """Try one lightweight transaction, once.

        Returns:
            Whether it was applied; None when that is unknown (a timeout, a lost connection): the caller re-reads with
            `serial_row`, which settles it, and decides.
        """
        bound = self.prepare(query).bind(parameters)
        bound.is_idempotent = False
        bound.retry_policy = FallthroughRetryPolicy()
        try:
            return bool(self.driver.execute(bound).was_applied)
        except TRANSIENT:
            return None


def service_of(settings: Settings) -> Service:
    """How errors name this Cassandra."""
    return Service("Cassandra", f"{settings.cassandra.hosts}:{settings.cassandra.port}", "cassandra.hosts")


@contextmanager
def open_session(settings: Settings) -> Iterator[CassandraSession]:
    """Connect, and close at the end of the block.

    Raises:
        ServiceUnavailable: No node answers, after retries.
        SettingError: User, password or CA file are wrong.
    """
    session = connect(settings)
    try:
        yield session
    finally:
        session.cluster.shutdown()


def connect(settings: Settings) -> CassandraSession:
    """Connect; the caller must call `session.cluster.shutdown()`. Errors as `open_session`."""
    cluster, driver = insist(settings.retry, service_of(settings), TRANSIENT, lambda: _connect_once(settings))
    return CassandraSession(settings, cluster, driver)


def _connect_once(settings: Settings) -> tuple[Any, Any]:
    try:
        return _connect_speaking(settings, ProtocolVersion.V5)
    except NoHostAvailable as error:
        causes = list(error.errors.values())
        if any(isinstance(cause, AuthenticationFailed) for cause in causes):
            raise SettingError(
                f"Cassandra refuses the user {settings.cassandra.username!r}",
                "correct the settings cassandra.username and cassandra.password",
            ) from error
        if not any(isinstance(cause, ProtocolVersionUnsupported | DriverException) for cause in causes):
            raise
    return _connect_speaking(settings, ProtocolVersion.V4)  # before Cassandra 4.0


def _connect_speaking(settings: Settings, protocol_version: int) -> tuple[Any, Any]:
    options = settings.cassandra
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy(options.local_dc)),
        consistency_level=ConsistencyLevel.name_to_value[options.consistency],
        serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL,
        request_timeout=options.request_timeout_ms / 1000,
        row_factory=tuple_factory,
    )
    cluster = Cluster(
        [host.strip() for host in options.hosts.split(",")],
        port=options.port,
        protocol_version=protocol_version,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        reconnection_policy=ExponentialReconnectionPolicy(_RECONNECT_FIRST_S, _RECONNECT_LAST_S),
        auth_provider=_auth(settings),
        ssl_context=_tls(settings),
        sockopts=_SOCKET_OPTIONS,
    )
    try:
        return cluster, cluster.connect()
    except BaseException:
        cluster.shutdown()
        raise


def _auth(settings: Settings) -> Any:  # noqa: ANN401  untyped driver
    options = settings.cassandra
    return PlainTextAuthProvider(options.username, options.password.get_secret_value()) if options.username else None


def _tls(settings: Settings) -> ssl.SSLContext | None:
    path = settings.cassandra.tls_ca_file
    if not path:
        return None
    try:
        return ssl.create_default_context(cafile=path)
    except OSError as error:
        raise SettingError(f"setting cassandra.tls_ca_file: {path} cannot be read: {error}") from None

"""Many idempotent statements at once, a few in flight, and rows packed into batches that one replica set can take."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from cassandra.query import BatchStatement, BatchType

from connectors.cassandra.session import TRANSIENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from connectors.cassandra.session import CassandraSession

# One node on 2 cores is busy with one batch at a time; more only helps where there are more nodes.
_IN_FLIGHT = 4


def run_all(session: CassandraSession, statements: Sequence[Any]) -> list[list[tuple[Any, ...]]]:
    """Execute every statement, a few at a time, sending those that failed again.

    Args:
        session: Where.
        statements: Idempotent bound or batch statements.

    Returns:
        The rows of each statement, in the order of `statements`.

    Raises:
        ServiceUnavailable: Some statement failed at the last attempt too.
    """
    answers: list[list[tuple[Any, ...]]] = [[] for _ in statements]
    pending = deque(range(len(statements)))

    def attempt() -> None:
        flying: deque[tuple[int, Any]] = deque()
        failure: BaseException | None = None
        failed: list[int] = []
        while flying or (pending and failure is None):
            if pending and failure is None and len(flying) < _IN_FLIGHT:
                index = pending[0]
                try:
                    flying.append((index, session.driver.execute_async(statements[index])))
                except TRANSIENT as error:
                    failure = error
                else:
                    pending.popleft()
                continue
            index, future = flying.popleft()
            try:
                answers[index] = list(future.result())
            except TRANSIENT as error:
                failure = error
                failed.append(index)
        pending.extendleft(reversed(failed))
        if failure is not None:
            raise failure

    session.insist(attempt)
    return answers


def batched(session: CassandraSession, statement: Any, rows: Sequence[Sequence[object]]) -> list[Any]:  # noqa: ANN401
    """Pack rows into unlogged batches, each for one set of replicas, so that its coordinator holds all of it.

    Args:
        session: Where; its settings give the size of a batch.
        statement: A prepared INSERT.
        rows: Parameters of the statement.
    """
    size = session.settings.cassandra.batch_rows
    groups: defaultdict[object, list[Any]] = defaultdict(list)
    metadata = session.cluster.metadata
    several_nodes = len(metadata.all_hosts()) > 1
    for row in rows:
        bound = statement.bind(row)
        owners = frozenset(metadata.get_replicas(session.keyspace, bound.routing_key)) if several_nodes else None
        groups[owners].append(bound)
    batches = []
    for group in groups.values():
        for start in range(0, len(group), size):
            batch = BatchStatement(BatchType.UNLOGGED)
            batch.is_idempotent = True
            for bound in group[start : start + size]:
                batch.add(bound)
            batches.append(batch)
    return batches

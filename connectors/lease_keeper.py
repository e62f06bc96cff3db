"""Keeping a job's lease while its writers live."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from connectors.cassandra.leases import Lease, Leases
from pipelines.errors import LikesError, Refused, Superseded

if TYPE_CHECKING:
    from connectors.cassandra.session import CassandraSession

_log = logging.getLogger(__name__)


class LeaseKeeper:
    """Renews a job's lease from a thread, and knows when it is lost.

    Guarantee: none about writes. The lease keeps people from starting two jobs; epochs keep the counts right.

    Args:
        session: Stays the caller's.
        lease: As the job's starter acquired it; the process that it names stays the starter's, so that a worker which
            outlives its job cannot keep the lease alive.
    """

    def __init__(self, session: CassandraSession, lease: Lease) -> None:
        self._leases = Leases(session)
        self._ttl_s = session.settings.job.lease_ttl_s
        self._lease = lease
        self._stop = threading.Event()
        self._lost_to: str | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Renew now, then three times in the lease's life.

        Raises:
            ServiceUnavailable: Cassandra does not answer, after retries.
            Superseded: The lease has another owner.
        """
        self._keep()
        self.check()
        self._thread = threading.Thread(target=self._keep_until_closed, name="lease", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop renewing. The lease stays: it belongs to the job, not to one writer."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def check(self) -> None:
        """Raises Superseded once the lease was seen to have another owner."""
        if self._lost_to is not None:
            raise Superseded(f"the job's lease was lost: {self._lost_to}", "stop one of the two jobs")

    def _keep_until_closed(self) -> None:
        while not self._stop.wait(self._ttl_s / 3) and self._lost_to is None:
            try:
                self._keep()
            except LikesError as error:
                # Cassandra is away: the next write will find out, and the fence does not depend on the lease.
                _log.warning("lease not renewed: %s", error)

    def _keep(self) -> None:
        """Renew the lease, or take it again if it ran out while nobody renewed it."""
        try:
            self._leases.acquire(self._lease, self._ttl_s)
        except Refused as error:
            self._lost_to = error.message

"""A service that the HTTP service needs: whether it answers, and not waiting for it while it does not."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from serving.metrics import DEPENDENCY_UP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Away(Exception):
    """The service does not answer, or has not answered a moment ago."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a dependency was when it was last used.

    Fields:
        up: Whether it answered.
        detail: What it failed with, empty while it is up.
        since_s: For how long it has been so.
    """

    up: bool
    detail: str
    since_s: float


class Dependency:
    """A circuit breaker: after a failure, calls fail at once until a pause is over; then one tries, and so on.

    Args:
        name: kafka, cassandra or redis.
        pause_s: Between attempts while it is away.
        now: Seconds of a monotonic clock.
    """

    def __init__(self, name: str, pause_s: float = 0.5, now: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self._pause_s = pause_s
        self._now = now
        self._detail = "not reached yet"
        self._changed_at = now()
        self._closed_until = 0.0
        DEPENDENCY_UP.labels(name).set(0)

    @property
    def standing(self) -> Standing:
        """How it is."""
        return Standing(not self._detail, self._detail, self._now() - self._changed_at)

    @contextmanager
    def used(
        self,
        failures: tuple[type[BaseException], ...],
        refusals: tuple[type[BaseException], ...] = (),
        *,
        probe: bool = False,
    ) -> Iterator[None]:
        """Around a call.

        Args:
            failures: What says that the service is away.
            refusals: What says that it is there and will not do this; the next call may be another matter.
            probe: Whether to try although it is away: nobody waits for this call.

        Raises:
            Away: It is, or it refuses.
        """
        now = self._now()
        if now < self._closed_until and not probe:
            raise Away(self._detail)
        if self._closed_until:
            self._closed_until = now + self._pause_s  # this call tries, those behind it do not wait for it
        try:
            yield
        except failures as error:
            self.failed(str(error) or type(error).__name__)
            raise Away(self._detail) from error
        except refusals as error:
            raise Away(str(error)) from error
        self.answered()

    def failed(self, detail: str) -> None:
        """Note that a call has failed."""
        if not self._detail:
            self._changed_at = self._now()
        self._detail = " ".join(detail.split())[:200] or "failed"
        self._closed_until = self._now() + self._pause_s
        DEPENDENCY_UP.labels(self.name).set(0)

    def answered(self) -> None:
        """Note that a call has been answered."""
        if self._detail:
            self._detail, self._changed_at, self._closed_until = "", self._now(), 0.0
            DEPENDENCY_UP.labels(self.name).set(1)

"""Insisting on a service that may be away for a moment: backoff, jitter and a limit, then an error with its remedy."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from pipelines.errors import ServiceUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipelines.settings import RetrySettings

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Service:
    """A service as an operator knows it.

    Fields:
        name: What it is called, such as Cassandra.
        address: Where it was looked for; never holds a password.
        setting: The setting that says so.
    """

    name: str
    address: str
    setting: str

    def unavailable(self, cause: BaseException) -> ServiceUnavailable:
        """The error to raise once retrying is over."""
        return ServiceUnavailable(
            f"{self.name} at {self.address} does not answer: {_reason(cause)}",
            f"start it with `likes stack up` or correct the setting {self.setting}",
        )


def insist(
    policy: RetrySettings, service: Service, transient: tuple[type[BaseException], ...], call: Callable[[], _T]
) -> _T:
    """Call until it succeeds or the policy's attempts are used up. The call must be idempotent.

    Args:
        policy: How often and how long; waits double from initial_ms to max_ms, plus up to initial_ms of jitter.
        service: Whom the final error names.
        transient: What is worth another attempt. Anything else passes through at once.
        call: What to do.

    Raises:
        ServiceUnavailable: The last attempt failed too.
    """

    def tell(state: RetryCallState) -> None:
        cause = state.outcome.exception() if state.outcome else None
        _log.warning(
            "%s at %s, attempt %d of %d: %s",
            service.name,
            service.address,
            state.attempt_number,
            policy.attempts,
            _reason(cause) if cause else "",
        )

    initial_s = policy.initial_ms / 1000
    attempts = Retrying(
        stop=stop_after_attempt(policy.attempts),
        wait=wait_exponential_jitter(initial=initial_s, max=policy.max_ms / 1000, jitter=initial_s),
        retry=retry_if_exception_type(transient),
        before_sleep=tell,
        reraise=True,
    )
    try:
        return attempts(call)
    except transient as error:
        raise service.unavailable(error) from error


def _reason(cause: BaseException) -> str:
    """One line; the first argument where there are more, for the driver's others are dumps of its state."""
    first = cause.args[0] if cause.args else ""
    text = " ".join((first if isinstance(first, str) else str(cause)).split())
    return text[:200] or type(cause).__name__

"""Consumer groups under which jobs publish how far they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka import errors

from connectors.kafka.client import administer

if TYPE_CHECKING:
    from pipelines.settings import Settings

_GONE = {"OK", errors.GroupIdNotFoundError.__name__}  # kafka-python answers with names


def forget_group(settings: Settings, group: str) -> None:
    """Remove what a group without members has committed, so that what it commits next is surely its own.

    Raises:
        ServiceUnavailable: No broker answers.
    """

    def forget(admin: Any) -> None:  # noqa: ANN401  untyped client
        for outcome in admin.delete_groups([group]).values():
            if outcome not in _GONE:
                # A broker that has just started still loads its groups: that one is worth another attempt.
                raise getattr(errors, outcome, RuntimeError)(f"group {group} cannot be removed: {outcome}")

    administer(settings, forget)

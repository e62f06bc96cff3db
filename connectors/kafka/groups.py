"""Consumer groups under which jobs publish how far they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka import errors

from connectors.kafka.client import administer

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipelines.settings import Settings

# kafka-python answers with names.
_SETTLED = {"OK", errors.GroupIdNotFoundError.__name__, errors.NonEmptyGroupError.__name__}


def forget_groups(settings: Settings, unwanted: Callable[[str], bool]) -> None:
    """Remove groups with what they have committed. One that has members stays.

    Raises:
        ServiceUnavailable: No broker answers.
    """

    def forget(admin: Any) -> None:  # noqa: ANN401  untyped client
        groups = [listed["group_id"] for listed in admin.list_groups() if unwanted(listed["group_id"])]
        for group, outcome in admin.delete_groups(groups).items() if groups else ():
            if outcome not in _SETTLED:
                # A broker that has just started still loads its groups: that one is worth another attempt.
                raise getattr(errors, outcome, RuntimeError)(f"group {group} cannot be removed: {outcome}")

    administer(settings, forget)

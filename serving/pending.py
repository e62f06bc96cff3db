"""Reading one's own write: what a user has changed and the totals may not have counted yet. Pure.

Until the job has committed past the user's events a total may contain them or not, and nothing in it says which. So
until then the user sees the total from before the first of them, with the change added; and afterwards the totals, all
of which contain it. A like therefore never undoes itself and is never counted twice, and what others do is seen a
little later: from a tap until the job's next checkpoint is known, some seconds.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import orjson

from pipelines.domain.counter import PnCount
from pipelines.domain.register import Reaction

if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST_TOKEN = 2_048
_MAX = (1 << 63) - 1
_MOST = 1 << 53  # likes of one content
UNSURE = _MAX


class BadToken(Exception):
    """A token that we cannot have made."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A user's change of one content.

    Fields:
        content_id: Which.
        likes: Of the content, before the first event that is pending.
        dislikes: The same.
        before: What the user thought then; None if that could not be read, so that totals are shown as they are.
        now: What the user thinks after the last event.
        offsets: The last event by partition of the log; UNSURE for one that may be there or not.
    """

    content_id: str
    likes: int
    dislikes: int
    before: Reaction | None
    now: Reaction
    offsets: Mapping[int, int] = field(default_factory=dict)

    def followed_by(self, later: Pending) -> Pending:
        """This and another change by the same user, as one."""
        sure = {partition: offset for partition, offset in self.offsets.items() if offset != UNSURE}
        return replace(self, now=later.now, offsets={**sure, **later.offsets})

    def is_counted(self, committed: Mapping[int, int]) -> bool:
        """Whether every total contains the change.

        Args:
            committed: First offset by partition that the job has not counted.
        """
        return all(committed.get(partition, 0) > offset for partition, offset in self.offsets.items())

    def token(self) -> str:
        """For the client to hand back."""
        parts = [
            self.content_id,
            self.likes,
            self.dislikes,
            -1 if self.before is None else int(self.before),
            int(self.now),
            [list(pair) for pair in sorted(self.offsets.items())],
        ]
        return base64.urlsafe_b64encode(orjson.dumps(parts)).decode().rstrip("=")


def parse(token: str) -> Pending:
    """What a token holds.

    Raises:
        BadToken: It is not one of ours.
    """
    if len(token) > _LONGEST_TOKEN:
        raise BadToken("the token is too long")
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        content_id, likes, dislikes, before, now, offsets = orjson.loads(raw)
        found = Pending(
            content_id,
            _number(likes, _MOST),
            _number(dislikes, _MOST),
            None if before == -1 else Reaction(before),
            Reaction(now),
            {_number(partition): _number(offset) for partition, offset in offsets},
        )
    except (binascii.Error, ValueError, TypeError) as error:
        raise BadToken("the token is not one of ours") from error
    if not isinstance(content_id, str):
        raise BadToken("the token is not one of ours")
    return found


def shown(total: PnCount, pending: Pending | None, committed: Mapping[int, int]) -> tuple[int, int]:
    """Likes and dislikes as the user is to see them.

    Args:
        total: As stored.
        pending: The user's change, None if there is none.
        committed: First offset by partition that the job had not counted when the total was asked for, or earlier.
    """
    if pending is None or pending.before is None or pending.is_counted(committed):
        return total.likes, total.dislikes
    gained, lost = _parts(pending.now), _parts(pending.before)
    return max(0, pending.likes + gained[0] - lost[0]), max(0, pending.dislikes + gained[1] - lost[1])


def _parts(reaction: Reaction) -> tuple[int, int]:
    return int(reaction is Reaction.LIKE), int(reaction is Reaction.DISLIKE)


def _number(value: Any, most: int = _MAX) -> int:  # noqa: ANN401  from JSON
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError("not a number of ours")
    return value

"""The exact counts of a generated log, by sorting instead of by streaming: what a benchmark asserts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipelines.domain.counting import Reactions
from pipelines.domain.register import (
    REACTION_BITS,
    REACTION_OF_ACTION,
    REACTION_SHIFT,
    REGION_BITS,
    TIME_SHIFT,
    Reaction,
)
from traffic.model import ACTIONS, Integers, content_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traffic.model import Block, TrafficModel


@dataclass(frozen=True, slots=True)
class Truth:
    """What a log must be counted to, once every event of it is counted.

    Fields:
        likes: By content index and region position.
        dislikes: By content index and region position.
        registers: How many pairs of a content and a user have one.
        users: How many users reacted.
    """

    likes: Integers
    dislikes: Integers
    registers: int
    users: int

    def by_content(self) -> dict[str, Reactions]:
        """Reactions over all regions by content id, of the contents that have any."""
        likes, dislikes = self.likes.sum(axis=1), self.dislikes.sum(axis=1)
        return {
            content_name(index): Reactions(int(likes[index]), int(dislikes[index]))
            for index in np.flatnonzero(likes + dislikes).tolist()
        }


def truth(model: TrafficModel, blocks: Iterable[Block]) -> Truth:
    """Count a log exactly: the largest register of each content and user, then one like or dislike for each.

    Takes 24 bytes of memory for each event.

    Args:
        model: What the blocks were made by; its regions must be the job's, in the job's order, for ties to agree.
        blocks: The whole log.
    """
    reactions = np.array([REACTION_OF_ACTION[action] for action in ACTIONS], dtype=np.int64)
    pairs, registers = [], []
    for block in blocks:
        pairs.append(block.content * model.users + block.user)
        registers.append(block.event_time_ms << TIME_SHIFT | reactions[block.action] << REACTION_SHIFT | block.region)
    if not pairs:
        empty = np.zeros((model.contents, len(model.regions)), dtype=np.int64)
        return Truth(empty, empty.copy(), 0, 0)
    pair, register = np.concatenate(pairs), np.concatenate(registers)
    order = np.lexsort((register, pair))
    pair, register = pair[order], register[order]
    last = np.append(pair[1:] != pair[:-1], True)
    pair, register = pair[last], register[last]
    reaction = register >> REACTION_SHIFT & ((1 << REACTION_BITS) - 1)
    row = pair // model.users * len(model.regions) + (register & ((1 << REGION_BITS) - 1))

    def counted(wanted: Reaction) -> Integers:
        size = model.contents * len(model.regions)
        return np.bincount(row[reaction == wanted], minlength=size).reshape(model.contents, len(model.regions))

    return Truth(counted(Reaction.LIKE), counted(Reaction.DISLIKE), len(pair), len(np.unique(pair % model.users)))

"""The fence around a generation: who may write its totals, and under which epoch.

One row per generation, changed by lightweight transactions only:

    latest   the newest epoch that was given out
    owner    the run that may write; every start of a job is a run of its own, with a name that was never used before
    attempt  the newest attempt of that run that writes, by Flink's number: 0, 1, 2, …, one more with every restart
    saver    the newest run that has begun: only what it saves may be resumed
    base     or, until it has saved anything, the state that it resumed itself; "" for offset 0

A launcher that holds the lease *claims* the generation for its run; from then on nobody of an earlier run is let in.
It looks for the newest state of the saver or its base, and *begins* with that, before it submits the job. What an older
run saves after that, for its JobManager may live on, covers totals that the newer run may since have overwritten with
earlier ones: resumed, it would leave them so.
Every writing subtask *takes* the epoch of its attempt when it opens: the first one gets a new epoch and the others
share it, for a restart restarts them all. So epochs are in the order of attempts, however late a subtask opens: one of
an attempt that was given up can only join the epoch that its attempt had all along, or is refused.

So whatever an attempt stores outranks what older ones stored, or store yet. That a writer which finds itself
`superseded` stops is only a courtesy. What the fence cannot see is up to the launcher:

* It claims before it looks for the state that its run resumes from, and begins before it submits.
* It resumes from the saver's state or its base, from nothing else.
* A run's attempts are not counted anew. Where a JobManager recovers a job by itself, attempt 0 comes again: lower ones
  than the one on record are refused, but an equal one would share the epoch of an attempt that it has to outrank. Such
  a recovery needs a claim, so that it is a new run.

Leases and fencing tokens after Kleppmann, "How to do distributed locking" (2016).
"""

from __future__ import annotations

from typing import NamedTuple

from pipelines.domain.bounds import check_part
from pipelines.domain.version import EPOCH_BITS

NO_ATTEMPT = -1


class Fence(NamedTuple):
    """The row of one generation; the default stands for a row that is not there.

    Fields:
        latest: The newest epoch given out, 0 for none.
        owner: The run that may write, "" for none.
        attempt: Its newest attempt that has an epoch, `NO_ATTEMPT` for none.
        saver: The newest run that has begun, "" for none.
        base: The state that the saver resumed, "" for none.
    """

    latest: int = 0
    owner: str = ""
    attempt: int = NO_ATTEMPT
    saver: str = ""
    base: str = ""


class Outranked(Exception):
    """Another run has claimed the generation, or a newer attempt of the run has an epoch; the message says which."""


def claim(fence: Fence, owner: str) -> Fence:
    """Give a generation to a new run.

    Args:
        fence: The row as it is.
        owner: The run's name, never used before.

    Returns:
        The row to put in its place; the same one if the owner has claimed before, which a lost answer may hide.

    Raises:
        ValueError: The owner has no name.
    """
    if not owner:
        raise ValueError("an owner needs a name")
    return fence if fence.owner == owner else fence._replace(owner=owner, attempt=NO_ATTEMPT)


def begin(fence: Fence, owner: str, base: str) -> Fence:
    """Make a run that has claimed the only one whose saved states may be resumed.

    Args:
        fence: The row as it is.
        owner: The run.
        base: The state that it resumes, "" for offset 0.

    Returns:
        The row to put in its place.

    Raises:
        Outranked: Another run has claimed since.
    """
    if fence.owner != owner:
        raise Outranked(f"run {owner} may not begin: the generation belongs to {fence.owner or 'no run'}")
    return fence._replace(saver=owner, base=base)


def take(fence: Fence, owner: str, attempt: int) -> Fence:
    """Let a writing subtask of an attempt in.

    Args:
        fence: The row as it is.
        owner: The subtask's run.
        attempt: Flink's number of the attempt, from 0.

    Returns:
        The row to put in its place, whose `latest` is the epoch to write under; the same one if another subtask of the
        attempt was first.

    Raises:
        Outranked: The attempt must not write.
        PartOverflow: All epochs are used.
        ValueError: The owner has no name, or the number is negative.
    """
    if not owner or attempt < 0:
        raise ValueError(f"attempt {attempt} of the owner {owner!r} cannot be")
    if fence.owner != owner:
        raise Outranked(f"run {owner} may not write: the generation belongs to {fence.owner or 'no run'}")
    if fence.attempt > attempt:
        raise Outranked(f"attempt {attempt} of run {owner} may not write: attempt {fence.attempt} has begun")
    if fence.attempt == attempt:
        return fence
    check_part("epoch", fence.latest + 1, EPOCH_BITS)
    return fence._replace(latest=fence.latest + 1, attempt=attempt)


def superseded(fence: Fence, owner: str, epoch: int) -> bool:
    """Whether somebody else may write, or will: a newer attempt has an epoch, or another run has claimed.

    Args:
        fence: The row as it is.
        owner: The writer's run.
        epoch: What the writer took.
    """
    return fence.owner != owner or fence.latest != epoch

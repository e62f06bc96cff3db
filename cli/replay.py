"""Replaying dead letters: what becomes of one under a policy, and of all up to the topic's present end.

Progress is the committed offset of the group `likes-dead-letters-replay`, by partition of like-events.dlq: everything
before it was dealt with. A dead letter that is left as it is holds its partition's offset back, so the next replay
comes to it again, and to those after it in that partition. Sending an event again never changes a count.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from cli.dead_letter_log import Identities, Passed, parse_letter
from connectors.kafka import Publisher, beginning_offsets, committed_offsets, content_key, end_offsets, read_topic
from connectors.kafka.admin import commit_offsets
from pipelines.domain import strict_json
from pipelines.domain.events import BYTE_ORDER_MARK, Rejected, Rules, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from connectors.kafka import Record
    from pipelines.domain.dead_letters import DeadLetter
    from pipelines.settings import Settings

GROUP = "likes-dead-letters-replay"
Policy = Literal["drop", "fix", "stop"]
_FIX_S = 60.0
_COMMIT_EVERY = 1_000


@dataclass(frozen=True, slots=True)
class Drop:
    """Count it as dealt with, send nothing."""


@dataclass(frozen=True, slots=True)
class Resend:
    """Publish these bytes as an event, which they are."""

    value: bytes


@dataclass(frozen=True, slots=True)
class Leave:
    """Leave it as it is.

    Fields:
        why: A sentence for people, without full stop.
        rejected: Whether it is, or was fixed to, what the job would reject; else the command failed.
    """

    why: str
    rejected: bool


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for.

    Fields:
        policy: drop: deal with all of them by doing nothing. fix: resend what the command makes of them. stop: resend
            those that are events by now, until one is not.
        fix: Command for the shell, for the policy of that name.
        limit: How many to look at, None for all.
        dry_run: Decide, but neither send nor remember anything; a fix command does run.
    """

    policy: Policy
    fix: str = ""
    limit: int | None = None
    dry_run: bool = False


@dataclass(slots=True)
class Summary:
    """What a replay did.

    Fields:
        looked_at: Distinct dead letters.
        resent: Published to like-events.
        dropped: Dealt with without being sent.
        rejected: Left: still no events, or fixed to none.
        failed: Left: the command failed, took too long or wrote nothing.
        passed: Duplicates, and records that are no dead letters.
        first_left: The first that was left, and why.
    """

    looked_at: int = 0
    resent: int = 0
    dropped: int = 0
    rejected: int = 0
    failed: int = 0
    passed: Passed = field(default_factory=Passed)
    first_left: tuple[DeadLetter, str] | None = None


def decide(letter: DeadLetter, request: Request, rules: Rules, now_ms: int) -> Drop | Resend | Leave:
    """What becomes of one dead letter. Runs the command if the policy is to fix.

    An event without event_time gets that of its first arrival: it must not beat what its user did since.
    """
    if request.policy == "drop":
        return Drop()
    value = letter.value
    if request.policy == "fix":
        value, why = run_fix(request.fix, letter.value or b"")
        if not value:
            return Leave(why, rejected=False)
    found = parse(value, now_ms, rules)
    if value is not None and not isinstance(found, Rejected):
        value = dated(value, letter.timestamp_ms)
        found = parse(value, now_ms, rules)
    if value is None or isinstance(found, Rejected):
        reason = found.reason if isinstance(found, Rejected) else "tombstone"
        return Leave(f"still rejected, {reason}", rejected=True)
    return Resend(value)


def dated(event: bytes, time_ms: int) -> bytes:
    """A valid event with this event_time if it has none, otherwise byte for byte as it was."""
    fields = strict_json.loads(event.decode().removeprefix(BYTE_ORDER_MARK))
    if not isinstance(fields, dict) or fields.get("event_time") is not None:
        return event
    # Of equal names the last counts, so this one outranks a null. The last brace closes the object.
    head, brace, tail = event.rpartition(b"}")
    return b'%b,"event_time":%d%b%b' % (head, time_ms, brace, tail)


def run_fix(command: str, value: bytes) -> tuple[bytes, str]:
    r"""What the command writes when it reads `value`, without one "\n" at the end; or b"" and why that is all."""
    shell = ["/bin/sh", "-c", command]
    with subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            written, _ = process.communicate(value, _FIX_S)
        except BaseException as error:
            # Whatever the shell has started holds the pipe open, and leaving the block would wait for it.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                return b"", f"the command took longer than {_FIX_S:g} s"
            raise
    if process.returncode:
        return b"", f"the command exited with {process.returncode}"
    fixed = written.removesuffix(b"\n")
    return fixed, "" if fixed else "the command wrote nothing"


def rules_of(settings: Settings) -> Rules:
    """The job's rules."""
    events = settings.events
    return Rules(events.regions, events.home_region, events.max_record_bytes, events.max_ahead_ms)


def replay(
    settings: Settings, request: Request, *, now_ms: Callable[[], int], left: Callable[[DeadLetter, str], None]
) -> Summary:
    """Replay what was not dealt with, up to the topic's present end, partition by partition.

    Args:
        settings: Where.
        request: How.
        now_ms: Milliseconds since the epoch.
        left: Told of each that is left, and why.

    Raises:
        ServiceUnavailable: No broker answers. What was sent may be sent again by the next replay.
        SettingError: A topic does not exist.
    """
    topic = settings.kafka.dead_letters_topic
    beginning, end = beginning_offsets(settings, topic), end_offsets(settings, topic)
    committed = committed_offsets(settings, topic, GROUP)
    start = {place: min(max(first, committed.get(place, 0)), end[place]) for place, first in beginning.items()}
    run = _Replay(settings, request, now_ms, left)
    run.remember(read_topic(settings, topic, beginning, start))
    with run.publishing():
        for partition in sorted(start):
            bounds = {partition: start[partition]}, {partition: end[partition]}
            if not run.through(partition, read_topic(settings, topic, *bounds)):
                break
            run.completed(partition, end[partition])
    return run.summary


class _Replay:
    """One replay on its way through the topic."""

    def __init__(
        self,
        settings: Settings,
        request: Request,
        now_ms: Callable[[], int],
        left: Callable[[DeadLetter, str], None],
    ) -> None:
        self.summary = Summary()
        self._settings = settings
        self._request = request
        self._now_ms = now_ms
        self._tell_left = left
        self._rules = rules_of(settings)
        self._publisher: Publisher | None = None
        self._dealt_with = Identities()
        self._left = Identities()
        self._held: set[int] = set()  # partitions in which something was left
        self._next: dict[int, int] = {}  # offsets to commit
        self._uncommitted = 0

    def remember(self, records: Iterator[Record]) -> None:
        """Take in what earlier replays dealt with: the job may have written it again since."""
        for record in records:
            if letter := parse_letter(record.value):
                self._dealt_with.add(letter)

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Publish inside the block, if anything is to be sent, and remember the progress at its end."""
        if self._request.dry_run or self._request.policy == "drop":
            yield
        else:
            with Publisher(self._settings, self._settings.kafka.events_topic) as self._publisher:
                yield
        self._commit()

    def through(self, partition: int, records: Iterator[Record]) -> bool:
        """Deal with the records of one partition; returns whether to go on with the next."""
        for record in records:
            if self.summary.looked_at == self._request.limit:
                return False
            if not self._deal_with(record):
                self._held.add(partition)
                if self._request.policy == "stop":
                    return False
            self.completed(partition, record.offset + 1)
            if self._uncommitted >= _COMMIT_EVERY:
                self._commit()
        return True

    def completed(self, partition: int, offset: int) -> None:
        """Everything in the partition before the offset was looked at."""
        if partition not in self._held:
            self._next[partition] = offset

    def _deal_with(self, record: Record) -> bool:
        summary = self.summary
        letter = parse_letter(record.value)
        if letter is None:
            summary.passed.unreadable += 1
            return True
        if letter in self._dealt_with or letter in self._left:
            summary.passed.duplicates += 1
            return letter in self._dealt_with
        summary.looked_at += 1
        self._uncommitted += 1
        match decide(letter, self._request, self._rules, self._now_ms()):
            case Leave(why, rejected):
                summary.rejected += rejected
                summary.failed += not rejected
                summary.first_left = summary.first_left or (letter, why)
                self._left.add(letter)
                self._tell_left(letter, why)
                return False
            case Resend(value):
                if self._publisher:
                    self._publisher.send(value, content_key(value))
                summary.resent += 1
            case Drop():
                summary.dropped += 1
        self._dealt_with.add(letter)
        return True

    def _commit(self) -> None:
        if self._publisher:
            self._publisher.flush()
        if not self._request.dry_run:
            commit_offsets(self._settings, self._settings.kafka.dead_letters_topic, GROUP, self._next)
        self._next.clear()
        self._uncommitted = 0

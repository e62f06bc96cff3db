"""What the demo knows: pure bookkeeping over what it reads from Kafka, without a connection of its own."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import orjson

from pipelines.domain.counting import Reactions, Registers, recount_exact
from pipelines.domain.events import LikeEvent, Rules, parse
from pipelines.domain.register import EMPTY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cli.demo.check import Verdict
    from connectors.kafka import Record

_RATE_S = 10.0


class Total(NamedTuple):
    """A message of content-counts, as far as the demo shows it; newer ones are larger.

    Fields:
        version: Packed.
        likes: At present, in one region.
        dislikes: At present, in one region.
    """

    version: int
    likes: int
    dislikes: int


class Totals:
    """The sums of the newest total per content and region, kept as messages come, in whatever order."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, str], Total] = {}
        self._sums: dict[str, Reactions] = {}
        self.likes = 0
        self.dislikes = 0

    def add(self, value: bytes | None) -> None:
        """Take in one message of content-counts."""
        if value is None:
            return
        message = orjson.loads(value)
        likes, dislikes = message["likes_p"] - message["likes_n"], message["dislikes_p"] - message["dislikes_n"]
        total = Total(message["version"], likes, dislikes)
        content_id = message["content_id"]
        before = self._newest.get((content_id, message["region"]), Total(-1, 0, 0))
        if total > before:
            self._newest[content_id, message["region"]] = total
            more, worse = total.likes - before.likes, total.dislikes - before.dislikes
            self.likes += more
            self.dislikes += worse
            held = self._sums.get(content_id, Reactions())
            self._sums[content_id] = Reactions(held.likes + more, held.dislikes + worse)

    @property
    def contents(self) -> int:
        """How many contents have a total."""
        return len(self._sums)

    def top(self, most: int) -> list[tuple[str, Reactions]]:
        """The contents with the most likes, the most liked first."""
        return heapq.nlargest(most, self._sums.items(), key=lambda item: (item[1].likes, item[1].dislikes, item[0]))


class Recount:
    """The log counted by `pipelines.domain` as it comes: what the job's counts are compared with."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._registers: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._users: set[str] = set()
        self.next_offsets: dict[int, int] = {}

    def add(self, record: Record) -> None:
        """Take in one record of like-events; those of a partition come in order."""
        self.next_offsets[record.partition] = record.offset + 1
        event = parse(record.value, record.timestamp_ms, self._rules)
        if isinstance(event, LikeEvent):
            self._users.add(event.user_id)
            users = self._registers[event.content_id]
            users[event.user_id] = max(users.get(event.user_id, EMPTY), event.register)

    @property
    def users(self) -> int:
        """How many distinct users have reacted, exactly."""
        return len(self._users)

    def totals(self) -> dict[tuple[str, str], Reactions]:
        """What must have been counted, by (content_id, region name)."""
        registers: Registers = self._registers
        return recount_exact(registers, self._rules)


class Backlog:
    """When records arrived that are not counted yet."""

    def __init__(self) -> None:
        self._arrived: defaultdict[int, deque[tuple[int, int]]] = defaultdict(deque)
        self._counted: dict[int, int] = {}

    def add(self, record: Record) -> None:
        """Take in one record of like-events; those of a partition come in order."""
        if record.offset >= self._counted.get(record.partition, 0):
            self._arrived[record.partition].append((record.offset, record.timestamp_ms))

    def counted(self, offsets: Mapping[int, int]) -> None:
        """Forget what lies before these offsets by partition.

        A job that starts anew has committed nothing for a while, but what was stored before it stays stored: offsets
        only grow here.
        """
        for partition, offset in offsets.items():
            self._counted[partition] = max(offset, self._counted.get(partition, 0))
            waiting = self._arrived[partition]
            while waiting and waiting[0][0] < offset:
                waiting.popleft()

    @property
    def counted_offsets(self) -> Mapping[int, int]:
        """How far counting has come, by partition."""
        return self._counted

    def oldest_ms(self) -> int | None:
        """When the oldest record arrived that is not counted, milliseconds since the epoch; None if all are."""
        return min((waiting[0][1] for waiting in self._arrived.values() if waiting), default=None)


class Rate:
    """Growth per second over the last ten."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def at(self, now_s: float, value: int) -> float:
        """The rate, now that there are `value`."""
        samples = self._samples
        samples.append((now_s, value))
        while samples[0][0] < now_s - _RATE_S:
            samples.popleft()
        first_s, first = samples[0]
        return (value - first) / (now_s - first_s) if now_s > first_s else 0.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything on the screen that changes. Times are milliseconds since the epoch.

    Fields:
        events_in: Records in the log.
        counted: Of these, how many a checkpoint covers, so that both stores hold them.
        in_rate: Events per second.
        counted_rate: Events per second.
        users: Distinct users with a reaction in the log.
        contents: Contents with a stored total.
        likes: Sum of the stored totals.
        dislikes: Sum of the stored totals.
        dead_letters: Records on the dead letters' topic.
        oldest_waiting_ms: When the oldest record arrived that is not counted yet; None if all are.
        newest_total_ms: When the newest total was published; None before the first.
        top: The most liked contents.
        job_state: Flink's word for the job, `starting` before it has one.
        job_url: Flink's address, empty before it has one.
        trouble: Which service does not answer, empty if all do.
        verdict: The newest comparison with an exact recount, None before the first.
        earlier: Records that were in the log before the demo began.
    """

    events_in: int = 0
    counted: int = 0
    in_rate: float = 0.0
    counted_rate: float = 0.0
    users: int = 0
    contents: int = 0
    likes: int = 0
    dislikes: int = 0
    dead_letters: int = 0
    oldest_waiting_ms: int | None = None
    newest_total_ms: int | None = None
    top: tuple[tuple[str, Reactions], ...] = ()
    job_state: str = "starting"
    job_url: str = ""
    trouble: str = ""
    verdict: Verdict | None = None
    earlier: int = 0

    @property
    def lag(self) -> int:
        """Records in the log that are not counted yet."""
        return max(self.events_in - self.counted, 0)

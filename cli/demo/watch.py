"""The thread that reads what there is to see: the log, the counts topic, the group's progress, the job, the stores."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from cli.dead_letter_log import parse_letter
from cli.demo.check import check
from cli.demo.stats import Backlog, Rate, Recount, Snapshot, Totals
from connectors import kafka
from connectors.cassandra import Leases, open_session
from connectors.kafka.tail import Tail
from connectors.store import lease_name
from pipelines.domain.events import Rules
from pipelines.errors import JobFailed, ServiceUnavailable
from pipelines.jobs.names import group_of, state_folders
from pipelines.jobs.progress import group_of_run, progress_of_run, standing
from pipelines.jobs.rest import FlinkRest

if TYPE_CHECKING:
    from cli.demo.check import Verdict
    from cli.demo.job import JobProcess
    from cli.demo.replay import Replay
    from connectors.cassandra import CassandraSession
    from deploy.flink.local_stack import Stack
    from pipelines.jobs.prepare import Counting
    from pipelines.settings import Settings

_POLL_S = 0.2
_MEASURE_S = 1.0
_JOIN_S = 3.0
_TOP = 10


class Watch:
    """Keeps `snapshot` up to date from `__enter__`, which comes before the job's start, to the end of the block.

    A service that is away shows as trouble and is asked again. Once the replay is through and everything is counted,
    both stores are compared with an exact recount, and again whenever the log has grown and is counted.

    Args:
        settings: Where everything is.
        stack: The services.
        counting: The generation that the job counts.
        replay: What publishes.
        job: The process that holds the job's lease.
    """

    def __init__(self, settings: Settings, stack: Stack, counting: Counting, replay: Replay, job: JobProcess) -> None:
        self.snapshot = Snapshot()
        self._settings = settings
        self._stack = stack
        self._generation = counting.generation
        self._group = group_of("like-counts", counting.generation, counting.identity)
        self._folders = state_folders(settings, "like-counts", counting.generation, counting.identity)
        self._identity = counting.identity
        self._replay = replay
        self._job = job
        self._events = settings.kafka.events_topic
        self._counts = kafka.counts_topic(settings, counting.generation)
        self._totals = Totals()
        self._recount = Recount(Rules(**settings.events.model_dump()))
        self._backlog = Backlog()
        self._dead_letters: set[tuple[str, int, int]] = set()
        self._ends: dict[int, int] = {}
        self._in_rate, self._counted_rate = Rate(), Rate()
        self._newest_total_ms: int | None = None
        self._flink: FlinkRest | None = None
        self._run_id = ""
        self._earlier = 0
        self._job_state = "starting"
        self._trouble = ""
        self._verdict: Verdict | None = None
        self._compared: dict[int, int] = {}
        self._ending = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> Self:
        with open_session(self._settings) as session:
            _, counted = standing(self._settings, session, "like-counts", self._generation, self._identity)
        self._backlog.counted(counted)
        self._earlier = sum(kafka.end_offsets(self._settings, self._events).values())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(_JOIN_S)

    def check(self) -> None:
        """Raises what ended the thread, if something did."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with ExitStack() as block:
                session = block.enter_context(open_session(self._settings))
                topics = (self._events, self._counts, self._settings.kafka.dead_letters_topic)
                tail = block.enter_context(Tail(self._settings, topics))
                measured_s = float("-inf")
                while not self._ending.is_set():
                    try:
                        self._read(tail)
                        if time.monotonic() - measured_s >= _MEASURE_S:
                            measured_s = time.monotonic()
                            self._trouble = self._look(tail, session)
                    except ServiceUnavailable as error:
                        self._trouble = error.message
                    self._show()
        except BaseException as error:  # noqa: BLE001 - handed to the main thread
            self._error = error

    def _read(self, tail: Tail) -> None:
        for record in tail.poll(_POLL_S):
            if record.topic == self._events:
                self._recount.add(record)
                self._backlog.add(record)
            elif record.topic == self._counts:
                self._totals.add(record.value)
                self._newest_total_ms = max(self._newest_total_ms or 0, record.timestamp_ms)
            elif (letter := parse_letter(record.value)) is not None:
                # A job that has resumed may have told of one twice.
                self._dead_letters.add(letter.identity)

    def _look(self, tail: Tail, session: CassandraSession) -> str:
        """Measure, as far as services run; returns what a person should do about those that do not."""
        down = [name for name, service in self._stack.services().items() if not service.alive()]
        if "kafka" not in down:
            self._measure(tail, session)
        return f"{' and '.join(down)} down: `likes stack up` starts again what is missing" if down else ""

    def _measure(self, tail: Tail, session: CassandraSession) -> None:
        self._ask_flink(session)
        self._ends = tail.ends(self._events)
        if self._run_id:
            group = group_of_run(self._group, self._run_id)
            self._backlog.counted(progress_of_run(self._settings, group, self._folders.latest(self._run_id)))
        if self._replay.finished and self._ends != self._compared and self._is_quiet():
            verdict = check(self._settings, session, self._generation, self._recount.totals())
            if tail.ends(self._events) == self._ends:
                self._compared, self._verdict = self._ends, verdict

    def _is_quiet(self) -> bool:
        """Whether everything in the log is both counted and recounted."""
        counted, recounted = self._backlog.counted_offsets, self._recount.next_offsets
        return all(min(counted.get(part, 0), recounted.get(part, 0)) >= end for part, end in self._ends.items())

    def _show(self) -> None:
        now_s, events_in = time.monotonic(), sum(self._ends.values())
        counted = sum(self._backlog.counted_offsets.values())
        self.snapshot = Snapshot(
            events_in=events_in,
            counted=counted,
            in_rate=self._in_rate.at(now_s, events_in),
            counted_rate=self._counted_rate.at(now_s, counted),
            users=self._recount.users,
            contents=self._totals.contents,
            likes=self._totals.likes,
            dislikes=self._totals.dislikes,
            dead_letters=len(self._dead_letters),
            oldest_waiting_ms=self._backlog.oldest_ms(),
            newest_total_ms=self._newest_total_ms,
            top=tuple(self._totals.top(_TOP)),
            job_state=self._job_state,
            job_url=self._flink.url if self._flink else "",
            trouble=self._trouble,
            verdict=self._verdict,
            earlier=self._earlier,
        )

    def _ask_flink(self, session: CassandraSession) -> None:
        """How the job is. Where to ask, only its lease says."""
        if self._flink is None:
            held = Leases(session).read(lease_name(self._generation))
            if held is not None and held.pid == self._job.pid:
                self._flink, self._run_id = FlinkRest(held.job), held.owner
        if self._flink is None:
            return
        try:
            job = next(iter(self._flink.jobs()), None)
            state = job.state.lower() if job else ""
            # Flink calls a job running before its tasks do; until they have, whatever it says is a part of starting.
            if self._job_state != "starting" or (job and state == "running" and self._flink.tasks_run(job.job_id)):
                self._job_state = state
                self._replay.job_runs()
        except (ServiceUnavailable, JobFailed):
            if self._job_state != "starting":
                self._job_state = "not answering"

"""Following a job that this process started: progress, the end of a bounded run, failures, Ctrl-C."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyflink.java_gateway import get_gateway

from connectors import kafka
from pipelines.errors import JobFailed, ServiceUnavailable, Superseded
from pipelines.jobs.pace import Pace
from pipelines.jobs.patience import Patience
from pipelines.jobs.plan import Outcome
from pipelines.jobs.progress import progress_of_run
from pipelines.jobs.rest import ENDED, FlinkRest, shorten
from pipelines.jobs.tail import Tail

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyflink.common import JobClient

    from pipelines.jobs.flink import Target
    from pipelines.jobs.plan import Plan, Tell
    from pipelines.settings import Settings

_POLL_S = 0.25
_RETRY_S = 1.0
_REPORT_S = 5.0
_STUCK_S = 3.0
# What Kafka says of an offset that its log no longer holds.
_LOST = ("OffsetOutOfRange", "NoOffsetForPartition")
# By these words a writer says that another run has the generation, not only a newer attempt of its own.
_OTHERS = ("belongs to", "lease was lost")


class Follower:
    """Follows one job.

    Args:
        settings: Of the job.
        plan: Of this run.
        target: Where it runs.
        client: Flink's handle on it.
        tell: Gets lines for the user.
    """

    def __init__(self, settings: Settings, plan: Plan, target: Target, client: JobClient, tell: Tell) -> None:
        self._settings = settings
        self._plan = plan
        self._client: Any = client
        self._rest = FlinkRest(target.rest_url)
        self._embedded = target.embedded
        self._tell = tell
        self._job_id = str(client.get_job_id())
        self._reported_at = float("-inf")
        self._patience = Patience()
        self._restarting = False
        self._bounded = False
        self._stuck_at: tuple[tuple[int, int], ...] = ()
        self._stuck_since = 0.0

    def follow(self, *, bounded: bool, ends: bool) -> Outcome:
        """Wait for the end that the run is to have.

        A run that has an end gives up when its job fails alike again and again; others go on trying.

        Args:
            bounded: Stop at the topic's present end, with a savepoint.
            ends: The source ends by itself.

        Raises:
            JobFailed: The job ended in failure or will not end, or its process died.
            Superseded: Another job has taken over.
        """
        self._bounded = bounded or ends
        try:
            if bounded and not ends:
                return self._follow_to_present_end()
            if self._embedded or ends:
                return self._follow_to_end()
            return self._wait_until_running()
        except KeyboardInterrupt:
            if self._embedded:
                self._tell("stopping; the last checkpoint stays")
                self._cancel()
            else:
                self._tell("the job goes on; see `likes job list`")
            raise

    def _follow_to_present_end(self) -> Outcome:
        topic = self._settings.kafka.events_topic
        ends = kafka.end_offsets(self._settings, topic)
        first = kafka.beginning_offsets(self._settings, topic)
        wanted = {partition: end for partition, end in ends.items() if end > first[partition]}
        while not self._tasks_run():
            time.sleep(_POLL_S)
        running_at = began = time.monotonic()
        # The source reads before the last task runs, so from here alone a short log would take no time at all.
        with suppress(ServiceUnavailable, JobFailed):
            began -= self._rest.age_s(self._job_id)
        tail, pace = Tail(running_at, 0), None
        while True:
            if not self._runs():
                time.sleep(_POLL_S)
                continue
            try:
                done = self._done()
            except ServiceUnavailable as error:
                self._tell(f"waiting      {error.message}")  # as the job itself does
                continue
            left = {part: end for part, end in wanted.items() if done.get(part, first[part]) < end}
            counted = sum(done.values())
            if not left or self._are_only_marks(first | done, left):
                break
            pace = pace or Pace(began, counted, sum(ends.values()))
            pace.saw(time.monotonic(), counted)
            if tail.is_due(time.monotonic(), counted, sum(ends.values()) - counted):
                with suppress(ServiceUnavailable, JobFailed):  # the periodic one comes too
                    self._rest.checkpoint(self._job_id)
            self._report(done, ends)
            time.sleep(_POLL_S)
        ended = time.monotonic()
        per_s = pace.per_s(ended, counted) if pace else 0.0
        path = self._stop_when_it_runs()
        if not self._embedded:
            self._await_end()  # an embedded cluster goes with this process
        total = sum(ends.values())
        self._tell(f"counted      {total:,} events; state kept in {path}")
        generation, took_s = self._plan.counting.generation, round(ended - began, 3)
        return Outcome(generation, self._job_id, "FINISHED", path, total, took_s, round(per_s, 1))

    def _done(self) -> dict[int, int]:
        """What this run has counted: what a complete checkpoint covers has been stored."""
        saved = self._plan.folders.latest(self._plan.lease.owner)
        return progress_of_run(self._settings, self._plan.group, saved)

    def _are_only_marks(self, done: Mapping[int, int], left: Mapping[int, int]) -> bool:
        """Whether the rest holds no record: transactions leave marks in the log, which nobody commits as counted."""
        stuck_at = tuple(sorted(done.items()))
        if stuck_at != self._stuck_at:
            self._stuck_at, self._stuck_since = stuck_at, time.monotonic()
        if time.monotonic() - self._stuck_since < _STUCK_S:
            return False
        self._stuck_since = time.monotonic()  # asked once in a while
        return next(kafka.read_topic(self._settings, self._settings.kafka.events_topic, done, left), None) is None

    def _stop_when_it_runs(self) -> str:
        folder = self._plan.folders.stops / self._plan.lease.owner
        folder.mkdir(parents=True, exist_ok=True)
        patience = Patience()
        while True:
            try:
                return self._stop_with_savepoint(folder)
            except Py4JError as error:
                cause = shorten(str(error))
            self._tell(f"waiting      the last savepoint failed: {cause}")
            if patience.is_over(cause, 0):
                raise JobFailed(f"the last savepoint failed {patience.limit} times alike: {cause}", "run it again")
            time.sleep(_RETRY_S)
            while not self._runs():
                time.sleep(_POLL_S)

    def _stop_with_savepoint(self, folder: Path) -> str:
        # Not by REST: an embedded cluster is gone before it could answer. PyFlink's own method calls one that Flink
        # 2.3 no longer has, so this is the Java client's.
        kind = get_gateway().jvm.org.apache.flink.core.execution.SavepointFormatType.NATIVE
        path = self._client._j_job_client.stopWithSavepoint(False, folder.as_uri(), kind).get()  # noqa: SLF001
        return str(path).removeprefix("file:")

    def _follow_to_end(self) -> Outcome:
        while (state := self._state()) not in ENDED:
            self._report(None, None)
            time.sleep(_POLL_S)
        self._tell(f"job {state.lower()}")
        return Outcome(self._plan.counting.generation, self._job_id, state, None, None)

    def _wait_until_running(self) -> Outcome:
        while not self._tasks_run():
            time.sleep(_POLL_S)
        self._tell(f"running      job {self._job_id}")
        return Outcome(self._plan.counting.generation, self._job_id, "RUNNING", None, None)

    def _await_end(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                if self._rest.state(self._job_id) in ENDED:
                    return
            except (ServiceUnavailable, JobFailed):
                return
            time.sleep(_POLL_S)

    def _state(self) -> str:
        """The job's state; failures become errors."""
        state = self._ask_state()
        if state == "FAILED":
            raise JobFailed(f"the job failed: {shorten(self._cause())}", "see the logs named above")
        if state in {"RESTARTING", "FAILING"}:
            cause = shorten(self._cause())
            if "Superseded" in cause and any(word in cause for word in _OTHERS):
                self._cancel()
                raise Superseded(f"another job has taken over: {cause}", "see `likes job list`")
            if any(lost in cause for lost in _LOST):
                self._cancel()
                raise JobFailed(
                    f"the log has lost records that were never counted: {cause}",
                    "run it again, which says what is missing; accept the loss with --generation new",
                )
            self._report_restart(cause)
            if self._bounded and not self._restarting:
                self._lose_patience(cause)
        self._restarting = state in {"RESTARTING", "FAILING"}
        return state

    def _lose_patience(self, cause: str) -> None:
        if self._patience.is_over(cause, self._saved()):
            self._cancel()
            raise JobFailed(f"the job failed {self._patience.limit} times alike: {cause}", "see the logs named above")

    def _ask_state(self) -> str:
        try:
            return str(self._client.get_job_status().result().name)
        except Py4JError as error:
            # Java answers, but not Flink: an embedded cluster goes with its job, whoever stopped that.
            ended = self._end() if isinstance(error, Py4JJavaError) else None
            if ended is None:
                raise self._lost(error) from None
            return ended

    def _runs(self) -> bool:
        """Whether the job runs; an end that is not the one wanted is an error."""
        state = self._state()
        if state in ENDED:
            raise JobFailed("the job was stopped before it had counted everything", "run it again; it resumes")
        return state == "RUNNING"

    def _end(self) -> str | None:
        """How the job of an embedded cluster ended, None if that is not known or it failed."""
        try:
            self._client._j_job_client.getJobExecutionResult().get()  # noqa: SLF001 - PyFlink's waits for a cluster
        except Exception as error:  # noqa: BLE001 - py4j's, which pyflink may wrap
            return "CANCELED" if "JobCancellationException" in str(error) else None
        return "FINISHED"

    def _cancel(self) -> None:
        with suppress(Py4JError):  # an embedded cluster may be gone before it has answered
            self._client.cancel().result()

    def _lost(self, error: Exception) -> JobFailed:
        kind = shorten(str(error)) if isinstance(error, Py4JJavaError) else "its process died"
        return JobFailed(f"the Flink process is gone: {kind}", "run it again; it resumes from its last checkpoint")

    def _cause(self) -> str:
        try:
            return self._rest.first_cause(self._job_id)
        except (ServiceUnavailable, JobFailed):
            return "no cause known"

    def _saved(self) -> int:
        try:
            return self._rest.completed_checkpoints(self._job_id)
        except (ServiceUnavailable, JobFailed):
            return 0

    def _due(self) -> bool:
        now = time.monotonic()
        if now - self._reported_at < _REPORT_S:
            return False
        self._reported_at = now
        return True

    def _tasks_run(self) -> bool:
        """Whether every task runs."""
        if not self._runs():
            return False
        try:
            return self._rest.tasks_run(self._job_id)
        except ServiceUnavailable:
            return False

    def _report_restart(self, cause: str) -> None:
        if self._due():
            self._tell(f"restarting from the last checkpoint: {cause}")

    def _report(self, done: Mapping[int, int] | None, ends: Mapping[int, int] | None) -> None:
        if not self._due():
            return
        topic = self._settings.kafka.events_topic
        try:
            if done is None:
                done = self._done()
            if ends is None:
                ends = kafka.end_offsets(self._settings, topic)
        except ServiceUnavailable as error:
            self._tell(f"waiting      {error.message}")  # as the job itself does
            return
        counted, total = sum(done.values()), sum(ends.values())
        self._tell(f"counted      {counted:,} of {total:,} events, {max(total - counted, 0):,} to go")

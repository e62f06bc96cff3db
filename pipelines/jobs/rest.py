"""A running Flink cluster or MiniCluster through its REST API.

https://nightlies.apache.org/flink/flink-docs-release-2.3/docs/ops/rest_api/
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import requests

from pipelines.errors import JobFailed, ServiceUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

ENDED = frozenset({"FINISHED", "CANCELED", "FAILED", "SUSPENDED"})
_TIMEOUT_S = 10.0
_POLL_S = 0.1
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class FlinkJob:
    """A job as the cluster lists it.

    Fields:
        job_id: Flink's id.
        name: Its name.
        state: RUNNING, RESTARTING, FINISHED, CANCELED, FAILED, …
    """

    job_id: str
    name: str
    state: str


class FlinkRest:
    """A client of one cluster; `url` without a trailing slash."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def setting(self, name: str) -> str:
        """A setting of the cluster, empty where it has none. Raises ServiceUnavailable."""
        entries = self._ask_list("/jobmanager/config")
        return next((str(entry["value"]) for entry in entries if entry["key"] == name), "")

    def jobs(self) -> list[FlinkJob]:
        """All jobs that the cluster remembers. Raises ServiceUnavailable."""
        found = self._ask("GET", "/jobs/overview")["jobs"]
        return [FlinkJob(job["jid"], job["name"], job["state"]) for job in found]

    def find(self, job_id: str) -> FlinkJob | None:
        """A job, None where the cluster does not remember it. Raises ServiceUnavailable."""
        return next((job for job in self.jobs() if job.job_id == job_id), None)

    def state(self, job_id: str) -> str:
        """The job's state. Raises ServiceUnavailable."""
        return str(self._ask("GET", f"/jobs/{job_id}/status")["status"])

    def first_cause(self, job_id: str) -> str:
        """What the job's latest failure was, as a stack trace; empty if there was none. Raises ServiceUnavailable."""
        entries = self._ask("GET", f"/jobs/{job_id}/exceptions").get("exceptionHistory", {}).get("entries", [])
        return str(entries[0]["stacktrace"]) if entries else ""

    def completed_checkpoints(self, job_id: str) -> int:
        """How many checkpoints the job has completed. Raises ServiceUnavailable."""
        return int(self._ask("GET", f"/jobs/{job_id}/checkpoints")["counts"]["completed"])

    def state_bytes(self, job_id: str) -> int:
        """The whole size of the state in the newest checkpoint. Raises ServiceUnavailable."""
        return int(self._ask("GET", f"/jobs/{job_id}/checkpoints")["latest"]["completed"]["state_size"])

    def vertices(self, job_id: str) -> list[dict[str, Any]]:
        """The job's operator chains with their read and write counts. Raises ServiceUnavailable."""
        return list(self._ask("GET", f"/jobs/{job_id}")["vertices"])

    def tasks_run(self, job_id: str) -> bool:
        """Whether every task runs: a job is RUNNING as soon as it is scheduled. Raises ServiceUnavailable."""
        return all(vertex["status"] == "RUNNING" for vertex in self.vertices(job_id))

    def age_s(self, job_id: str) -> float:
        """Seconds since the first of the job's tasks was deployed, 0 before that. Raises ServiceUnavailable."""
        return max(0, *(int(vertex["duration"]) for vertex in self.vertices(job_id))) / 1_000

    def cancel(self, job_id: str) -> None:
        """Ask the job to stop now; its last checkpoint stays. Raises ServiceUnavailable."""
        self._ask("PATCH", f"/jobs/{job_id}", params={"mode": "cancel"})

    def checkpoint(self, job_id: str) -> None:
        """Ask for a checkpoint now; it comes when it comes. Raises ServiceUnavailable."""
        self._ask("POST", f"/jobs/{job_id}/checkpoints", json={"checkpointType": "CONFIGURED"})

    def savepoint(self, job_id: str, directory: str, *, stop: bool, sleep: Callable[[float], None] = time.sleep) -> str:
        """Take a savepoint, stop the job with it if asked to, and wait for it; returns its path.

        Raises:
            JobFailed: The savepoint failed.
            ServiceUnavailable: The cluster does not answer.
        """
        body: dict[str, object] = {"formatType": "NATIVE"}
        body |= {"targetDirectory": directory, "drain": False} if stop else {"target-directory": directory}
        trigger = self._ask("POST", f"/jobs/{job_id}/{'stop' if stop else 'savepoints'}", json=body)["request-id"]
        while True:
            answer = self._ask("GET", f"/jobs/{job_id}/savepoints/{trigger}")
            if answer["status"]["id"] == "COMPLETED":
                break
            sleep(_POLL_S)
        operation = answer["operation"]
        if "location" not in operation:
            cause = operation.get("failure-cause", {}).get("stack-trace", "no cause given")
            raise JobFailed(
                f"the savepoint failed: {shorten(cause)}", "see the job's log; the job's state is unchanged"
            )
        return str(operation["location"]).removeprefix("file:")

    def _ask_list(self, path: str) -> list[dict[str, Any]]:
        return list(self._request("GET", path))

    def _ask(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401
        return dict(self._request(method, path, **arguments))

    def _request(self, method: str, path: str, **arguments: Any) -> Any:  # noqa: ANN401
        try:
            answer = requests.request(method, f"{self.url}{path}", timeout=_TIMEOUT_S, **arguments)
            answer.raise_for_status()
            return answer.json()
        except requests.HTTPError as error:
            response = error.response
            told = f"{response.status_code} {shorten(response.text)}"
            if response.status_code == _NOT_FOUND:
                raise JobFailed(f"Flink at {self.url} does not know this job", "see `likes job list`") from None
            raise ServiceUnavailable(f"Flink at {self.url} answered {told}", "see its log") from None
        except (requests.RequestException, ValueError) as error:
            raise ServiceUnavailable(
                f"Flink at {self.url} does not answer ({type(error).__name__})",
                "start a cluster (`start-cluster.sh`), or set job.flink_rest to where it is",
            ) from None


def shorten(trace: str) -> str:
    """The line of a stack trace that says most: the last cause, Python's own error before Java's wrapping."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    python = [line for line in lines if line.startswith(("pipelines.errors.", "connectors.")) and ":" in line]
    chosen = (python or causes[-1:] or lines or [""])[0]
    return chosen.removeprefix("Caused by:").strip()[:500]

"""The stack as a whole: three services in one folder."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.flink.local_stack import paths
from deploy.flink.local_stack.cassandra import Cassandra
from deploy.flink.local_stack.kafka import Kafka
from deploy.flink.local_stack.ports import HOST
from deploy.flink.local_stack.records import LOCK_FILE, RECORD_FILE, Records, locked
from deploy.flink.local_stack.redis import Redis
from deploy.flink.local_stack.service import LOGS, Progress, Service
from pipelines.errors import Refused

# Checkpoints, savepoints and logs of local jobs live here, so that a purge takes them along.
FLINK = "flink"


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """One service at one moment.

    Fields:
        name: `kafka`, `cassandra` or `redis`.
        is_up: Its process runs and answers.
        pid: None when the process does not run.
        port: Where clients connect on 127.0.0.1; 0 before the first start.
        rss_mb: Resident memory in MiB.
    """

    name: str
    is_up: bool
    pid: int | None
    port: int
    rss_mb: int


class Stack:
    """The services of one folder. Cheap to make; nothing runs or is written before `up`.

    Args:
        folder: Where data, logs and records live; default: `paths.stack_dir()`.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = (folder or paths.stack_dir()).resolve()
        records = Records(self.folder)
        # Slowest first, as they are shown.
        made: tuple[Service, ...] = (
            Cassandra(self.folder, records),
            Kafka(self.folder, records),
            Redis(self.folder, records),
        )
        self._services = {service.name: service for service in made}

    def services(self) -> dict[str, Service]:
        """The services by name: `cassandra`, `kafka`, `redis`."""
        return dict(self._services)

    def up(self, progress: Progress | None = None, ports: Mapping[str, int] | None = None) -> None:
        """Start whatever is down and wait until everything answers. What runs is left alone; ports and data stay.

        Args:
            progress: Gets a line per step and service; called from several threads.
            ports: Wanted client ports by service name.

        Raises:
            ServiceUnavailable: A service did not start; the others are left as they are.
            Refused: The folder holds something else, or a service runs on another port than the one wanted.
        """
        tell = progress or _ignore
        self._check_folder()
        with self._locked(tell):
            taken: set[int] = set()
            for service in self._services.values():
                service.plan((ports or {}).get(service.name), taken)
            self._launch([service for service in self._services.values() if not _answers(service)], tell)

    def down(self, *, purge: bool = False, progress: Progress | None = None) -> list[str]:
        """Stop what runs, all at once, and return its names. Data stays unless `purge`, which removes all of it."""
        tell = progress or _ignore
        if not any((self.folder / entry).exists() for entry in self._own_entries()):
            return []
        with self._locked(tell):
            running = [service for service in self._services.values() if service.alive()]
            with ThreadPoolExecutor(len(self._services)) as pool:
                for service, _ in zip(running, pool.map(Service.stop, running), strict=True):
                    tell(f"{service.name}: stopped")
            if purge:
                self._purge()
                tell(f"removed the data in {self.folder}")
        return [service.name for service in running]

    def status(self) -> list[ServiceStatus]:
        """What runs now, within about a second per service that hangs."""
        return [
            ServiceStatus(service.name, _answers(service), service.pid, service.port, service.resident_mb())
            for service in self._services.values()
        ]

    def is_running(self) -> bool:
        """Whether at least one process of the stack runs; a crashed service does not make the stack another one."""
        return any(service.alive() for service in self._services.values())

    def env(self) -> dict[str, str]:
        """KAFKA_BOOTSTRAP, CASSANDRA_HOSTS, CASSANDRA_PORT and REDIS_URL of this stack, as strings."""
        return {
            "KAFKA_BOOTSTRAP": self._services["kafka"].address,
            "CASSANDRA_HOSTS": HOST,
            "CASSANDRA_PORT": str(self._services["cassandra"].port),
            "REDIS_URL": f"redis://{self._services['redis'].address}/0",
        }

    def _launch(self, services: list[Service], tell: Progress) -> None:
        """Start these at the same time; the first failure is raised once all have ended."""
        if not services:
            return
        cancelled = threading.Event()
        with ThreadPoolExecutor(len(services)) as pool:
            starts = [pool.submit(service.launch, tell, cancelled) for service in services]
            try:
                wait(starts, return_when=FIRST_EXCEPTION)
            except BaseException:
                # Ctrl-C: stop waiting. What was started is recorded; `up` goes on with it and `down` ends it.
                cancelled.set()
                raise
            for start in starts:
                start.result()

    @contextmanager
    def _locked(self, tell: Progress) -> Iterator[None]:
        with locked(self.folder, lambda: tell("waiting for another `likes stack` command on this folder")):
            yield

    def _own_entries(self) -> set[str]:
        half_written = Path(RECORD_FILE).with_suffix(".new").name
        return {*self._services, LOGS, FLINK, RECORD_FILE, half_written, LOCK_FILE, paths.TOKEN_SECRET_FILE}

    def _check_folder(self) -> None:
        if self.folder.is_dir():
            foreign = sorted({entry.name for entry in self.folder.iterdir()} - self._own_entries())
            if foreign:
                remedy = f"set {paths.STACK_DIR_VARIABLE} to an empty folder"
                raise Refused(f"{self.folder} holds {foreign[0]!r}, which is not a stack's", remedy)

    def _purge(self) -> None:
        """Remove what a stack makes, by name: the folder may be anybody's."""
        for name in self._own_entries():
            entry = self.folder / name
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink(missing_ok=True)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()


def running_stack_env() -> dict[str, str]:
    """`Stack().env()` of the default folder; empty when nothing runs there. For `settings.from_process(stack=…)`."""
    stack = Stack()
    return stack.env() if stack.is_running() else {}


def _answers(service: Service) -> bool:
    return service.alive() and service.ready()


def _ignore(_line: str) -> None:
    pass

"""A standalone Flink cluster from the wheel's own scripts, and a Python for its workers that has none of our things."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Self

import psutil
import pyflink
import requests
from packaging.requirements import Requirement

from deploy.flink.local_stack.java import java_home
from deploy.flink.local_stack.ports import HOST, free_port
from tests.support import wait_until

FLINK_HOME = Path(pyflink.__file__).parent
SLOTS = 2
_START_S, _STOP_S = 120.0, 60.0
_CONFIG = """\
rest.address: {host}
rest.bind-address: {host}
rest.port: {rest}
rest.bind-port: '{rest}'
jobmanager.rpc.address: {host}
jobmanager.rpc.port: {rpc}
jobmanager.bind-host: {host}
jobmanager.memory.process.size: 1024m
taskmanager.host: {host}
taskmanager.bind-host: {host}
taskmanager.memory.process.size: 1600m
taskmanager.numberOfTaskSlots: {slots}
io.tmp.dirs: {scratch}
env.java.opts.all: {java_options}
"""


class StandaloneCluster:
    """One job manager and one task manager with two slots, on this machine's loopback address.

    Args:
        folder: Gets configuration, logs and pids; the cluster's working folder, so nothing is imported from ours.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._port = free_port(set())
        self._rpc = free_port({self._port})
        self.rest_url = f"http://{HOST}:{self._port}"

    def __enter__(self) -> Self:
        conf = self.folder / "conf"
        shutil.copytree(FLINK_HOME / "conf", conf)
        for name in ("masters", "workers"):
            (conf / name).write_text(f"{HOST}\n", encoding="ascii")
        scratch = self.folder / "scratch"
        for made in (scratch, self.folder / "logs", self.folder / "pids"):
            made.mkdir()
        # What opens the JDK to Flink and Arrow is the distribution's business.
        shipped = re.search(r"^ +all: (.+)$", (conf / "config.yaml").read_text(encoding="utf-8"), re.MULTILINE)
        assert shipped
        text = _CONFIG.format(
            host=HOST, rest=self._port, rpc=self._rpc, slots=SLOTS, scratch=scratch, java_options=shipped[1]
        )
        (conf / "config.yaml").write_text(text, encoding="ascii")
        try:
            self._script("start-cluster.sh")
            wait_until(lambda: self._overview().get("slots-available") == SLOTS, _START_S, what="a task manager")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def logs(self) -> str:
        """The logs of both processes, for the message of a failed test."""
        return "\n".join(file.read_text(errors="replace")[-3_000:] for file in (self.folder / "logs").iterdir())

    def _overview(self) -> dict[str, Any]:
        try:
            return dict(requests.get(f"{self.rest_url}/overview", timeout=5).json())
        except (requests.RequestException, ValueError):
            return {}

    def _stop(self) -> None:
        # The scripts note the pids that they started, one a line.
        pids = [int(line) for file in (self.folder / "pids").iterdir() for line in file.read_text().split()]
        processes = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
        self._script("stop-cluster.sh")
        for left in psutil.wait_procs(processes, _STOP_S)[1]:
            left.kill()

    def _script(self, name: str) -> None:
        own = {
            "FLINK_CONF_DIR": str(self.folder / "conf"),
            "FLINK_LOG_DIR": str(self.folder / "logs"),
            "FLINK_PID_DIR": str(self.folder / "pids"),
            "JAVA_HOME": str(java_home()),
        }
        environment = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "JVM_ARGS"}}
        subprocess.run(
            [FLINK_HOME / "bin" / name],
            cwd=self.folder,
            env=environment | own,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=_START_S,
        )


def flink_python(folder: Path) -> Path:
    """A virtual environment with apache-flink and what it requires, linked from this one, and nothing else."""
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    for library in _closure("apache-flink"):
        for top in {part.parts[0] for part in library.files or () if part.parts[0] not in {"..", "__pycache__"}}:
            link = packages / top
            if not link.exists():
                link.symlink_to(Path(str(library.locate_file(top))))
    return folder / "bin" / "python"


def can_import(python: Path, module: str) -> bool:
    """Whether that interpreter has a module."""
    done = subprocess.run([python, "-c", f"import {module}"], cwd=python.parent, capture_output=True, check=False)
    return done.returncode == 0


def _closure(name: str) -> list[Distribution]:
    found: dict[str, Distribution] = {}
    pending = [name]
    while pending:
        wanted = pending.pop().lower().replace("_", "-")
        if wanted in found:
            continue
        try:
            found[wanted] = distribution(wanted)
        except PackageNotFoundError:
            continue
        for text in found[wanted].requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                pending.append(requirement.name)
    return list(found.values())

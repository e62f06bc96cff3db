"""Kafka, one node that is broker and controller (KRaft)."""

from __future__ import annotations

import base64
import subprocess
import uuid

from deploy.flink.local_stack.jars import ensure_jars
from deploy.flink.local_stack.java import java
from deploy.flink.local_stack.service import TEMPLATES, Progress, Service
from deploy.flink.local_stack.wire import ask
from pipelines.errors import ServiceUnavailable

# Metadata request, version 4 (kafka.apache.org/protocol): length, api key 3, version 4, correlation id 1, no client
# id, no topics, no auto-creation. The answer: length, correlation id, throttle time, then the number of brokers.
_METADATA = bytes.fromhex("0000000f 0003 0004 00000001 ffff 00000000 00")
_ANSWER_BYTES = 16


class Kafka(Service):
    """The log. Up when the broker lists itself, so when it takes produce requests."""

    name = "kafka"
    internal_ports = ("controller",)

    def prepare(self, progress: Progress) -> None:
        """Write server.properties and format the data folder if it is new."""
        self._jars = ensure_jars("kafka", progress)
        data = self.folder / "data"
        self._write_from_template(
            "server.properties", port=self.port, controller_port=self._internal_port("controller"), data=data
        )
        if not (data / "meta.properties").exists():
            progress("kafka: formatting its data folder")
            self._format()

    def command(self) -> list[str]:
        """The broker."""
        return [*self._java(), "-Xms256m", "-Xmx384m", "kafka.Kafka", str(self.folder / "server.properties")]

    def ready(self) -> bool:
        """Whether a metadata request is answered with at least one broker."""
        answer = ask(self.port, _METADATA, _ANSWER_BYTES)
        return len(answer) == _ANSWER_BYTES and int.from_bytes(answer[12:], "big") > 0

    def _java(self) -> list[str]:
        return [
            java(),
            "-cp",
            ":".join(str(jar) for jar in self._jars),
            f"-Dlog4j2.configurationFile={TEMPLATES / 'kafka-log4j2.properties'}",
            "-Djava.awt.headless=true",
            "-XX:+ExitOnOutOfMemoryError",
        ]

    def _format(self) -> None:
        # The hexadecimal "f" keeps the id from starting with "-", which Kafka's tools take for an option.
        cluster = base64.urlsafe_b64encode(b"\x0f" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        arguments = ["-t", cluster, "-c", str(self.folder / "server.properties"), "--ignore-formatted"]
        done = subprocess.run(
            [*self._java(), "-Xmx128m", "-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool", "format", *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            last = (done.stderr + done.stdout).strip().splitlines()[-1:]
            raise ServiceUnavailable(f"kafka: formatting {self.folder / 'data'} failed: {' '.join(last)}")

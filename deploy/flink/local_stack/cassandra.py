"""Cassandra, one node."""

from __future__ import annotations

from deploy.flink.local_stack.jars import ensure_jars
from deploy.flink.local_stack.java import java
from deploy.flink.local_stack.service import TEMPLATES, Progress, Service
from deploy.flink.local_stack.wire import ask

# An OPTIONS request and the opcode of its answer, SUPPORTED (native protocol v4, sections 2 and 4.1.3).
_OPTIONS = bytes.fromhex("04 00 0000 05 00000000")
_SUPPORTED = 0x06
_HEADER_BYTES = 9


class Cassandra(Service):
    """The system of record. Up when it speaks the native protocol, so when it has joined its ring of one."""

    name = "cassandra"
    internal_ports = ("storage",)

    def prepare(self, progress: Progress) -> None:
        """Write cassandra.yaml."""
        self._jars = ensure_jars("cassandra", progress)
        self._write_from_template(
            "cassandra.yaml", port=self.port, storage_port=self._internal_port("storage"), data=self.folder / "data"
        )

    def command(self) -> list[str]:
        """The node, without JMX: nothing here uses it, and it would listen on every address."""
        agent = next(jar for jar in self._jars if jar.name.startswith("jamm-"))
        return [
            java(),
            f"-javaagent:{agent}",
            f"@{TEMPLATES / 'cassandra-jvm17.args'}",
            f"-Dcassandra.config={(self.folder / 'cassandra.yaml').as_uri()}",
            f"-Dcassandra.storagedir={self.folder / 'data'}",
            f"-Dcassandra.logdir={self.log.parent}",
            f"-Dlogback.configurationFile={TEMPLATES / 'cassandra-logback.xml'}",
            "-Dcassandra-foreground=yes",
            "-cp",
            ":".join(str(jar) for jar in self._jars),
            "org.apache.cassandra.service.CassandraDaemon",
        ]

    def ready(self) -> bool:
        """Whether an OPTIONS request is answered."""
        answer = ask(self.port, _OPTIONS, _HEADER_BYTES)
        return len(answer) == _HEADER_BYTES and answer[4] == _SUPPORTED

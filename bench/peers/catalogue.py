"""The peers: what they are, how each is started, how many events a run of theirs has."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from bench.peers import environment
from bench.peers.environment import PROGRAMS, Progress
from deploy.flink.local_stack.jars import ensure_jars

# The command up to the arguments that all programs take, made when it is needed: it may have to install something.
Command = Callable[[Progress], list[str]]


@dataclass(frozen=True, slots=True)
class Peer:
    """One way of counting.

    Fields:
        name: In the report.
        events: In a run that takes about 10 s on 2 cores.
        primer_events: Counted before anything is measured; a JVM needs many to be warm.
        crash_events: In a crash run, so that several commits come before its middle.
        command: Starts one process of it.
        processes: How many are started, told apart by `--index`.
        ports: How many free ports it wants for itself, passed as `--addresses host:port;...`.
        output: Where its counts are.
        environment: Set for its processes beside what they inherit.
        versions: What it is made of.
        notes: What a reader of its figure should know.
    """

    name: str
    events: int
    crash_events: int
    command: Command
    primer_events: int = 1_000
    processes: int = 1
    ports: int = 0
    output: Literal["topic", "redis"] = "topic"
    environment: Mapping[str, str] = field(default_factory=dict)
    versions: str = ""
    notes: str = ""


def _python(requirements: str, program: str) -> Command:
    return lambda progress: [
        str(environment.ensure_python(requirements, progress)),
        str(PROGRAMS / f"{program}.py"),
    ]


def _own_python(program: str) -> Command:
    return lambda _progress: [sys.executable, str(PROGRAMS / f"{program}.py")]


def _datastream(mode: str) -> Command:
    return lambda progress: [
        *_own_python("datastream")(progress),
        *("--mode", mode, "--jars", os.pathsep.join(str(jar) for jar in ensure_jars("flink", progress))),
    ]


# What this project's own JVM has counted too before it is measured.
WARM_UP_EVENTS = 1_500_000

PEERS = (
    Peer(
        name="redis_consumer",
        events=700_000,
        crash_events=500_000,
        command=_own_python("redis_consumer"),
        processes=2,
        output="redis",
        versions="confluent-kafka and redis of this project's lock, Valkey 9.1",
        notes="2 processes, batches of 2,000 in one Lua call, appendonly everysec",
    ),
    Peer(
        name="pathway",
        events=1_000_000,
        crash_events=1_000_000,
        command=_python("pathway", "pathway_likes"),
        environment={"PATHWAY_THREADS": "2"},
        versions="Pathway 0.33.0",
        notes="2 threads, input persisted to the file system every 5 s; persisting operators takes a licence key",
    ),
    Peer(
        name="bytewax",
        events=1_000_000,
        crash_events=500_000,
        command=_python("bytewax", "bytewax_likes"),
        processes=2,
        ports=2,
        versions="Bytewax 0.21.1",
        notes="2 processes, recovery every 5 s into 2 partitions",
    ),
    Peer(
        name="quix",
        events=200_000,
        crash_events=400_000,
        command=_python("quix", "quix"),
        processes=2,
        versions="Quix Streams 3.28.1",
        notes="2 processes, exactly-once, RocksDB with changelogs, commits every 5 s",
    ),
    Peer(
        name="datastream_process",
        events=15_000,
        crash_events=20_000,
        primer_events=3_000,
        command=_datastream("process"),
        # Else an embedded cluster runs the functions of all subtasks as threads of one interpreter.
        environment={"_python_worker_execution_mode": "process"},
        versions="apache-flink 2.3.0",
        notes="DataStream API, process mode, parallelism 2, RocksDB, checkpoints every 5 s",
    ),
    Peer(
        name="datastream_thread",
        events=100_000,
        crash_events=60_000,
        primer_events=20_000,
        command=_datastream("thread"),
        environment={"PYTHONPATH": sysconfig.get_path("purelib")},
        versions="apache-flink 2.3.0 with pemja",
        notes="DataStream API, thread mode, parallelism 2, RocksDB, checkpoints every 5 s",
    ),
    Peer(
        name="kafka_streams",
        events=1_500_000,
        crash_events=1_500_000,
        primer_events=WARM_UP_EVENTS,
        command=environment.ensure_streams,
        versions="Kafka Streams 4.1.1, compiled from Groovy 4.0.28",
        notes="2 stream threads, exactly_once_v2, RocksDB with changelogs, commits every second",
    ),
    Peer(
        name="faust",
        events=6_000,
        crash_events=8_000,
        command=_python("faust", "faust_likes"),
        processes=2,
        versions="faust-streaming 0.15.3",
        notes="2 processes, exactly_once, tables in RocksDB with changelogs, commits every 5 s",
    ),
)

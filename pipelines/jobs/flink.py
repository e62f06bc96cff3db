"""How Flink is configured for our jobs, and the environment that plans them.

Options are set per job, so that the same job behaves the same on a MiniCluster and on a cluster; a cluster keeps only
what is its own: memory, slots, high availability.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import pyflink
from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipelines.jobs.saved_state import SavedState, StateFolders
    from pipelines.settings import JobSettings

# Fixed for the life of a generation: it is part of every savepoint.
MAX_PARALLELISM = 1_024
_BUNDLE_MS = 200
_LONGEST_ROCKSDB_DIR = 80


@dataclass(frozen=True, slots=True)
class Target:
    """Where a job runs.

    Fields:
        rest_url: The cluster's REST address, or the one that the embedded MiniCluster is to take.
        embedded: Whether this process starts the MiniCluster itself.
        log_dir: Where an embedded cluster logs.
        scratch_dir: Where an embedded cluster keeps RocksDB's working files.
    """

    rest_url: str
    embedded: bool
    log_dir: Path
    scratch_dir: Path


def configuration(
    job: JobSettings,
    *,
    name: str,
    run: str,
    parallelism: int,
    jars: Sequence[Path],
    folders: StateFolders,
    restore: SavedState | None,
) -> dict[str, str]:
    """Flink's options for one run of one job, the same on every target.

    Args:
        job: Settings.
        name: What people see.
        run: The run, 32 hexadecimal digits, which becomes the job's id.
        parallelism: Of all operators.
        jars: What the job needs.
        folders: Where its state lies.
        restore: What it resumes, None for nothing.
    """
    options = {
        "pipeline.name": name,
        # Flink's own option for those who submit jobs: whoever knows the run knows where its states lie.
        "$internal.pipeline.job-id": run,
        "pipeline.jars": ";".join(jar.as_uri() for jar in jars),
        # Rows are not copied between chained operators: a quarter of the run time.
        "pipeline.object-reuse": "true",
        "pipeline.max-parallelism": str(MAX_PARALLELISM),
        "parallelism.default": str(parallelism),
        # A checkpoint flushes, and there is at least one per window; the clock flushes only where checkpoints fail to
        # come. Two clocks of the same interval would store everything twice as often.
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": f"{job.window_ms + job.checkpoint_interval_ms} ms",
        "table.exec.mini-batch.size": str(job.mini_batch_rows),
        "table.optimizer.agg-phase-strategy": "TWO_PHASE",
        # Deltas are added to counters: they must be seen exactly once by the state.
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        "execution.checkpointing.interval": f"{job.checkpoint_interval_ms} ms",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.checkpointing.num-retained": "2",
        "execution.checkpointing.tolerable-failed-checkpoints": "10",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.dir": folders.checkpoints.as_uri(),
        "execution.checkpointing.savepoint-dir": (folders.savepoints / run).as_uri(),
        "state.backend.type": job.state_backend,
        # The source's offsets lie in the state's own metadata file, where `saved_state` reads them.
        "state.storage.fs.memory-threshold": "1 mb",
        "state.backend.rocksdb.use-bloom-filter": "true",
        "state.backend.rocksdb.compression.per.level": "NO_COMPRESSION",
        # A store that is down is waited for; Kafka keeps the backlog.
        "restart-strategy.type": "exponential-delay",
        "restart-strategy.exponential-delay.initial-backoff": "1 s",
        "restart-strategy.exponential-delay.max-backoff": "15 s",
        "restart-strategy.exponential-delay.attempts-before-reset-backoff": str(job.restart_attempts),
        "python.fn-execution.arrow.batch.size": str(job.arrow_batch_rows),
        "python.fn-execution.bundle.size": str(job.arrow_batch_rows),
        "python.fn-execution.bundle.time": str(_BUNDLE_MS),
    }
    if restore is not None:
        options["execution.state-recovery.path"] = restore.path.as_uri()
        # Never CLAIM: a paused job that wakes up would still delete what it once owned. `prune` tidies up instead.
        options["execution.state-recovery.claim-mode"] = "NO_CLAIM"
    return options


def embedded_options(job: JobSettings, target: Target) -> dict[str, str]:
    """What an embedded MiniCluster needs besides."""
    port = target.rest_url.rpartition(":")[2]
    return {
        "rest.address": "127.0.0.1",
        "rest.bind-address": "127.0.0.1",
        "jobmanager.bind-host": "127.0.0.1",
        "taskmanager.bind-host": "127.0.0.1",
        "rest.port": port,
        "rest.bind-port": port,
        # The MiniCluster's own default of 128 MB starves RocksDB: four times slower.
        "taskmanager.memory.managed.size": f"{job.managed_memory_mb} mb",
        "io.tmp.dirs": str(target.scratch_dir),
        "state.backend.rocksdb.localdir": str(_rocksdb_dir(target.scratch_dir)),
    }


def _rocksdb_dir(scratch: Path) -> Path:
    """Where an embedded RocksDB works: a short path.

    It names its log after the whole path of a database, and one that is restored with another parallelism adds 169
    characters; over 255 together it cannot be opened (FLINK-31743 looks at other databases' paths only).
    """
    if len(str(scratch)) <= _LONGEST_ROCKSDB_DIR:
        return scratch
    short = Path(mkdtemp(prefix="likes-"))
    atexit.register(shutil.rmtree, short, ignore_errors=True)
    return short


def python_jars() -> list[Path]:
    """The operators that run Python functions: in the client's class path, but not in a cluster's."""
    return sorted((Path(pyflink.__file__).parent / "opt").glob("flink-python-*.jar"))


def remote_options(job: JobSettings, target: Target, python_files: Sequence[Path]) -> dict[str, str]:
    """What submitting to a cluster needs besides: our code and its libraries go along."""
    host, _, port = target.rest_url.partition("://")[2].partition(":")
    return {
        "execution.target": "remote",
        "execution.attached": "false",
        "rest.address": host,
        "rest.port": port or "8081",
        "python.executable": job.cluster_python,
        "python.files": ",".join(str(path) for path in python_files),
    }


def environment(options: Mapping[str, str], target: Target) -> TableEnvironment:
    """A streaming environment; starts the JVM if this process has none yet."""
    # Read when the JVM starts. Logs go to a file, for the terminal belongs to the user.
    os.environ["FLINK_LOG_DIR"] = str(target.log_dir)
    os.environ.setdefault("JVM_ARGS", "-Xmx2g -Xmn1200m -XX:+UseParallelGC" if target.embedded else "-Xmx512m")
    for folder in (target.log_dir, target.scratch_dir):
        folder.mkdir(parents=True, exist_ok=True)
    if target.embedded:
        # Beam logs a failing worker's whole trace; without a handler that would land on the terminal.
        logging.getLogger().addHandler(logging.FileHandler(target.log_dir / "python.log", encoding="utf-8"))
    else:
        # Left alone, PyFlink takes an environment of the Table API for a local one, and the cluster's task managers
        # would run our functions in this process, for as long as it lives.
        os.environ["_python_worker_execution_mode"] = "process"  # noqa: SIM112
    wanted = Configuration()
    for key, value in options.items():
        if value:
            wanted.set_string(key, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(wanted).build()
    return TableEnvironment.create(settings)

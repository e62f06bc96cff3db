"""This project itself among its peers: `bench.count --no-stores`, which publishes counts as they do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench import check
from bench.counting import Bench
from bench.fresh import environment_of
from bench.peers.catalogue import WARM_UP_EVENTS
from bench.peers.run import FIRST_KILL, Outcome, off_by, second_kill, share_of
from bench.processes import PeerFailed
from bench.workloads import ZIPF, Log
from deploy.flink.local_stack import Stack
from pipelines.errors import LikesError
from pipelines.settings import Settings

NAME = "likes_counter"
EVENTS = 1_500_000
CRASH_EVENTS = 1_000_000
NOTES = "2 subtasks, RocksDB, checkpoints every 5 s; read, validated, counted and published, stores left out"
_POLL_S = 0.5
_TIMEOUT_S = 900.0


def measure(bench: Bench, log: Log, runs: int) -> Iterator[Outcome]:
    """Count a log so often. In the figure: from the first quarter of the log until every event is counted and
    checkpointed.

    As a peer does, each run has a JVM of its own, which has counted as many events before as the peer that has one.
    """
    filled = bench.write(log)
    warm_up = bench.fill(ZIPF, WARM_UP_EVENTS)
    for _ in range(runs):
        bench.cool()
        for counted in bench.counted(filled, stores=False, runs=1, warm_up=warm_up):
            yield Outcome(counted.events, counted.events / counted.rate, is_exact=True, off_by=0)
    bench.cool()


def crash(bench: Bench, log: Log) -> Outcome:
    """Count a log and kill the run twice, with SIGKILL and all its processes at once, about in the middle.

    Raises:
        PeerFailed: The run ended before it could be killed, or failed after it.
    """
    stack, settings = bench.stack, bench.write(log).settings
    first = _kill_at(FIRST_KILL, stack, settings, log, epoch=1)
    second = _kill_at(second_kill(first), stack, settings, log, epoch=2)
    bench.tell(f"{NAME}: killed at {first:.0%} and {second:.0%}")
    with _counting(stack, settings, 3) as process:
        process.communicate(timeout=_TIMEOUT_S)
    if process.returncode != 0:
        raise PeerFailed(f"{NAME} ended with {process.returncode}")
    wrong = off_by(check.published(settings), log.truth)
    return Outcome(log.events, 0.0, wrong == 0, wrong, (first, second))


def _kill_at(mark: float, stack: Stack, settings: Settings, log: Log, *, epoch: int) -> float:
    """Run until so much is visible, then kill it; returns how much it was."""
    with _counting(stack, settings, epoch) as process:
        while (visible := _share(settings, log)) < mark:
            if process.poll() is not None:
                raise PeerFailed(f"{NAME} ended with {process.returncode} at {visible:.0%}")
            time.sleep(_POLL_S)
        if process.poll() is not None:
            raise PeerFailed(f"{NAME} ended with {process.returncode} before it could be killed")
    return visible


def _share(settings: Settings, log: Log) -> float:
    try:
        return share_of(check.published(settings), log.truth)
    except LikesError:
        return 0.0  # the broker is busy; the next look will tell


@contextmanager
def _counting(stack: Stack, settings: Settings, epoch: int) -> Iterator[subprocess.Popen[str]]:
    """A run; killed with all its processes at the end of the block if it has not ended."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.count", "--no-stores", "--epoch", str(epoch)],
        env=environment_of(stack, settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout:
            process.stdout.close()

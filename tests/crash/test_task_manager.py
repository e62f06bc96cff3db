"""The task manager is killed in mid-stream, again and again: nothing is lost and nothing is counted twice."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

import pytest

from connectors.cassandra import ContentStats, open_session
from deploy.flink.local_stack import Stack
from pipelines.settings import Settings
from tests.exactness import Sampler, assert_dead_letters, assert_exact, truth
from tests.jobs import JobRun, Trickle, quick_settings, run_bounded
from tests.logs import taps
from tests.support import FreshSettings, Likes

pytestmark = [pytest.mark.crash, pytest.mark.integration, pytest.mark.slow]

SEED = 7
PER_SECOND = 800
HOT = [f"c{number}" for number in range(12)]
JOB_FAILED, KILLED = 7, -9


def sum_of_versions(settings: Settings) -> int:
    """Grows with every batch that is stored, before a checkpoint covers it."""
    with open_session(settings) as session:
        return sum(total.version for rows in ContentStats(session).read(1, HOT).values() for total in rows)


def wait_for_a_write(job: JobRun, settings: Settings, written: int) -> int:
    job.until(lambda: sum_of_versions(settings) > written, what="another write")
    return sum_of_versions(settings)


def test_kill_9_three_times_in_mid_stream(fresh_settings: FreshSettings, stack: Stack, likes: Likes) -> None:
    dice = random.Random(SEED)
    settings = quick_settings(fresh_settings)
    kills: list[tuple[Callable[[JobRun], None], int]] = [
        (JobRun.kill_task_manager, JOB_FAILED),
        (JobRun.kill_client, KILLED),
        (JobRun.kill, KILLED),
    ]
    log = taps(SEED, sys.maxsize, contents=200, users=2_000)
    with Trickle(settings, log, per_second=PER_SECOND) as trickle, Sampler(settings, HOT) as sampler:
        for kill, code in kills:
            with JobRun(stack, settings) as job:
                written = sum_of_versions(settings)
                # A random number of writes into the run, so sometimes after a checkpoint and sometimes between two.
                for _ in range(dice.randrange(2, 7)):
                    written = wait_for_a_write(job, settings, written)
                kill(job)
                assert job.wait() == code, job.said
        trickle.stop()
        run_bounded(likes, settings)
    expected = truth(settings)
    assert_exact(settings, expected)
    assert_dead_letters(settings, expected)
    assert sampler.went_back == []
    assert sampler.versions_seen > len(HOT)

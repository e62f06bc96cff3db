"""A job that was suspended wakes up after another has taken over: it changes nothing, and ends."""

from __future__ import annotations

import sys

import pytest

from connectors.cassandra import Leases, open_session
from connectors.store import lease_name
from deploy.flink.local_stack import Stack
from pipelines.settings import Settings
from tests.exactness import Sampler, assert_exact, cached, is_exact, stored, truth
from tests.jobs import JobRun, Trickle, publish, quick_settings, run_bounded
from tests.logs import taps
from tests.support import FreshSettings, Likes, wait_until

pytestmark = [pytest.mark.crash, pytest.mark.integration, pytest.mark.slow]

SEED, PER_SECOND, MORE = 33, 500, 500
HOT = [f"c{number}" for number in range(12)]
JOB_FAILED, SUPERSEDED, INTERRUPTED = 7, 8, 130
ENDS_S = 120.0


def is_free(settings: Settings) -> bool:
    with open_session(settings) as session:
        return Leases(session).read(lease_name(1)) is None


def test_a_zombie_changes_nothing(fresh_settings: FreshSettings, stack: Stack, likes: Likes) -> None:
    settings = quick_settings(fresh_settings, lease_ttl_s=4)
    log = taps(SEED, sys.maxsize, contents=100, users=2_000)
    with Sampler(settings, HOT) as sampler, JobRun(stack, settings) as zombie:
        with Trickle(settings, log, per_second=PER_SECOND):
            zombie.until(lambda: len(stored(settings)) > len(HOT), what="the first job's counts")
            zombie.pause()
        wait_until(lambda: is_free(settings), what="the end of its lease")
        with JobRun(stack, settings) as second:
            expected = truth(settings)
            second.until(lambda: is_exact(settings, expected), what="the second job's counts")
            assert_exact(settings, expected)
            rows, hashes = stored(settings), cached(settings, expected.by_content())

            zombie.resume()
            assert zombie.wait(ENDS_S) in {JOB_FAILED, SUPERSEDED}, zombie.said
            assert "error: " in zombie.said.splitlines()[-1]
            assert stored(settings) == rows
            assert cached(settings, expected.by_content()) == hashes

            publish(settings, taps(SEED + 1, MORE))
            expected = truth(settings)
            second.until(lambda: is_exact(settings, expected), what="the second job goes on")
            second.interrupt()
            assert second.wait() == INTERRUPTED, second.said
    # Whatever the zombie left behind on disk, the next run finds its way.
    publish(settings, taps(SEED + 2, MORE))
    run_bounded(likes, settings)
    assert_exact(settings, truth(settings))
    assert sampler.went_back == []

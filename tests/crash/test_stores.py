"""Services that crash under a running job: when they are back, counts become exact without anyone's help."""

from __future__ import annotations

import json
import sys

import pytest

from deploy.flink.local_stack import Stack
from tests.exactness import Sampler, assert_dead_letters, assert_exact, cached, is_exact, stored, truth
from tests.jobs import JobRun, Trickle, publish, quick_settings
from tests.logs import taps
from tests.support import FreshSettings, Likes

pytestmark = [pytest.mark.crash, pytest.mark.integration, pytest.mark.slow]

SEED, PER_SECOND = 21, 500
HOT = [f"c{number}" for number in range(12)]
OLD = b'{"content_id": "old", "user_id": "u1", "action": "LIKE"}'
# A restart of the service, the job's own failover and its backlog, on a busy machine.
RECOVERY_S = 200.0


@pytest.mark.parametrize("service", ["cassandra", "kafka"])
def test_kill_9_and_restart(fresh_settings: FreshSettings, stack: Stack, service: str) -> None:
    settings = quick_settings(fresh_settings)
    log = taps(SEED, sys.maxsize, contents=200, users=2_000)
    with JobRun(stack, settings) as job, Sampler(settings, HOT) as sampler:
        with Trickle(settings, log, per_second=PER_SECOND):
            job.until(lambda: len(stored(settings)) > len(HOT), what="counts before the crash")
            stack.services()[service].kill()
            stack.services()[service].start()
            seen = sampler.versions_seen
            job.until(lambda: sampler.versions_seen > seen + len(HOT), RECOVERY_S, what="counts after the restart")
        expected = truth(settings)
        job.until(lambda: is_exact(settings, expected), RECOVERY_S, what="exact counts")
        job.interrupt()
        job.wait()
    assert_exact(settings, expected)
    assert_dead_letters(settings, expected)
    assert sampler.went_back == []


def test_redis_restarts_empty(fresh_settings: FreshSettings, stack: Stack, likes: Likes) -> None:
    settings = quick_settings(fresh_settings)
    log = taps(SEED, sys.maxsize, contents=200, users=2_000)
    publish(settings, [OLD])
    with JobRun(stack, settings) as job, Sampler(settings, HOT) as sampler:
        with Trickle(settings, log, per_second=PER_SECOND):
            job.until(
                lambda: cached(settings, ["old", "c0"]).values() and all(cached(settings, ["old", "c0"]).values())
            )
            stack.services()["redis"].kill()
            stack.services()["redis"].start()
            assert cached(settings, ["old"]) == {"old": None}, "what is lost is a miss, not a zero"
            seen = sampler.versions_seen
            job.until(lambda: sampler.versions_seen > seen + len(HOT), RECOVERY_S, what="counts after the restart")
        expected = truth(settings)
        job.until(lambda: is_exact(settings, expected), RECOVERY_S, what="exact counts")
        job.interrupt()
        job.wait()
    assert_exact(settings, expected, misses=True)
    assert cached(settings, ["old"]) == {"old": None}
    rebuilt = likes("cache", "rebuild", "--json", settings=settings)
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert json.loads(rebuilt.stdout)["contents"] == len(expected.by_content())
    assert_exact(settings, expected)
    assert sampler.went_back == []

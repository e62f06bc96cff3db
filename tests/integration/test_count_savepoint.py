"""Savepoint, stop, resume: with another parallelism, and from a place that nothing deletes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.flink.local_stack import Stack
from tests.exactness import assert_dead_letters, assert_exact, is_exact, truth
from tests.jobs import JobRun, publish, quick_settings, run_bounded
from tests.logs import hostile, taps
from tests.support import FreshSettings, Likes

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SEED, EVENTS = 4, 3_000


def test_savepoint_stop_and_resume_with_other_parallelisms(
    fresh_settings: FreshSettings, stack: Stack, likes: Likes
) -> None:
    settings = quick_settings(fresh_settings)
    publish(settings, hostile(SEED, EVENTS))
    first = truth(settings)
    with JobRun(stack, settings, "--parallelism", "1") as job:
        job.until(lambda: is_exact(settings, first), what="the first events")
        saved = likes("job", "savepoint", "--json", settings=settings)
        assert saved.returncode == 0, saved.stderr
        savepoint = Path(json.loads(saved.stdout)["savepoint"])
        assert (savepoint / "_metadata").is_file()

        publish(settings, taps(SEED + 1, EVENTS))
        second = truth(settings)
        job.until(lambda: is_exact(settings, second), what="events after the savepoint")
        stopped = likes("job", "stop", "--savepoint", "--json", settings=settings)
        assert stopped.returncode == 0, stopped.stderr
        at_the_end = Path(json.loads(stopped.stdout)["savepoint"])
        assert (at_the_end / "_metadata").is_file()
        assert job.wait() == 0, job.said
    assert_exact(settings, second)

    publish(settings, taps(SEED + 2, EVENTS))
    with JobRun(stack, settings, "--bounded", "--parallelism", "3") as resumed:
        assert resumed.wait() == 0, resumed.said
        assert str(at_the_end) in resumed.said, "it resumes from where the first stopped"
    expected = truth(settings)
    assert_exact(settings, expected)
    assert_dead_letters(settings, expected)
    assert (savepoint / "_metadata").is_file(), "the user's own savepoint stays"

    run_bounded(likes, settings, "--parallelism", "1")
    assert_exact(settings, expected)

"""The same log counted again into the same generation, in another order: the newest writing wins and is right."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from pipelines.domain.counting import Reactions
from pipelines.settings import Settings
from tests.exactness import Sampler, assert_dead_letters, assert_exact, likes_of, stored, truth
from tests.jobs import publish, quick_settings, run_bounded
from tests.logs import hostile, taps
from tests.support import FreshSettings, Likes

pytestmark = [pytest.mark.crash, pytest.mark.integration, pytest.mark.slow]

SEED, EVENTS = 55, 3_000
HOT = [f"c{number}" for number in range(12)]


def lose_state(settings: Settings) -> None:
    """All checkpoints are gone, as after a crash before the first or with a lost disk."""
    shutil.rmtree(Path(settings.job.state_dir) / settings.kafka.events_topic)


def test_replays_that_interleave_differently_end_right(fresh_settings: FreshSettings, likes: Likes) -> None:
    settings = quick_settings(fresh_settings)
    publish(settings, hostile(SEED, EVENTS))
    with Sampler(settings, HOT) as sampler:
        run_bounded(likes, settings, "--parallelism", "1")
        assert_exact(settings, truth(settings))
        lose_state(settings)
        run_bounded(likes, settings, "--parallelism", "3")
        assert_exact(settings, truth(settings))
        lose_state(settings)
        publish(settings, taps(SEED + 1, EVENTS))
        # Bundles of ten rows: taps that were merged before are told apart now.
        smaller = settings.model_copy(update={"job": settings.job.model_copy(update={"mini_batch_rows": 10})})
        run_bounded(likes, smaller)
    expected = truth(settings)
    assert_exact(settings, expected)
    assert_dead_letters(settings, expected)
    assert sampler.went_back == []


def test_a_visit_that_a_replay_never_sees_is_taken_back(fresh_settings: FreshSettings, likes: Likes) -> None:
    settings = quick_settings(fresh_settings)
    now_ms = time.time_ns() // 1_000_000

    def tap(region: str, age_ms: int) -> bytes:
        event = {"video_id": "v1", "user_id": "u1", "action": "LIKE", "region": region, "event_time": now_ms - age_ms}
        return json.dumps(event).encode()

    publish(settings, [tap("us", 3_000), tap("eu", 2_000)])
    run_bounded(likes, settings)
    assert {key: likes_of(total) for key, total in stored(settings).items()} == {
        ("v1", "us"): Reactions(0),
        ("v1", "eu"): Reactions(1),
    }
    lose_state(settings)
    # The three are one bundle of the replay: its register goes from nothing to us, and eu is never in it.
    publish(settings, [tap("us", 1_000)])
    run_bounded(likes, settings)
    assert {key: likes_of(total) for key, total in stored(settings).items()} == {
        ("v1", "us"): Reactions(1),
        ("v1", "eu"): Reactions(0),
    }
    assert_exact(settings, truth(settings))

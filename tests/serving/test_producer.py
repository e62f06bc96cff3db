"""Acknowledged by a real broker, or not at all."""

from __future__ import annotations

import asyncio
import time

import pytest
from confluent_kafka import KafkaError

from connectors.kafka import end_offsets, ensure_topics
from pipelines.settings import Settings
from serving.dependency import Away, Dependency
from serving.producer import EventProducer
from tests.support import FreshSettings

pytestmark = pytest.mark.integration


def test_a_producer_that_has_failed_for_good_is_replaced(fresh_settings: FreshSettings) -> None:
    settings = fresh_settings()
    ensure_topics(settings, 1)

    async def run() -> None:
        producer = EventProducer(settings, Dependency("kafka"))
        try:
            await producer.send("v1", b"{}", None)
            first = producer._producer
            producer._failed(KafkaError(KafkaError._FATAL))
            while producer._producer is first:  # noqa: ASYNC110 - a thread replaces it
                await asyncio.sleep(0.05)
            await producer.send("v1", b"{}", None)
        finally:
            await asyncio.to_thread(producer.close)

    asyncio.run(run())
    assert sum(end_offsets(settings, settings.kafka.events_topic).values()) == 2


def test_nobody_waits_for_a_broker_that_is_not_there(fresh_settings: FreshSettings) -> None:
    flags: dict[str, dict[str, object]] = {
        "kafka": {"bootstrap": "127.0.0.1:9"},
        "serve": {"kafka_timeout_ms": 500, "kafka_queue": 10},
    }
    settings: Settings = fresh_settings(**flags)

    async def run() -> list[BaseException | object]:
        producer = EventProducer(settings, Dependency("kafka", pause_s=0.0))
        try:
            sends = (producer.send("v1", b"{}", None) for _ in range(50))
            return await asyncio.gather(*sends, return_exceptions=True)
        finally:
            await asyncio.to_thread(producer.close)

    began = time.monotonic()
    outcomes = asyncio.run(run())
    assert all(isinstance(outcome, Away) for outcome in outcomes)
    assert sum("too many events" in str(outcome) for outcome in outcomes) == 40
    assert time.monotonic() - began < 30

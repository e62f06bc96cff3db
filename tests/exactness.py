"""Comparing both stores with an exact recount of the log, and watching them while they change."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Self

from connectors.cassandra import CassandraSession, ContentStats, open_session
from connectors.kafka import Record as KafkaRecord
from connectors.kafka import beginning_offsets, end_offsets, read_topic
from connectors.redis import RedisCounts
from pipelines.domain.counter import RegionTotal
from pipelines.domain.counting import Counted, Reactions, Record, count
from pipelines.domain.dead_letters import original_bytes
from pipelines.domain.events import Rules
from pipelines.errors import ServiceUnavailable
from pipelines.settings import Settings

Identity = tuple[str, int, int]


def rules_of(settings: Settings) -> Rules:
    """The domain's rules, as the settings have them."""
    return Rules(**settings.events.model_dump())


def whole_topic(settings: Settings, topic: str) -> list[KafkaRecord]:
    """Everything that a topic holds, with the broker's timestamps."""
    return list(read_topic(settings, topic, beginning_offsets(settings, topic), end_offsets(settings, topic)))


def truth(settings: Settings) -> Counted:
    """The log as the domain counts it."""
    records = whole_topic(settings, settings.kafka.events_topic)
    plain = (Record(r.topic, r.partition, r.offset, r.timestamp_ms, r.value) for r in records)
    return count(plain, rules_of(settings))


def stored(settings: Settings, generation: int = 1) -> dict[tuple[str, str], RegionTotal]:
    """All that Cassandra has of a generation, by content and region."""
    with open_session(settings) as session:
        return {(total.content_id, total.region): total for total in ContentStats(session).scan(generation)}


def cached(
    settings: Settings, content_ids: Iterable[str], generation: int = 1
) -> dict[str, dict[str, RegionTotal] | None]:
    """What Redis has: totals by content and region, None for a miss."""
    counts = RedisCounts(settings)
    try:
        found = counts.read(generation, sorted(content_ids))
    finally:
        counts.close()
    return {
        content_id: None if totals is None else {total.region: total for total in totals}
        for content_id, totals in found.items()
    }


def likes_of(total: RegionTotal) -> Reactions:
    """What readers see of a total."""
    return Reactions(total.pn.likes, total.pn.dislikes)


def assert_exact(settings: Settings, expected: Counted, generation: int = 1, *, misses: bool = False) -> None:
    """Both stores hold exactly what the log comes to, for every content and region.

    Args:
        settings: Where.
        expected: From `truth`.
        generation: Which counting.
        misses: Whether Redis may lack contents; what it has must be right all the same.
    """
    rows = stored(settings, generation)
    found = {key: likes_of(total) for key, total in rows.items()}
    # A region that its users have left keeps a row of zeros.
    left = {key for key in found.keys() - expected.totals.keys() if found[key] == Reactions()}
    assert {key: value for key, value in found.items() if key not in left} == expected.totals
    by_content: defaultdict[str, dict[str, RegionTotal]] = defaultdict(dict)
    for (content_id, region), total in rows.items():
        by_content[content_id][region] = total
    hashes = cached(settings, by_content, generation)
    wrong = {
        content_id: (hashes[content_id], totals)
        for content_id, totals in by_content.items()
        if hashes[content_id] != totals and not (misses and hashes[content_id] is None)
    }
    assert not wrong, f"{len(wrong)} of {len(by_content)} contents differ in Redis, such as {next(iter(wrong.items()))}"


def is_exact(settings: Settings, expected: Counted, generation: int = 1) -> bool:
    """Whether Cassandra has come to what the log comes to."""
    rows = stored(settings, generation)
    return all(key in rows and likes_of(rows[key]) == value for key, value in expected.totals.items())


def dead_letters(settings: Settings) -> dict[Identity, dict[str, Any]]:
    """The distinct messages of the dead letters' topic, by the origin that they name."""
    letters: dict[Identity, dict[str, Any]] = {}
    for record in whole_topic(settings, settings.kafka.dead_letters_topic):
        letter = json.loads(record.value or b"")
        identity = (letter["topic"], letter["partition"], letter["offset"])
        assert letters.setdefault(identity, letter) == letter, "a repeated dead letter says the same"
    return letters


def assert_dead_letters(settings: Settings, expected: Counted) -> None:
    """Exactly one distinct dead letter for each bad record, with its reason, origin and original bytes."""
    found = dead_letters(settings)
    wanted = {letter.identity: letter.to_message() for letter in expected.dead_letters}
    assert not (missing := wanted.keys() - found.keys()), [str(wanted[identity])[:300] for identity in missing]
    assert not (extra := found.keys() - wanted.keys()), [str(found[identity])[:300] for identity in extra]
    # Not the dictionaries as wholes: showing how megabytes differ takes minutes.
    different = [identity for identity in wanted if found[identity] != wanted[identity]]
    assert not different, [(str(found[identity])[:300], str(wanted[identity])[:300]) for identity in different[:5]]
    for letter in expected.dead_letters:
        message = found[letter.identity]
        assert original_bytes(message["value"], message["value_base64"]) == letter.value


class Sampler:
    """Reads some contents from both stores for as long as the block lasts, and notes every version that goes back.

    A store that is away is asked again; a miss in Redis says nothing, and what is loaded after it must not be older.
    """

    def __init__(self, settings: Settings, content_ids: Sequence[str], generation: int = 1) -> None:
        self._settings = settings
        self._ids = list(content_ids)
        self._generation = generation
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._latest: dict[tuple[str, str, str], int] = {}
        self._error: BaseException | None = None
        self.went_back: list[str] = []
        self.samples = 0
        self.versions_seen = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        # Unreachable stores are the tests' subject: give up soon and ask again.
        impatient = self._settings.model_copy(update={"retry": self._settings.retry.model_copy(update={"attempts": 1})})
        counts = RedisCounts(impatient)
        try:
            while not self._stop.is_set():
                with suppress(ServiceUnavailable), open_session(impatient) as session:
                    self._sample(session, counts)
                self._stop.wait(0.2)
        except BaseException as error:  # noqa: BLE001 - handed to the test's thread
            self._error = error
        finally:
            counts.close()

    def _sample(self, session: CassandraSession, counts: RedisCounts) -> None:
        stats = ContentStats(session)
        while not self._stop.wait(0.05):
            with suppress(ServiceUnavailable):
                for content_id, totals in counts.read(self._generation, self._ids).items():
                    self._note("Redis", content_id, totals or [])
            for content_id, totals in stats.read(self._generation, self._ids).items():
                self._note("Cassandra", content_id, totals)
            self.samples += 1

    def _note(self, store: str, content_id: str, totals: Sequence[RegionTotal]) -> None:
        for total in totals:
            key = (store, content_id, total.region)
            before = self._latest.get(key, 0)
            if total.version < before:
                self.went_back.append(f"{store}: {content_id} in {total.region} from {before} to {total.version}")
            elif total.version > before:
                self.versions_seen += 1
                self._latest[key] = total.version

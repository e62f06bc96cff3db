"""Before a job starts: which generation it counts, from where, and whether it may."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from connectors import kafka
from connectors.cassandra import Fences, Generations, Pointer
from connectors.redis import RedisCounts
from pipelines.errors import Refused
from pipelines.jobs.offsets import Position, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from connectors.cassandra import CassandraSession
    from pipelines.jobs.saved_state import SavedState
    from pipelines.settings import EventSettings, Settings

EARLIEST = Position("earliest")


@dataclass(frozen=True, slots=True)
class Start:
    """Where a run begins and ends.

    Fields:
        restore: State to resume from; it overrides `offsets`.
        offsets: First offset by partition without state, None for the beginning of every partition.
        end: Offset by partition where the source itself ends, None for a source that does not end.
    """

    restore: SavedState | None
    offsets: Mapping[int, int] | None
    end: Mapping[int, int] | None


@dataclass(frozen=True, slots=True)
class Counting:
    """A generation as a job needs to know it.

    Fields:
        generation: Its number.
        identity: Unique to its creation, so that saved state of another Cassandra is never taken for its own.
        rules: What it counts by, as recorded.
        is_new: Whether this start created it.
    """

    generation: int
    identity: str
    rules: str
    is_new: bool


def live_counting(generations: Generations, pointer: Pointer) -> Counting | None:
    """The generation that readers see, None before the first. Raises ServiceUnavailable."""
    live = pointer.read()
    if live is None:
        return None
    rules = next(known.rules for known in generations.all() if known.generation == live)
    return Counting(live, identity_of(rules), rules, is_new=False)


def identity_of(rules: str) -> str:
    """What is unique to the creation of the generation with these rules."""
    return str(json.loads(rules)["id"])


def keyspace_identity(generations: Generations) -> str:
    """What names the state of a pipeline that has no generations: the identity of the first one, which never changes.

    Raises ServiceUnavailable.
    """
    return identity_of(generations.all()[0].rules)


def choose_generation(settings: Settings, session: CassandraSession, *, new: bool, now_ms: int) -> Counting:
    """The generation to count.

    The first generation ever is created, and made live, by whoever comes first. A new one is live at once where nothing
    has ever been counted into the live one.

    Raises:
        Refused: The live generation was counted by other rules.
        ServiceUnavailable: Cassandra or Redis does not answer.
    """
    generations, pointer = Generations(session), Pointer(session)
    live = live_counting(generations, pointer)
    if live is not None and not new:
        _check_rules(live, settings.events)
        return _record_regions(generations, live, settings.events)
    identity = uuid.uuid4().hex[:12]
    rules = {"id": identity, **settings.events.model_dump(include={"regions", "home_region"})}
    text = json.dumps(rules)
    created = generations.create_next(text, now_ms)
    _clear_cache(settings, created)
    if live is None and not pointer.compare_and_set(None, created):
        return choose_generation(settings, session, new=new, now_ms=now_ms)
    if live is not None and not Fences(session).read(live.generation).saver:
        pointer.compare_and_set(live.generation, created)
    return Counting(created, identity, text, is_new=True)


def _clear_cache(settings: Settings, generation: int) -> None:
    """Forget what Redis may hold of another keyspace's generation of the same number: its versions may be larger."""
    counts = RedisCounts(settings)
    try:
        counts.clear(generation)
    finally:
        counts.close()


def check_topic(settings: Settings, generations: Generations, counting: Counting) -> None:
    """Make sure that a generation goes on counting the topic that it began with, by its name and Kafka's own id.

    Raises:
        Refused: It is another topic, or one of the same name that was made anew.
        ServiceUnavailable: Kafka or Cassandra does not answer.
    """
    topic, recorded = settings.kafka.events_topic, json.loads(counting.rules)
    if "topic" not in recorded:
        _record(generations, counting, topic=topic, topic_id=kafka.topic_id(settings, topic))
    elif recorded["topic"] != topic:
        raise Refused(
            f"generation {counting.generation} counts the topic {recorded['topic']}, not {topic}",
            "set kafka.events_topic back, or use a keyspace of its own (cassandra.keyspace)",
        )
    elif recorded["topic_id"] != kafka.topic_id(settings, topic):
        raise Refused(
            f"topic {topic} was made anew since generation {counting.generation} began, and what it held is gone",
            "count what it holds now with --generation new",
        )


def _record_regions(generations: Generations, live: Counting, rules: EventSettings) -> Counting:
    """Write down the regions that were appended, before a register holds one."""
    if len(rules.regions) <= len(json.loads(live.rules)["regions"]):
        return live
    return _record(generations, live, regions=list(rules.regions))


def _record(generations: Generations, counting: Counting, **more: object) -> Counting:
    rules = json.dumps({**json.loads(counting.rules), **more})
    if not generations.replace_rules(counting.generation, counting.rules, rules):
        raise Refused("another start changed what the generation counts by at the same time", "start again")
    return replace(counting, rules=rules)


def _check_rules(live: Counting, rules: EventSettings) -> None:
    """Refuse settings under which the stored registers would mean something else."""
    recorded = json.loads(live.rules)
    regions = recorded.get("regions", [])
    if isinstance(regions, list) and list(rules.regions[: len(regions)]) != regions:
        raise Refused(
            f"events.regions does not begin with {','.join(regions)}, by which generation {live.generation} is counted",
            "only append to the list, or count a new generation (--generation new)",
        )
    home = recorded.get("home_region", rules.home_region)
    if home != rules.home_region:
        raise Refused(
            f"events.home_region is {rules.home_region}, but generation {live.generation} is counted with {home}",
            "set it back, or count a new generation (--generation new)",
        )


def decide_start(
    settings: Settings,
    state: SavedState | None,
    *,
    start: Position,
    end: Position | None,
    new_generation: bool,
    committed: Callable[[], Mapping[int, int]],
) -> Start:
    """Where a run may begin.

    With state it resumes there. Without, it may only start from offset 0 of every partition or into a new generation:
    anything else would store totals that miss what lies before.

    Args:
        settings: Of the topic.
        state: The newest saved state, None if there is none.
        start: Where the user wants to start.
        end: Where the source is to end, None for never.
        new_generation: Whether nobody reads this generation yet.
        committed: Asks for the offsets that `committed` means: the live generation's progress.

    Raises:
        Refused: The combination would make counts wrong; the message says why.
        ServiceUnavailable: Kafka does not answer.
        SettingError: The topic does not exist.
    """
    if state is not None:
        if start != EARLIEST:
            raise Refused(
                f"this generation resumes from {state.path.name}, which holds its own offsets, so --from {start}"
                " has no meaning",
                "leave --from out, or count a new generation (--generation new)",
            )
        if end is not None:
            raise Refused(
                f"--to {end} ends the job's source, which would end its saved state with it",
                "use --bounded alone, which stops at the present end, or --generation new",
            )
        return Start(state, None, None)
    group_end = None if end is None else resolve(settings, end, committed)
    if start == EARLIEST:
        _check_history(settings, new_generation=new_generation)
        return Start(None, None, group_end)
    offsets = resolve(settings, start, committed)
    if not new_generation and any(offsets.values()):
        raise Refused(
            f"this generation has no saved state, so --from {start} would leave out what lies before",
            "start from the beginning (leave --from out), or count a new generation (--generation new)",
        )
    return Start(None, offsets, group_end)


def check_log(settings: Settings, counted: Mapping[int, int]) -> None:
    """Make sure that the log still holds what comes after the state that a run resumes.

    A source whose offset is gone would end the job as soon as it runs, without naming what is missing.

    Args:
        settings: Of the topic.
        counted: Offset by partition up to which everything is counted in that state.

    Raises:
        Refused: Records that were never counted have been deleted, or the topic is another one.
        ServiceUnavailable: Kafka does not answer.
    """
    topic = settings.kafka.events_topic
    first, ends = kafka.beginning_offsets(settings, topic), kafka.end_offsets(settings, topic)
    for partition, offset in sorted(counted.items()):
        if offset < first.get(partition, 0):
            raise Refused(
                f"{topic} has lost offsets {offset} to {first[partition] - 1} of partition {partition}, never counted",
                "keep the log longer (retention.ms=-1), and accept the loss with --generation new",
            )
        if offset > ends.get(partition, 0):
            raise Refused(
                f"{offset} records of partition {partition} are counted, but {topic} ends at {ends.get(partition, 0)}:"
                " it is not the topic that was counted",
                "count it with --generation new",
            )


def _check_history(settings: Settings, *, new_generation: bool) -> None:
    first = kafka.beginning_offsets(settings, settings.kafka.events_topic)
    lost = {partition: offset for partition, offset in first.items() if offset}
    if lost and not new_generation:
        partition, offset = min(lost.items())
        raise Refused(
            f"this generation has no saved state and {settings.kafka.events_topic} has lost offsets 0 to {offset - 1}"
            f" of partition {partition}, so counts would miss them",
            "restore its checkpoints (job.state_dir), or accept the loss with --generation new",
        )

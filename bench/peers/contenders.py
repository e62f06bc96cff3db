"""Who is compared, and the row that each comes to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaException
from redis.exceptions import RedisError

from bench.counting import Bench
from bench.peers import own, run
from bench.peers.catalogue import PEERS, Peer
from bench.peers.run import Outcome
from bench.processes import PeerFailed
from bench.report import Row
from bench.workloads import ZIPF, Log
from pipelines.errors import LikesError

# What may befall a peer, or this project's own run, without ending the others.
_TROUBLE = (PeerFailed, LikesError, KafkaException, RedisError, TimeoutError, RuntimeError, AssertionError)
NAMES = (own.NAME, *(peer.name for peer in PEERS))


@dataclass(frozen=True, slots=True)
class Contender:
    """A peer or this project, ready to be run on one stack.

    Fields:
        name: In the report.
        events: In a measured run.
        crash_events: In a crash run.
        stores: Whether its counts end in a store.
        notes: For the report.
        measure: Counts a log so often.
        crash: Counts a log and is killed meanwhile.
    """

    name: str
    events: int
    crash_events: int
    stores: bool
    notes: str
    measure: Callable[[Log, int], Iterable[Outcome]]
    crash: Callable[[Log], Outcome]


def compare(
    bench: Bench, runs: int, *, names: Sequence[str] = NAMES, events: int | None = None, kill: bool = True
) -> Iterator[Row]:
    """One row for each contender.

    Args:
        bench: Where.
        runs: Of each.
        names: Whom to run.
        events: In each log; None for what suits each.
        kill: Whether to run each once with kills as well.
    """
    for contender in _contenders(bench):
        if contender.name in names:
            yield _row(contender, bench, runs=runs, events=events, kill=kill)


def _contenders(bench: Bench) -> list[Contender]:
    stack, tell = bench.stack, bench.tell

    def of(peer: Peer) -> Contender:
        return Contender(
            peer.name,
            peer.events,
            peer.crash_events,
            peer.output == "redis",
            f"{peer.versions}: {peer.notes}",
            lambda log, runs: (run.measure(stack, peer, log, tell) for _ in range(runs)),
            lambda log: run.crash(stack, peer, log, tell),
        )

    ours = Contender(
        own.NAME,
        own.EVENTS,
        own.CRASH_EVENTS,
        stores=False,
        notes=own.NOTES,
        measure=lambda log, runs: own.measure(bench, log, runs),
        crash=lambda log: own.crash(bench, log),
    )
    return [ours, *map(of, PEERS)]


def _row(contender: Contender, bench: Bench, *, runs: int, events: int | None, kill: bool) -> Row:
    """Run a contender; what fails is said in the row's notes."""
    outcomes: list[Outcome] = []
    trouble: list[str] = []

    def attempt(step: Callable[[], None]) -> None:
        try:
            step()
        except _TROUBLE as error:
            bench.tell(f"{contender.name}: {error}")
            trouble.append(str(error) or type(error).__name__)

    def measure() -> None:
        log = Log(ZIPF, events or contender.events, _now_ms())
        for number, outcome in enumerate(contender.measure(log, runs), 1):
            outcomes.append(outcome)
            said = f"{outcome.rate:,.0f} events/s" if outcome.is_exact else f"wrong by {outcome.off_by:,}"
            bench.tell(f"{contender.name}: run {number} of {runs}: {said}")

    survived: list[Outcome] = []

    def crash() -> None:
        survived.append(contender.crash(Log(ZIPF, events or contender.crash_events, _now_ms())))
        said = "exact" if survived[0].is_exact else f"wrong by {survived[0].off_by:,}"
        bench.tell(f"{contender.name}: after two kills: {said}")
        trouble.append(f"killed at {', '.join(f'{share:.0%}' for share in survived[0].killed_at)} of the counts")
        if survived[0].restarts:
            trouble.append(f"ended by itself and was started again {survived[0].restarts} times")

    attempt(measure)
    if kill:
        attempt(crash)
    return Row(
        "peers",
        contender.name,
        ZIPF.name,
        tuple(outcome.rate for outcome in outcomes if outcome.is_exact),
        durable=True,
        stores=contender.stores,
        exact=runs > 0 and len(outcomes) == runs and all(outcome.is_exact for outcome in outcomes),
        survives_kill=bool(survived) and survived[0].is_exact if kill else None,
        off_by=survived[0].off_by if survived else None,
        notes="; ".join([contender.notes, *trouble]),
        more={"events": events or contender.events},
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

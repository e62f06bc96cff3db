"""`python -m bench.peers`: how fast this project and its peers count the same log, and what two kills do to them.

    .venv/bin/python -m bench.peers --only quix,bytewax --runs 1

Starts a stack of its own in a temporary folder and removes it. What peers need is installed below the user's cache
folder at the first run, about 1.7 GB for all of them. Progress goes to stderr.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import machine
from bench.peers import own, run
from bench.peers.catalogue import PEERS, Peer
from bench.peers.log import Log, make_log
from bench.peers.report import Row, table
from bench.peers.run import Outcome
from bench.processes import PeerFailed
from bench.quick import ZIPF
from deploy.flink.local_stack import Stack
from pipelines.errors import LikesError

_NAMES = (own.NAME, *(peer.name for peer in PEERS))


@dataclass(frozen=True, slots=True)
class Contender:
    """A peer or this project, ready to be run on one stack.

    Fields:
        name: In the report.
        events: In a measured run.
        crash_events: In a crash run.
        stores: Whether its counts end in a store.
        notes: For the report.
        measure: Counts a log.
        crash: Counts a log and is killed meanwhile.
    """

    name: str
    events: int
    crash_events: int
    stores: bool
    notes: str
    measure: Callable[[Log], Outcome]
    crash: Callable[[Log], Outcome]


def contenders(stack: Stack, names: list[str]) -> list[Contender]:
    """Those of these names, in the catalogue's order."""

    def of(peer: Peer) -> Contender:
        return Contender(
            peer.name,
            peer.events,
            peer.crash_events,
            peer.output == "redis",
            f"{peer.versions}: {peer.notes}",
            lambda log: run.measure(stack, peer, log, _tell),
            lambda log: run.crash(stack, peer, log, _tell),
        )

    ours = Contender(
        own.NAME,
        own.EVENTS,
        own.EVENTS,
        stores=False,
        notes=own.NOTES,
        measure=lambda log: own.measure(stack, log, _tell),
        crash=lambda log: own.crash(stack, log, _tell),
    )
    return [contender for contender in (ours, *map(of, PEERS)) if contender.name in names]


def row_of(contender: Contender, *, events: int | None, runs: int, kill: bool) -> Row:
    """Run a contender as often as asked for, and once with kills; what fails is said in the row's notes."""
    outcomes: list[Outcome] = []
    trouble: list[str] = []
    survived: Outcome | None = None

    def attempt(what: Callable[[Log], Outcome], amount: int) -> Outcome | None:
        log = make_log(ZIPF, events or amount, time.time_ns() // 1_000_000)
        try:
            return what(log)
        except (PeerFailed, LikesError) as error:
            _tell(f"{contender.name}: {error}")
            trouble.append(str(error))
            return None

    for number in range(runs):
        outcome = attempt(contender.measure, contender.events)
        if outcome is None:
            break
        outcomes.append(outcome)
        said = f"{outcome.rate:,.0f} events/s" if outcome.is_exact else f"wrong by {outcome.off_by:,}"
        _tell(f"{contender.name}: run {number + 1} of {runs}: {said}")
    if kill:
        survived = attempt(contender.crash, contender.crash_events)
        if survived:
            said = "exact" if survived.is_exact else f"wrong by {survived.off_by:,}"
            _tell(f"{contender.name}: after two kills: {said}")
            trouble.append(f"killed at {', '.join(f'{share:.0%}' for share in survived.killed_at)} of the counts")
        if survived and survived.restarts:
            trouble.append(f"ended by itself and was started again {survived.restarts} times")
    return Row(
        name=contender.name,
        workload=ZIPF.name,
        rates=tuple(outcome.rate for outcome in outcomes if outcome.is_exact),
        durable=True,
        stores=contender.stores,
        exact=len(outcomes) == runs and all(outcome.is_exact for outcome in outcomes),
        survives_kill=(survived is not None and survived.is_exact) if kill else None,
        off_by=survived.off_by if survived else None,
        notes="; ".join([contender.notes, *trouble]),
    )


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _names(text: str) -> list[str]:
    names = text.split(",")
    if unknown := sorted(set(names) - set(_NAMES)):
        raise argparse.ArgumentTypeError(f"{unknown[0]} is none of {', '.join(_NAMES)}")
    return names


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=_names, default=list(_NAMES), help=f"of {', '.join(_NAMES)}, with commas")
    parser.add_argument("--events", type=int, help="in each log; default: by peer, for runs of 10 to 30 s")
    parser.add_argument("--runs", type=int, default=3, help="of each")
    parser.add_argument("--no-kill", action="store_true", help="leave out the run with kills")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell started us in the background
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that everything is taken down
    _tell(json.dumps(machine.describe()))
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="likes-peers-") as folder:
        stack = Stack(Path(folder) / "stack")
        try:
            stack.up(_tell)
            for contender in contenders(stack, arguments.only):
                rows.append(row_of(contender, events=arguments.events, runs=arguments.runs, kill=not arguments.no_kill))
                if arguments.json:  # after each, so that an interrupted bench leaves what it has
                    text = json.dumps([row.as_json() for row in rows], indent=1)
                    arguments.json.write_text(text + "\n", encoding="utf-8")
        finally:
            stack.down(purge=True)
    print(table(rows))


if __name__ == "__main__":
    main()

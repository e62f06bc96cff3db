from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
import redis
from cassandra import OperationTimedOut

from bench.difference import Counts
from bench.ladder.bloom import size_for
from bench.ladder.log import LOADS, Load, Parts, partition_of
from bench.ladder.programs import bloom_incr, redis_incr, redis_sharded_incr, set_incr
from bench.ladder.programs.cassandra_lwt import Rows
from bench.ladder.programs.consumer import Taps
from bench.ladder.programs.write_behind import Buffer
from bench.ladder.reference import Filtered, Increments, Members, Reference
from bench.ladder.taps import Tap, tap_of

NOW_MS = 1_767_229_200_000
PARTITIONS = 4
SMALL = size_for(100, bloom_incr.ERROR)  # so that it is overfull


class Server:
    """What the designs use of Redis, with the answers of Redis, behind the real client's pipelines."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.commands: Counter[str] = Counter()
        self._sets: defaultdict[str, set[str]] = defaultdict(set)
        self._bits: defaultdict[str, set[int]] = defaultdict(set)

    def pipeline(self, *, transaction: bool) -> redis.client.Pipeline:
        assert not transaction
        return _Pipeline(self)

    def run(self, name: str, key: str, *rest: Any) -> Any:  # noqa: ANN401  as many types as commands
        self.commands[name] += 1
        if name in ("INCRBY", "DECRBY"):
            self.counters[key] += int(rest[0]) * (1 if name == "INCRBY" else -1)
            return self.counters[key]
        if name in ("SADD", "SREM"):
            had = rest[0] in self._sets[key]
            (self._sets[key].add if name == "SADD" else self._sets[key].discard)(rest[0])
            return int(had == (name == "SREM"))
        assert name in ("BITFIELD", "BITFIELD_RO")
        return list(self._bitfield(self._bits[key], iter(rest), readonly=name == "BITFIELD_RO"))

    def counts(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for key, value in self.counters.items():
            kind, content_id = key.split(":")[:2]
            likes, dislikes = found.get(content_id, (0, 0))
            found[content_id] = (likes + value, dislikes) if kind == "likes" else (likes, dislikes + value)
        return found

    @staticmethod
    def _bitfield(bits: set[int], words: Iterator[Any], *, readonly: bool) -> Iterator[int]:
        for verb in words:
            assert verb == "GET" or (verb == "SET" and not readonly)
            assert next(words) == "u1"
            place = next(words)
            yield int(place in bits)
            if verb == "SET":
                assert next(words) == 1
                bits.add(place)


class _Pipeline(redis.client.Pipeline):
    def __init__(self, server: Server) -> None:
        super().__init__(redis.ConnectionPool(), {}, transaction=False, shard_hint=None)  # type: ignore[no-untyped-call]
        self._server = server

    def execute(self, raise_on_error: bool = True) -> list[Any]:  # noqa: FBT001, FBT002  as the real one
        assert raise_on_error
        commands, self.command_stack = self.command_stack, []
        return [self._server.run(*arguments) for arguments, _ in commands]


def taps_of(load: Load) -> Iterator[Tap]:
    for line in Parts(load, [3_000], NOW_MS).lines(0):
        key = load.key(line)
        assert key
        if tap := tap_of(line, partition_of(key, PARTITIONS)):
            yield tap


def write_behind(client: redis.Redis, taps: list[Tap]) -> None:
    buffer, events = Buffer(client), []
    for tap in taps:
        buffer.take(tap)
    buffer.flush(cast("Taps", SimpleNamespace(commit=lambda: events.append("commit"))))
    assert events == ["commit"]


SHARDS = itertools.cycle(range(redis_sharded_incr.SHARDS))
DESIGNS: dict[str, tuple[Callable[[redis.Redis, list[Tap]], None], Callable[[], Reference]]] = {
    "redis_incr": (redis_incr.apply, Increments),
    "redis_sharded_incr": (lambda client, taps: redis_sharded_incr.apply(client, taps, SHARDS), Increments),
    "write_behind": (write_behind, Increments),
    "set_incr": (set_incr.apply, Members),
    "bloom_incr": (lambda client, taps: bloom_incr.apply(client, SMALL, taps), lambda: Filtered(SMALL)),
}


def nonzero(counts: Counts) -> dict[str, tuple[int, int]]:
    return {content_id: pair for content_id, pair in counts.items() if pair != (0, 0)}


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
@pytest.mark.parametrize("name", DESIGNS)
def test_a_program_counts_by_the_rules_that_it_is_compared_with(name: str, load: Load) -> None:
    apply, make = DESIGNS[name]
    server, reference, taps = Server(), make(), list(taps_of(load))
    client = cast("redis.Redis", server)
    for first in range(0, len(taps), 170):
        apply(client, taps[first : first + 170])
    for tap in taps:
        reference.take(tap)
    assert nonzero(server.counts()) == nonzero(reference.counts())
    assert (reference.false_positives > 0) == (name == "bloom_incr")


def test_a_buffer_writes_once_for_each_counter_and_nothing_for_what_evens_out() -> None:
    server = Server()
    write_behind(cast("redis.Redis", server), [Tap("v", user, "LIKE", 0) for user in "abc"])
    assert (server.commands.total(), server.counts()) == (1, {"v": (3, 0)})
    write_behind(cast("redis.Redis", server), [Tap("v", "d", "LIKE", 0), Tap("v", "a", "UNLIKE", 0)])
    assert server.commands.total() == 1


def test_shards_share_the_steps() -> None:
    server = Server()
    shards = itertools.cycle(range(redis_sharded_incr.SHARDS))
    taps = [Tap("v", str(user), "LIKE", 0) for user in range(32)]
    redis_sharded_incr.apply(cast("redis.Redis", server), taps, shards)
    assert sorted(server.counters.values()) == [2] * redis_sharded_incr.SHARDS


class Table:
    """A row as Cassandra's driver would change it; `trouble` comes before a change, one for each attempt."""

    def __init__(self, *trouble: Callable[[Table], None]) -> None:
        self.row: dict[str, int] | None = None
        self._trouble = list(trouble)

    def prepare(self, query: str) -> str:
        return query.split(maxsplit=1)[0]

    def execute(self, verb: str, values: tuple[Any, ...]) -> object:
        if verb == "SELECT":
            held = self.row
            return SimpleNamespace(one=lambda: held)
        if self._trouble:
            self._trouble.pop(0)(self)
        new, old = (values[1:], None) if verb == "INSERT" else (values[:2], values[3:])
        applied = (tuple(self.row.values()) if self.row else None) == old
        if applied:
            self.row = dict(zip(("likes", "dislikes"), new, strict=True))
        return SimpleNamespace(was_applied=applied)


def test_a_row_is_made_and_then_changed() -> None:
    table = Table()
    rows = Rows(table)
    rows.add("v", "likes", 1)
    rows.add("v", "dislikes", 1)
    rows.add("v", "likes", -1)
    assert table.row == {"likes": 0, "dislikes": 1}


def test_who_loses_a_race_tries_again_on_what_the_other_left() -> None:
    def somebody_faster(table: Table) -> None:
        table.row = {"likes": 10, "dislikes": 0}

    table = Table(somebody_faster)
    Rows(table).add("v", "likes", 1)
    assert table.row == {"likes": 11, "dislikes": 0}


def test_a_change_that_timed_out_although_it_happened_is_counted_twice(capsys: pytest.CaptureFixture[str]) -> None:
    def happens_and_times_out(table: Table) -> None:
        table.row = {"likes": 1, "dislikes": 0}
        raise OperationTimedOut

    table = Table(happens_and_times_out)
    Rows(table).add("v", "likes", 1)
    assert table.row == {"likes": 2, "dislikes": 0}
    assert "undecided" in capsys.readouterr().out

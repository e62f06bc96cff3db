"""A seeded model of like traffic: Zipf popularity, toggles, a viral spike, exact resends, late events, moving users.

The same model, seed, number of events and times give the same bytes (with the same numpy, which may change its random
streams). Events come in blocks of columns, so memory is bounded and a log may be as long as one likes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from traffic.replay import TimedLine

if TYPE_CHECKING:
    from collections.abc import Iterator

Integers = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]

# A block is generated at once; toggles and resends refer to events of their own block.
BLOCK_EVENTS = 100_000
ACTIONS = ("LIKE", "UNLIKE", "DISLIKE", "UNDISLIKE")
_ACTION_SHARES = (0.82, 0.04, 0.12, 0.02)
_OPPOSITE = np.array([1, 0, 3, 2])  # LIKE and UNLIKE, DISLIKE and UNDISLIKE
_TOGGLE_TAKES_BACK = 0.7  # the other toggles say the same again
_RECENT_EVENTS = 5_000
_NETWORK_MS = 30.0
_SPIKE = (0.4, 0.5)  # part of each period
_LINE = b'{"content_id":"v%d","user_id":"u%d","action":"%s","event_time":%d,"region":"%s"}'
# Random streams that must not be one: numpy mixes them with the seed.
_USERS_STREAM, _BLOCKS_STREAM = 0, 1


@dataclass(frozen=True, slots=True)
class TrafficModel:
    """What the traffic looks like. Shares are of all events, 0 to 1.

    Fields:
        contents: How many there are; "v1" is the most popular.
        users: How many there are, "u1" and up, each equally active and with a home region.
        zipf_exponent: Popularity of the n-th content is n ** -zipf_exponent; 0 makes all equal.
        toggles: Share in which a user takes a recent reaction back, or says the same again.
        duplicates: Share that are exact resends of a recent event.
        late: Share that arrive late.
        late_ms: How late these are on average.
        moves: Share in which a user reacts from a random region.
        viral_share: Share that the viral content takes all the time, beside its ordinary part.
        spike_share: The same while its spike lasts.
        spike_events: A spike comes once in so many events (or once in the log, if that is shorter) and lasts a tenth.
        regions: Names, the most frequent first.

    Raises:
        ValueError: A number is impossible; the message names it.
    """

    contents: int = 10_000
    users: int = 1_000_000
    zipf_exponent: float = 1.1
    toggles: float = 0.08
    duplicates: float = 0.01
    late: float = 0.02
    late_ms: int = 120_000
    moves: float = 0.002
    viral_share: float = 0.0
    spike_share: float = 0.5
    spike_events: int = 100_000
    regions: tuple[str, ...] = ("us", "eu", "ap")

    def __post_init__(self) -> None:
        for name in ("toggles", "duplicates", "late", "moves", "viral_share", "spike_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be from 0 to 1")
        if self.toggles + self.duplicates > 1:
            raise ValueError("toggles and duplicates together must be at most 1")
        for name in ("contents", "users", "spike_events"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if not 0 <= self.zipf_exponent < np.inf or self.late_ms < 0 or not self.regions:
            raise ValueError("zipf_exponent and late_ms must not be negative, and regions not empty")

    @property
    def viral_content(self) -> int:
        """Index of the content that goes viral: otherwise an ordinary one."""
        return self.contents // 2


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive events as columns of equal length.

    Fields:
        due_ms: When each enters the log, milliseconds since the epoch, never decreasing.
        content: Index, 0 is "v1".
        user: Index, 0 is "u1".
        action: Position in `ACTIONS`.
        region: Position in the model's regions.
        event_time_ms: When the user reacted, never after `due_ms`.
        regions: The model's.
    """

    due_ms: Integers
    content: Integers
    user: Integers
    action: Integers
    region: Integers
    event_time_ms: Integers
    regions: tuple[str, ...]

    def lines(self) -> Iterator[TimedLine]:
        """The events as JSON, as they are sent."""
        actions = [action.encode() for action in ACTIONS]
        regions = [region.encode() for region in self.regions]
        # Without a loop body in Python: a third of the time.
        fields = zip(
            (self.content + 1).tolist(),
            (self.user + 1).tolist(),
            map(actions.__getitem__, self.action.tolist()),
            self.event_time_ms.tolist(),
            map(regions.__getitem__, self.region.tolist()),
            strict=True,
        )
        return map(TimedLine, self.due_ms.tolist(), map(_LINE.__mod__, fields))


def content_name(index: int) -> str:
    """The content id of an index."""
    return f"v{index + 1}"


def generate(model: TrafficModel, events: int, seed: int, *, start_ms: int, end_ms: int) -> Iterator[TimedLine]:
    """The lines of `generate_blocks`: 4 million in 10 s of one core."""
    for block in generate_blocks(model, events, seed, start_ms=start_ms, end_ms=end_ms):
        yield from block.lines()


def generate_blocks(model: TrafficModel, events: int, seed: int, *, start_ms: int, end_ms: int) -> Iterator[Block]:
    """Generate a log.

    Args:
        model: What it looks like.
        events: How many, resends included.
        seed: Not negative.
        start_ms: When the log begins, milliseconds since the epoch.
        end_ms: When the last event enters it; the events between are evenly spaced.
    """
    home = _weighted(np.random.default_rng([seed, _USERS_STREAM]), model.users, _region_shares(model))
    popularity = np.cumsum(np.arange(1, model.contents + 1, dtype=np.float64) ** -model.zipf_exponent)
    for number, first in enumerate(range(0, events, BLOCK_EVENTS)):
        position = np.arange(first, min(first + BLOCK_EVENTS, events), dtype=np.int64)
        due_ms = start_ms + (position + 1) * (end_ms - start_ms) // events
        phase = position % min(model.spike_events, events) / min(model.spike_events, events)
        spike = (phase >= _SPIKE[0]) & (phase < _SPIKE[1])
        rng = np.random.default_rng([seed, _BLOCKS_STREAM, number])
        yield _block(model, rng, due_ms, spike, home, popularity)


def _block(
    model: TrafficModel,
    rng: np.random.Generator,
    due_ms: Integers,
    spike: _Mask,
    home: Integers,
    popularity: npt.NDArray[np.float64],
) -> Block:
    size = len(due_ms)
    content = np.searchsorted(popularity, rng.random(size) * popularity[-1], side="right").astype(np.int64)
    content = np.minimum(content, model.contents - 1)
    viral = rng.random(size) < np.where(spike, max(model.spike_share, model.viral_share), model.viral_share)
    content[viral] = model.viral_content
    user = rng.integers(model.users, size=size)
    action = _weighted(rng, size, np.array(_ACTION_SHARES))

    resent, toggled, source = _repeats(model, rng, size)
    repeated = resent | toggled
    content[repeated], user[repeated] = content[source[repeated]], user[source[repeated]]
    again = action[source]
    action[resent] = again[resent]
    takes_back = rng.random(size) < _TOGGLE_TAKES_BACK
    action[toggled] = np.where(takes_back, _OPPOSITE[again], again)[toggled]

    moved = rng.random(size) < model.moves
    region = np.where(moved, rng.integers(len(model.regions), size=size), home[user])
    delay_ms = np.where(rng.random(size) < model.late, float(model.late_ms), _NETWORK_MS) * rng.exponential(size=size)
    event_time_ms = due_ms - delay_ms.astype(np.int64)
    region[resent], event_time_ms[resent] = region[source[resent]], event_time_ms[source[resent]]
    return Block(due_ms, content, user, action, region, event_time_ms, model.regions)


def _repeats(model: TrafficModel, rng: np.random.Generator, size: int) -> tuple[_Mask, _Mask, Integers]:
    """Which events are exact resends, which are toggles, and of which earlier event; that one is neither."""
    kind = rng.random(size)
    repeated = kind < model.duplicates + model.toggles
    repeated[:1] = False
    originals = np.flatnonzero(~repeated)
    before = np.searchsorted(originals, np.arange(size), side="left")
    back = 1 + (rng.random(size) * np.clip(before, 1, _RECENT_EVENTS)).astype(np.int64)
    source = originals[np.maximum(before - back, 0)]
    resent = repeated & (kind < model.duplicates)
    return resent, repeated & ~resent, source


def _weighted(rng: np.random.Generator, size: int, shares: npt.NDArray[np.float64]) -> Integers:
    """Positions in `shares`, drawn accordingly."""
    edges = np.cumsum(shares / shares.sum())[:-1]
    drawn: np.ndarray[Any, np.dtype[np.int64]] = np.searchsorted(edges, rng.random(size), side="right").astype(np.int64)
    return drawn


def _region_shares(model: TrafficModel) -> npt.NDArray[np.float64]:
    return 1.0 / np.arange(1, len(model.regions) + 1)

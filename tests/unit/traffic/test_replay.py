from __future__ import annotations

from traffic.replay import TimedLine, paced


class Clock:
    """Time that passes only by sleeping, or by being told to."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.slept: list[float] = []

    def read(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


LINES = [TimedLine(5_000, b"a"), TimedLine(6_000, b"b"), TimedLine(6_000, b"c"), TimedLine(10_000, b"d")]


def test_lines_wait_until_they_are_due() -> None:
    clock = Clock()
    assert list(paced(LINES, 1, clock=clock.read, sleep=clock.sleep)) == [b"a", b"b", b"c", b"d"]
    assert clock.slept == [1.0, 4.0]


def test_a_speed_makes_the_log_shorter() -> None:
    clock = Clock()
    list(paced(LINES, 10, clock=clock.read, sleep=clock.sleep))
    assert [round(seconds, 6) for seconds in clock.slept] == [0.1, 0.4]


def test_speed_0_never_waits() -> None:
    clock = Clock()
    assert list(paced(LINES, 0, clock=clock.read, sleep=clock.sleep)) == [b"a", b"b", b"c", b"d"]
    assert clock.slept == []


def test_a_slow_consumer_catches_up_without_waiting() -> None:
    clock = Clock()
    for value in paced(LINES, 1, clock=clock.read, sleep=clock.sleep):
        clock.now_s += 3.0 if value == b"a" else 0.0
    assert clock.slept == [2.0]


def test_nothing_takes_no_time() -> None:
    assert list(paced([], 1)) == []

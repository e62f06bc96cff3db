from __future__ import annotations

import pytest

from bench.state import Sample, slice_rates


def samples(*, until: int) -> list[Sample]:
    """A state that grows by 100,000 registers a second, and by 50,000 from ten million on."""
    found, seconds, registers = [], 0.0, 0
    while registers < until:
        found.append(Sample(seconds, registers))
        seconds, registers = seconds + 1.0, registers + (100_000 if registers < 10_000_000 else 50_000)
    return found


def test_rates_are_of_the_last_six_million_registers() -> None:
    assert slice_rates(samples(until=17_000_000), 16_000_000) == pytest.approx((50_000, 50_000, 50_000))
    assert slice_rates(samples(until=14_000_000), 10_000_000) == pytest.approx((100_000, 100_000, 100_000))


def test_with_few_registers_the_slices_begin_there() -> None:
    warm = samples(until=9_000_000)
    cold = [Sample(each.seconds * (1 if each.registers >= 1_000_000 else 2), each.registers) for each in warm]
    assert slice_rates(cold, 1_000_000) == pytest.approx((100_000, 100_000, 100_000))


def test_news_that_come_seldom() -> None:
    """Flink tells of registers every ten seconds: most samples repeat what the one before said."""
    every_second = samples(until=20_000_000)
    heard = [
        Sample(each.seconds, every_second[place - place % 10].registers) for place, each in enumerate(every_second)
    ]
    assert slice_rates(heard, 10_000_000) == pytest.approx((100_000, 100_000, 100_000), rel=0.01)

from __future__ import annotations

import pytest

from bench.latency import Latencies


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50.0), (0.95, 95.0), (0.99, 99.0), (1.0, 100.0), (0.001, 1.0)])
def test_a_quantile_is_the_smallest_value_that_so_many_do_not_exceed(share: float, expected: float) -> None:
    assert Latencies(tuple(float(number) for number in range(1, 101)), 0.0).quantile(share) == expected


def test_one_probe_is_every_quantile() -> None:
    assert Latencies((2.5,), 0.0).quantile(0.99) == 2.5

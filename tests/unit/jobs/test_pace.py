import pytest

from pipelines.jobs.pace import Pace


@pytest.mark.parametrize(
    ("before", "seen", "ended_at", "per_s"),
    [
        pytest.param(0, [(105.0, 100), (110.0, 300), (115.0, 600)], 120.0, 70.0, id="the first quarter is left out"),
        pytest.param(800, [(110.0, 840), (115.0, 860)], 125.0, 14.0, id="of what was counted before nothing counts"),
        pytest.param(0, [], 110.0, 100.0, id="one checkpoint: from the beginning"),
        pytest.param(
            0, [(109.0, 900), (110.0, 1_000)], 110.0, 100.0, id="the first one near the end: from the beginning"
        ),
        pytest.param(1_000, [], 110.0, 0.0, id="nothing to count has no pace"),
    ],
)
def test_pace(before: int, seen: list[tuple[float, int]], ended_at: float, per_s: float) -> None:
    pace = Pace(100.0, before, 1_000)
    for now, done in seen:
        pace.saw(now, done)
    assert pace.per_s(ended_at, 1_000) == per_s

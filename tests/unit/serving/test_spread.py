from hypothesis import given
from hypothesis import strategies as st

from serving.producer import spread


@given(st.text(min_size=1), st.text(min_size=1), st.integers(1, 20), st.integers(1, 50))
def test_a_users_events_on_a_content_stay_together(content_id: str, user_id: str, over: int, partitions: int) -> None:
    found = spread(content_id, user_id, over, partitions)
    assert 0 <= found < partitions
    assert found == spread(content_id, user_id, over, partitions)


def test_a_hot_content_uses_as_many_partitions_as_it_may() -> None:
    used = {spread("viral", f"u{number}", 4, 16) for number in range(1_000)}
    assert len(used) == 4


def test_another_day_the_same_partition() -> None:
    assert [spread("v1", f"u{number}", 4, 16) for number in range(6)] == [6, 5, 7, 8, 7, 8]

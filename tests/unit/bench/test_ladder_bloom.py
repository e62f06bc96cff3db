from __future__ import annotations

from bench.ladder.bloom import Size, element, positions, size_for


def test_a_size_is_the_textbook_one() -> None:
    # 9.59 bits and 7 hashes for each element at 1 %.
    assert size_for(1_000, 0.01) == Size(bits=9_586, hashes=7)
    assert size_for(1, 0.5).hashes == 1


def test_positions_are_stable_within_the_filter_and_differ() -> None:
    size = size_for(1_000, 0.01)
    found = positions("likes\0v1\0u1", size)
    assert found == positions("likes\0v1\0u1", size)
    assert len(found) == size.hashes == len(set(found))
    assert all(0 <= place < size.bits for place in found)
    assert found != positions("likes\0v1\0u2", size)


def test_at_its_capacity_a_filter_errs_about_as_often_as_was_asked_for() -> None:
    size, capacity = size_for(2_000, 0.01), 2_000
    bits = {place for number in range(capacity) for place in positions(f"old{number}", size)}
    wrong = sum(bits.issuperset(positions(f"new{number}", size)) for number in range(10_000))
    assert 50 <= wrong <= 170


def test_elements_are_apart() -> None:
    assert len({element("v1", "1", "likes"), element("v", "11", "likes"), element("v1", "1", "dislikes")}) == 3

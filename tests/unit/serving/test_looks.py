from serving.watch import Counting, Looks


def test_a_count_is_as_old_as_the_log_that_it_is_of() -> None:
    looks = Looks()
    assert looks.current_at(10.0, {0: 5, 1: 2}, {}) is None
    assert looks.current_at(11.0, {0: 9, 1: 2}, {0: 5, 1: 2}) == 10.0
    assert looks.current_at(12.0, {0: 9, 1: 2}, {0: 8, 1: 2}) == 10.0
    assert looks.current_at(13.0, {0: 9, 1: 2}, {0: 9, 1: 2}) == 13.0


def test_an_empty_log_is_counted() -> None:
    assert Looks().current_at(1.0, {0: 0}, {}) == 1.0


def test_how_fast_the_log_grows() -> None:
    looks = Looks()
    assert looks.events_per_s() == 0.0
    for second in range(20):
        looks.current_at(float(second), {0: second * 100, 1: second * 50}, {})
    assert looks.events_per_s() == 150.0


def test_lag() -> None:
    assert Counting(1, {0: 5}, {0: 9, 1: 2}).lag == 6

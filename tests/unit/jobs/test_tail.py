from pipelines.jobs.tail import Tail


def test_a_short_log_is_asked_for_at_once_and_a_long_one_is_not() -> None:
    assert not Tail(100.0, 0).is_due(100.4, 0, 10)
    assert Tail(100.0, 0).is_due(100.6, 0, 10)
    assert not Tail(100.0, 0).is_due(110.0, 0, 4_000_000)


def test_asks_once_when_the_rate_so_far_says_that_the_end_is_reached() -> None:
    tail = Tail(0.0, 0)
    assert not tail.is_due(5.0, 50_000, 20_000)
    assert not tail.is_due(7.0, 50_000, 20_000)
    assert tail.is_due(7.6, 50_000, 20_000)
    assert not tail.is_due(8.0, 50_000, 20_000)


def test_asks_again_when_the_guess_was_too_good() -> None:
    tail = Tail(0.0, 0)
    tail.is_due(5.0, 50_000, 20_000)
    assert tail.is_due(7.6, 50_000, 20_000)
    assert not tail.is_due(8.0, 60_000, 10_000)
    assert tail.is_due(10.0, 60_000, 10_000)

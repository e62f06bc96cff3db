from __future__ import annotations

import pytest

from serving.dependency import Away, Dependency


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def fail(service: Dependency) -> None:
    with pytest.raises(Away, match="gone"), service.used((OSError,)):
        raise OSError("gone")


def assert_not_called(service: Dependency) -> None:
    called = False
    with pytest.raises(Away, match="gone"), service.used((OSError,)):
        called = True
    assert not called


def test_before_the_first_call_everybody_may_try() -> None:
    service = Dependency("redis", 0.5, Clock())
    with service.used((OSError,)), service.used((OSError,)):
        pass
    assert service.standing.up


def test_after_a_failure_calls_fail_at_once_and_one_tries_after_each_pause() -> None:
    clock = Clock()
    service = Dependency("redis", 0.5, clock)
    fail(service)
    assert_not_called(service)
    clock.now += 0.5
    with service.used((OSError,)):  # tries
        assert_not_called(service)  # beside the one that tries
    assert service.standing.up
    with service.used((OSError,)), service.used((OSError,)):
        pass


def test_it_is_known_for_how_long_it_has_been_away() -> None:
    clock = Clock()
    service = Dependency("redis", 0.5, clock)
    service.answered()
    clock.now += 5
    fail(service)
    clock.now += 3
    fail(service)
    assert (service.standing.up, service.standing.detail, service.standing.since_s) == (False, "gone", 3.0)


def test_what_is_no_failure_of_the_service_is_passed_on() -> None:
    service = Dependency("redis", 0.5, Clock())
    service.answered()
    with pytest.raises(ValueError, match="ours"), service.used((OSError,)):
        raise ValueError("ours")
    assert service.standing.up


def test_a_refusal_is_not_taken_for_an_absence() -> None:
    service = Dependency("redis", 0.5, Clock())
    service.answered()
    with pytest.raises(Away, match="read only"), service.used((OSError,), (ValueError,)):
        raise ValueError("read only")
    assert service.standing.up


def test_a_probe_goes_through_and_opens_the_way() -> None:
    service = Dependency("redis", 60.0, Clock())
    fail(service)
    assert_not_called(service)
    with service.used((OSError,), probe=True):
        pass
    with service.used((OSError,)):
        pass

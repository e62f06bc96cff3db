from pipelines.jobs.patience import Patience


def test_the_same_failure_again_and_again_ends() -> None:
    patience = Patience(limit=3)
    assert [patience.is_over("no such class", 0) for _ in range(4)] == [False, False, True, True]


def test_another_failure_or_progress_begins_anew() -> None:
    patience = Patience(limit=2)
    assert not patience.is_over("one", 0)
    assert not patience.is_over("another", 0)
    assert not patience.is_over("another", 1)
    assert patience.is_over("another", 1)


def test_a_service_that_is_away_is_waited_for() -> None:
    patience = Patience(limit=2)
    for cause in (
        "pipelines.errors.ServiceUnavailable: Redis at redis://127.0.0.1:6379/0 does not answer",
        "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment",
    ):
        assert not any(patience.is_over(cause, 0) for _ in range(20))

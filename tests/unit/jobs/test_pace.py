from pipelines.jobs.pace import Pace


def test_the_first_quarter_is_left_out() -> None:
    pace = Pace(100.0, 0, 1_000)
    for now, done in ((105.0, 100), (110.0, 300), (115.0, 600)):
        pace.saw(now, done)
    assert pace.per_s(120.0, 1_000) == 70.0


def test_what_was_counted_before_is_no_part_of_the_first_quarter() -> None:
    pace = Pace(100.0, 800, 1_000)
    pace.saw(110.0, 840)
    pace.saw(115.0, 860)
    assert pace.per_s(125.0, 1_000) == 14.0


def test_a_run_of_one_checkpoint_is_measured_from_its_beginning() -> None:
    assert Pace(100.0, 0, 1_000).per_s(110.0, 1_000) == 100.0


def test_a_run_whose_first_checkpoint_comes_near_its_end_is_measured_from_its_beginning() -> None:
    pace = Pace(100.0, 0, 1_000)
    pace.saw(109.0, 900)
    pace.saw(110.0, 1_000)
    assert pace.per_s(110.0, 1_000) == 100.0


def test_nothing_to_count_has_no_pace() -> None:
    assert Pace(100.0, 1_000, 1_000).per_s(110.0, 1_000) == 0.0

from serving.hot import HotItems


def test_what_comes_often_is_hot_and_cools_down() -> None:
    hot = HotItems(per_s=10, window_s=10, now=0.0)
    for step in range(1_000):
        hot.saw("viral", step / 100)
        hot.saw(f"v{step}", step / 100)
    hot.turn(10.0)
    assert hot.is_hot("viral")
    assert not hot.is_hot("v1")
    assert 80 <= hot.hottest()["viral"] <= 101
    hot.turn(21.0)
    hot.turn(23.0)
    assert not hot.is_hot("viral")


def test_a_thousand_times_more_items_than_it_remembers() -> None:
    hot = HotItems(per_s=5, window_s=10, now=0.0)
    for step in range(200_000):
        hot.saw(f"v{step}", step / 20_000)
        if step % 100 == 0:
            hot.saw("viral", step / 20_000)
    hot.turn(10.0)
    assert list(hot.hottest()) == ["viral"]


def test_a_long_silence_forgets() -> None:
    hot = HotItems(per_s=1, window_s=10, now=0.0)
    for _ in range(100):
        hot.saw("viral", 1.0)
    hot.turn(2.0)
    assert hot.is_hot("viral")
    hot.saw("other", 1_000.0)
    hot.turn(1_002.0)
    assert not hot.is_hot("viral")


def test_a_crowd_that_comes_at_once_is_hot_before_the_window_moves() -> None:
    hot = HotItems(per_s=20, window_s=10, now=0.0)
    for _ in range(2_000):
        hot.saw("viral", 0.1)
    assert hot.is_hot("viral")

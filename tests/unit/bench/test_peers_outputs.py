from __future__ import annotations

import json

import pytest

from bench.peers.outputs import Newest, Progress


def total(content_id: str, likes: int, dislikes: int, **more: int) -> bytes:
    return json.dumps({"content_id": content_id, "likes": likes, "dislikes": dislikes, **more}).encode()


def test_the_newest_counts_of_each_content_are_kept() -> None:
    newest = Newest()
    newest.take(0, 0, total("a", 1, 0))
    newest.take(1, 0, total("b", 5, 2))
    newest.take(0, 1, total("a", 0, 1))
    assert newest.counts == {"a": (0, 1), "b": (5, 2)}


def test_a_repeated_output_is_no_change() -> None:
    newest = Newest()
    newest.take(0, 3, total("a", 1, 0))
    newest.take(0, 9, total("a", 1, 0))
    assert newest.changed == {0: 3}


def test_a_retraction_is_skipped() -> None:
    newest = Newest()
    newest.take(0, 0, total("a", 2, 0, diff=1))
    newest.take(0, 1, total("a", 1, 0, diff=-1))
    assert newest.counts == {"a": (2, 0)}
    assert newest.changed == {0: 0}


def test_an_output_was_visible_at_the_first_sample_with_it() -> None:
    progress = Progress()
    assert progress.add(1.0, {0: 0, 1: 0}) == 0
    assert progress.add(2.0, {0: 5, 1: 0}) == 5
    assert progress.add(3.0, {0: 5, 1: 7}) == 12
    progress.add(4.0, {0: 5, 1: 7})
    progress.add(5.0, {0: 6, 1: 9})
    assert progress.visible_at({0: 4}) == 2.0
    assert progress.visible_at({0: 4, 1: 6}) == 3.0
    assert progress.visible_at({0: 5, 1: 6}) == 5.0


def test_what_no_sample_had_was_not_visible() -> None:
    progress = Progress()
    progress.add(1.0, {0: 5})
    with pytest.raises(ValueError, match="not visible"):
        progress.visible_at({0: 5})

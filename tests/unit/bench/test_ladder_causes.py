from __future__ import annotations

import json

from bench.ladder.causes import CHANGED, PLAIN, RESENT, SAID_AGAIN, TAKES_NOTHING, kinds


def line(action: str, at: int, user: str = "u") -> bytes:
    return json.dumps({"content_id": "v", "user_id": user, "action": action, "event_time": at}).encode()


def test_each_tap_is_what_those_before_it_make_of_it() -> None:
    lines = {
        line("LIKE", 1): PLAIN,
        line("LIKE", 2): SAID_AGAIN,
        line("UNLIKE", 3): PLAIN,
        line("UNLIKE", 4): TAKES_NOTHING,
        line("DISLIKE", 5): PLAIN,
        line("LIKE", 6): CHANGED,
        line("UNDISLIKE", 7): TAKES_NOTHING,
        line("LIKE", 8, "other"): PLAIN,
    }
    assert [kind for _, kind in kinds(lines)] == list(lines.values())


def test_an_exact_repeat_was_sent_twice_and_changes_nothing() -> None:
    taps = [line("LIKE", 1), line("LIKE", 1), line("UNLIKE", 2)]
    assert [kind for _, kind in kinds(taps)] == [PLAIN, RESENT, PLAIN]

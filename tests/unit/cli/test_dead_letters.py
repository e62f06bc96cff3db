"""What a dead letter is and what becomes of it; the topic itself is in tests/integration/test_cli_dead_letters.py."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from cli.dead_letter_log import Identities, parse_letter
from cli.main import invoke
from cli.replay import Drop, Leave, Request, Resend, dated, decide, run_fix
from pipelines.domain.dead_letters import DeadLetter
from pipelines.domain.events import LikeEvent, Rules, parse
from schemas import GoldenEvent, golden_events, golden_messages

RULES = Rules()
FIRST_MS = 1_767_225_600_000
NOW_MS = FIRST_MS + 86_400_000
VALID = b'{"content_id": "v1", "user_id": "u1", "action": "LIKE"}'
DROP, STOP = Request("drop"), Request("stop")


def letter(value: bytes | None, reason: str = "unknown_region") -> DeadLetter:
    return DeadLetter(reason, "For a test.", "like-events", 1, 2, FIRST_MS, value)


def fixed_by(command: str) -> Request:
    return Request("fix", command)


def test_golden_dead_letters_are_read() -> None:
    for message in golden_messages("dead_letters"):
        found = parse_letter(json.dumps(message).encode())
        assert found is not None
        assert found.to_message() == message


@pytest.mark.parametrize("value", [None, b"", b"[]", b"{}", b"\xff", b"7", b'{"reason": "not_json"}', b"[" * 100_000])
def test_what_is_no_dead_letter_is_told_apart(value: bytes | None) -> None:
    assert parse_letter(value) is None


@pytest.mark.parametrize(
    "changed",
    [{"offset": "7"}, {"offset": True}, {"reason": None}, {"value_base64": "?"}, {"value": 3}, {"value": "\ud800"}],
)
def test_wrong_fields_make_no_dead_letter(changed: dict[str, object]) -> None:
    message = {**letter(None).to_message(), **changed}
    assert parse_letter(json.dumps(message).encode()) is None


def test_identity_is_topic_partition_and_offset() -> None:
    seen = Identities()
    seen.add(letter(b"one"))
    assert letter(b"two", "not_json") in seen
    assert DeadLetter("not_json", "", "like-events", 2, 2, FIRST_MS, b"one") not in seen
    assert DeadLetter("not_json", "", "elsewhere", 1, 2, FIRST_MS, b"one") not in seen


def test_drop_asks_nothing() -> None:
    assert decide(letter(VALID), DROP, RULES, NOW_MS) == Drop()
    assert decide(letter(None), DROP, RULES, NOW_MS) == Drop()


def test_stop_resends_what_is_valid_by_now_with_the_time_of_its_arrival() -> None:
    value = b'{"content_id": "v1", "user_id": "u1", "action": "LIKE", "region": "mars"} \r'
    rules = Rules(regions=("us", "mars"))
    dated_value = value.replace(b'"mars"}', b'"mars","event_time":%d}' % FIRST_MS)
    assert decide(letter(value), STOP, rules, NOW_MS) == Resend(dated_value)
    assert decide(letter(value), STOP, RULES, NOW_MS) == Leave("still rejected, unknown_region", rejected=True)


def test_an_event_of_the_future_is_valid_once_its_time_has_come() -> None:
    value = b'{"content_id": "v1", "user_id": "u1", "action": "LIKE", "event_time": %d}' % (FIRST_MS + 3_600_000)
    assert parse(value, FIRST_MS, RULES) != parse(value, NOW_MS, RULES)
    assert decide(letter(value, "event_time_in_future"), STOP, RULES, NOW_MS) == Resend(value)


def test_what_the_time_makes_too_large_is_left() -> None:
    value = VALID.ljust(RULES.max_record_bytes)
    assert decide(letter(value), STOP, RULES, NOW_MS) == Leave("still rejected, record_too_large", rejected=True)


@pytest.mark.parametrize("event", golden_events("valid"), ids=lambda event: event.note)
def test_dating_changes_nothing_but_a_missing_time(event: GoldenEvent) -> None:
    assert event.value is not None
    rules = Rules(max_record_bytes=2 * RULES.max_record_bytes)
    before = parse(event.value, FIRST_MS, rules)
    after = parse(dated(event.value, FIRST_MS), NOW_MS, rules)
    assert isinstance(before, LikeEvent)
    assert after == before


@pytest.mark.parametrize("event", golden_events("invalid"), ids=lambda event: event.note)
def test_what_is_still_no_event_is_left(event: GoldenEvent) -> None:
    found = decide(letter(event.value), STOP, RULES, event.timestamp_ms)
    assert found == Leave(f"still rejected, {event.reason}", rejected=True)


def test_a_fix_gets_the_exact_bytes_and_loses_one_line_feed() -> None:
    odd = b"\xff\x00 \r\n two\n"
    assert run_fix("cat", odd) == (odd.removesuffix(b"\n"), "")
    assert run_fix("cat; echo", b"x\n") == (b"x\n", "")
    found = decide(letter(VALID.replace(b"LIKE", b"like")), fixed_by("sed s/like/LIKE/"), RULES, NOW_MS)
    assert found == Resend(VALID.replace(b"}", b',"event_time":%d}' % FIRST_MS))


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("false", "the command exited with 1"),
        ("cat; exit 3", "the command exited with 3"),
        ("true", "the command wrote nothing"),
        ("no-such-command-at-all 2>/dev/null", "the command exited with 127"),
    ],
)
def test_a_fix_that_fails_leaves_it(command: str, why: str) -> None:
    assert decide(letter(VALID), fixed_by(command), RULES, NOW_MS) == Leave(why, rejected=False)


def test_a_fix_that_is_still_wrong_is_left() -> None:
    found = decide(letter(b"x"), fixed_by("cat"), RULES, NOW_MS)
    assert found == Leave("still rejected, not_json", rejected=True)


def test_a_fix_that_does_not_read_its_input_is_no_problem() -> None:
    assert run_fix("echo y", b"x" * 1_000_000) == (b"y", "")


def test_a_fix_that_hangs_is_ended_with_all_that_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.replay._FIX_S", 0.2)
    started = time.monotonic()
    assert run_fix("sleep 60 & sleep 60", b"") == (b"", "the command took longer than 0.2 s")
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("arguments", [["--policy", "fix"], ["--policy", "drop", "--fix", "cat"], []])
def test_policy_and_command_belong_together(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIKES_STACK_DIR", str(tmp_path))
    assert invoke(["dead-letters", "replay", *arguments], debug=False) == 2
    assert "--" in capsys.readouterr().err


def test_a_reason_that_does_not_exist_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["dead-letters", "list", "--reason", "ugly"], debug=False) == 2
    assert "--reason" in capsys.readouterr().err

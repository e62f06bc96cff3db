"""Records as broken producers send them: good events, damaged in every way that a check looks for."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from tests.property.strategies import FIRST_MS

_VALUES = (
    '"v1"', '"u1"', '""', '"LIKE"', '"like"', '"us"', '"mars"', '"a\\"b"', '"a,b:c}"', '"\\/x"', '"\\u0041"',
    '"\\u0000"', '"\\ud800"', '"\\udc00"', '"\\ud83d\\ude00"', '"\\\\ud800"', '"\\x"', '"\\u0085"', '"\\u007F"',
    '"\x01"', '"\x7f"', '"\u0085"', '"tab\t"', '"\ufffd"', '"😀"', f'"{"x" * 64}"', f'"{"😀" * 65}"', "'x'",
    "null", "true", "NaN", "Infinity", "1", "-0", "01", "1.0", "1e3", "1E400", "-", ".5", "5.", "+1", "0x1", "1" * 30,
    str(FIRST_MS), f"{FIRST_MS}.0", str(FIRST_MS + 300_000), str(FIRST_MS + 300_001), "1104537599999", "-5",
    "9223372036854775807", "9223372036854775808", "-9223372036854775809",
    "1e0", "1.5e1", f"{FIRST_MS}e0", f"{FIRST_MS}E-0", f"{FIRST_MS // 10}.{FIRST_MS % 10}e1", "10e-1", "0e5", "1.00",
    "1e999999999", "1e1000000000", "1e0000000001", "1e-0000000001", f"0.{'9' * 998}", f"0.{'9' * 999}",
    f"-{'1' * 999}", f"-{'1' * 1000}", f"{'1' * 991}e{'1' * 8}", f"{'1' * 991}e{'1' * 9}",
    '"3e5"', '"\\"3e5"', '"\\u00e9"', '"\\u001e5"', '"\\\\\\"1e1\\""', '"1e9999999999"',
    f'"{"1" * 1001}"', f'{{"{"1" * 1001}":1}}',
    '{"b":[1e3]}', '{"event_time":1e0}', '{"a":1,"b":2}', '{"b":2,"a":1}',
    '"action"', '"video_id"', '"event_time"', '"region"', f'"{FIRST_MS}"', '"1 "', '"x":', '"}"',
    '"," : "', '" "', '"1,"', str(FIRST_MS // 10), str(FIRST_MS * 10), f"0{FIRST_MS // 10}",
    f'"{"x" * 65}"', f'"{"x" * 256}"', f'"{"x" * 257}"',
    "{}", '{"user_id":"x"}', '[1,{"action":"LIKE"}]', "[]", "",
)  # fmt: skip
_NAMES = (
    '"content_id"', '"video_id"', '"user_id"', '"action"', '"event_time"', '"region"', '"event_id"', '"x"', '""',
    '"\\u0076ideo_id"', '"\\u0065vent_time"', '"a\\"b"', '"user_id "', '"User_id"', "user_id",
)  # fmt: skip
_SPACE = ("", "", "", " ", "\t", "\r\n", "\n", "\xa0", "\f")
_BEFORE = ("\ufeff", "\ufeff\ufeff", " \ufeff", "\ufeff ", " ", "\r\n", "x", "[", ",")
_AFTER = (" ", "\n", "\r\n", " x", "}", "]", ",1", ',"k":1', "{}", "\0", '"', " null")
_TYPOS = ("", '"', "\\", ",", "{", "}", "[", ":", "0", "\0", " ", "\ufffd")


def hostile_values(rng: random.Random, size: int) -> Iterator[bytes]:
    """Values of which about half are events."""
    for _ in range(size):
        yield _value(rng)


def huge_values(limit_bytes: int) -> list[bytes | None]:
    """Around the limits of size and depth; tombstones."""

    def event(extra: bytes) -> bytes:
        return b'{"content_id":"v","user_id":"u","action":"LIKE","x":' + extra + b"}"

    room = limit_bytes - len(event(b'""'))

    def usual(content_id: bytes, user_id: bytes, region: bytes) -> bytes:
        return b'{"content_id":"%b","user_id":"%b","action":"LIKE","region":"%b"}' % (content_id, user_id, region)

    spare = limit_bytes - len(usual(b"v", b"u", b"us")) + 1
    return [
        *(usual(b"v" * length, b"u", b"us") for length in (spare, spare + 1)),
        *(usual(b"v", b"u" * length, b"us") for length in (spare, spare + 1)),
        *(usual(b"v", b"u", b"s" * length) for length in (spare + 1, spare + 2)),
        *(event(b'"' + b"y" * length + b'"') for length in (room - 1, room, room + 1, 20_000)),
        *(event(b'"' + "é".encode() * length + b'"') for length in (room // 2, room // 2 + 1)),
        *(event(b"[" * depth + b"]" * depth) for depth in (10, 997, 998, 999, 1_000, 30_000)),
        *(event(b"1" * digits) for digits in (99, 100, 101, 999, 1_000, 1_001)),
        *(event(b"1e" + b"1" * digits) for digits in (3, 4, 9, 10)),
        event(b'"' + b"\\n" * 30_000 + b'"'),
        event(b'"' + b"\\" * 30_000 + b'"'),
        b"{" + b'"a":1,' * 9_000 + event(b"1")[1:],
        b" " * 60_000 + event(b"1"),
        b"",
        None,
    ]


def _value(rng: random.Random) -> bytes:
    in_order = rng.random() < 0.5
    members = _good_members(rng, in_order=in_order)
    for _ in range(rng.choice((0, 0, 0, 1) if in_order else (0, 1, 1, 2))):
        _damage(rng, members)
    if in_order:
        comma, colon = rng.choice((*(((",", ":"), (", ", ": ")) * 3), (",  ", ":"), (" ,", " :")))
        text = "{" + comma.join(colon.join(member) for member in members) + "}"
    else:
        spaces = _SPACE if rng.random() < 0.1 else _SPACE[:7]
        text = "{" + ",".join(":".join(_spaced(rng, part, spaces) for part in member) for member in members) + "}"
    if rng.random() < (0.04 if in_order else 0.12):
        text = rng.choice((*_BEFORE, "")) + text + rng.choice((*_AFTER, ""))
    if rng.random() < 0.08:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(_TYPOS) + text[at + 1 :]
    encoded = text.encode()
    if encoded and rng.random() < 0.03:
        at = rng.randrange(len(encoded))
        encoded = encoded[:at] + rng.randbytes(1) + encoded[at + 1 :]
    return encoded


def _spaced(rng: random.Random, token: str, spaces: Sequence[str]) -> str:
    return rng.choice(spaces) + token + rng.choice(spaces)


def _good_members(rng: random.Random, *, in_order: bool) -> list[tuple[str, str]]:
    members = [
        (rng.choice(('"content_id"', '"video_id"')), f'"v{rng.randrange(5)}"'),
        ('"user_id"', f'"u{rng.randrange(9)}"'),
        ('"action"', rng.choice(('"LIKE"', '"UNLIKE"', '"DISLIKE"', '"UNDISLIKE"'))),
    ]
    if rng.random() < 0.5:
        members.append(('"event_time"', str(FIRST_MS - rng.randrange(10**6))))
    if rng.random() < 0.5:
        members.append(('"region"', rng.choice(('"us"', '"eu"', '"ap"', "null"))))
    for _ in range(rng.choice((0, 0, 0, 0, 1, 9))):
        members.insert(rng.randint(0, len(members)), (rng.choice(_NAMES[6:9]), rng.choice(_VALUES)))
    if not in_order:
        rng.shuffle(members)
    return members


def _damage(rng: random.Random, members: list[tuple[str, str]]) -> None:
    match rng.choice(("value", "member", "loss")):
        case "value" if members:
            at = rng.randrange(len(members))
            members[at] = (members[at][0], rng.choice(_VALUES))
        case "member":
            members.insert(rng.randint(0, len(members)), (rng.choice(_NAMES), rng.choice(_VALUES)))
        case _ if members:
            members.pop(rng.randrange(len(members)))

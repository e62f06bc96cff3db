import sys

import pytest

from pipelines.domain.strict_json import NotJson, loads, same

PAD = " " * 2_000  # makes a text long enough for the reader with its own stack


@pytest.mark.parametrize("pad", ["", PAD], ids=["fast", "own stack"])
@pytest.mark.parametrize(
    ("text", "value"),
    [
        (
            '{"a":[1,-0,2.5,1e3,1E-2,true,false,null,"x"],"b":{}}',
            {"a": [1, 0, 2.5, 1e3, 0.01, True, False, None, "x"], "b": {}},
        ),
        (' [ [ ] , { "a" : 1 , "a" : [ ] } ] ', [[], {"a": []}]),
        (r'"\ud83d\ude00\ud800\/\u0041"', "😀\ud800/A"),
        ("17", 17),
        ("1e999", float("inf")),
    ],
)
def test_reads(text: str, pad: str, value: object) -> None:
    assert loads(pad + text + pad) == value


@pytest.mark.parametrize("pad", ["", PAD], ids=["fast", "own stack"])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "}",
        "[",
        "]",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{,}",
        "{1:2}",
        '{"a"}',
        '{"a":}',
        '{"a":1,}',
        '{"a" 1}',
        "[}",
        "{]",
        "[1}",
        '{"a":1]',
        "1 2",
        "[] []",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "+1",
        "NaN",
        "Infinity",
        "-Infinity",
        "nul",
        "True",
        "'a'",
        '"a',
        '"\t"',
        '"\\x"',
        '"\\u12"',
        ":",
        ",",
        "\u00a01",
        "\ufeff1",
        "1\u0662",
    ],
)
def test_refuses(text: str, pad: str) -> None:
    with pytest.raises(NotJson):
        loads(pad + text + pad)


def test_a_thousand_levels_and_not_one_more() -> None:
    loads("[" * 1_000 + "]" * 1_000)
    loads('{"a":' * 1_000 + "1" + "}" * 1_000)
    with pytest.raises(NotJson, match="deep"):
        loads("[" * 1_001 + "]" * 1_001)


def test_a_thousand_digits_and_not_one_more() -> None:
    loads("-" + "9" * 1_000)
    loads("0." + "9" * 999)
    for number in ("9" * 1_001, "0." + "9" * 1_000, "1e" + "0" * 1_000):
        with pytest.raises(NotJson, match="number"):
            loads(number)


def test_fifty_thousand_characters_in_a_name_and_not_one_more() -> None:
    loads('{"' + "n" * 50_000 + '":"' + "v" * 60_000 + '"}')
    with pytest.raises(NotJson, match="name"):
        loads('{"' + "n" * 50_001 + '":1}')


def test_depth_does_not_depend_on_the_caller() -> None:
    def deeper(frames: int) -> object:
        return deeper(frames - 1) if frames else loads("[" * 400 + "]" * 400)

    frame, used = sys._getframe(), 0
    while frame.f_back is not None:
        frame, used = frame.f_back, used + 1
    deeper(sys.getrecursionlimit() - used - 50)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("1", "1", True),
        ("1", "true", False),
        ("0", "false", False),
        ("1", "1.0", False),
        ("1.0", "1.00", True),
        ('"a"', '"a"', True),
        ('{"a":1,"b":[2]}', '{"b":[2],"a":1}', True),
        ('{"a":1}', '{"a":true}', False),
        ('{"a":1}', '{"b":1}', False),
        ("[1,2]", "[2,1]", False),
        ("[1]", "[1,1]", False),
        ("[" * 900 + "1" + "]" * 900, "[" * 900 + "2" + "]" * 900, False),
    ],
)
def test_same(left: str, right: str, *, expected: bool) -> None:
    assert same(loads(left), loads(right)) is expected

import sys

import pytest

from pipelines.domain.strict_json import NotJson, loads

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
        (r'"\ud83d\ude00\/\u0041"', "😀/A"),
        (r'"\\ud800\\\ud83d\ude00"', r"\ud800\😀"),
        ("17", 17),
        ("1e999", float("inf")),
        ("-0.5E-999999999", 0.0),
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
        "1e1000000000",
        "0.0E-0000000000",
        r'"\ud800"',
        r'{"\uDFFF":1}',
        r'"\ude00\ud83d"',
        r'"\ud83d\ud83d\ude00"',
        r'"\ud83d\ude00\ude00"',
        r'"\ud83d\\\ude00"',
    ],
)
def test_refuses(text: str, pad: str) -> None:
    with pytest.raises(NotJson):
        loads(pad + text + pad)


def test_999_levels_and_not_one_more() -> None:
    loads("[" * 999 + "]" * 999)
    loads('{"a":' * 999 + "1" + "}" * 999)
    with pytest.raises(NotJson, match="deep"):
        loads("[" * 1_000 + "]" * 1_000)


def test_a_thousand_characters_in_a_number_and_not_one_more() -> None:
    for number in ("9" * 1_000, "-" + "9" * 999, "0." + "9" * 998, "-1." + "9" * 991 + "E-9999"):
        loads(number)
        with pytest.raises(NotJson, match="number"):
            loads(number.replace("9", "99", 1))


def test_fifty_thousand_utf_16_units_in_a_name_and_not_one_more() -> None:
    for name in ("n" * 50_000, r"\n" * 50_000, "😀" * 25_000):
        loads('{"' + name + '":"' + "v" * 60_000 + '"}')
        with pytest.raises(NotJson, match="name"):
            loads('{"' + name + 'n":1}')


def test_depth_does_not_depend_on_the_caller() -> None:
    def deeper(frames: int) -> object:
        return deeper(frames - 1) if frames else loads("[" * 400 + "]" * 400)

    frame, used = sys._getframe(), 0
    while frame.f_back is not None:
        frame, used = frame.f_back, used + 1
    deeper(sys.getrecursionlimit() - used - 50)

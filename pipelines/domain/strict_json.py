"""RFC 8259 JSON with limits, so that the JVM can read the same: what is refused there is refused here too.

Jackson's own limits (2.20, StreamReadConstraints) are 1000 levels, of which the job uses one to wrap the text; 1000
digits in a number; 50 000 UTF-16 units in a name. How it counts a number's digits depends on the first one and on where
in the text the number lies, and how large an exponent it takes on the number's length, so the limits on numbers here
are simpler and never wider.

Python's own decoder accepts NaN and Infinity, and it depends on the depth of the call stack for deep nesting. A text
that is too short to pass a limit takes it all the same; longer ones, and any that it finds too deep, are read by
`_Reader`, which keeps its own stack.
"""

from __future__ import annotations

import json
import re

MAX_NESTING = 999
MAX_NUMBER_CHARACTERS = 1_000
MAX_EXPONENT_DIGITS = 9
MAX_NAME_UTF16_UNITS = 50_000

_SHORT = min(MAX_NESTING, MAX_NUMBER_CHARACTERS, MAX_NAME_UTF16_UNITS // 2)
_TOKEN = re.compile(
    r"[ \t\r\n]*(?:"
    r"(?P<mark>[{}\[\],:])"
    r'|(?P<string>"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*")'
    r"|(?P<number>-?(?:0|[1-9][0-9]*)(?P<float>(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?))"
    r"|(?P<word>true|false|null))"
)
_END = re.compile(r"[ \t\r\n]*\Z")
# The escape of half a surrogate pair, in a text whose escaped backslashes have been replaced. Java reads it the same.
HALF_PAIR = (
    r"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|[c-fC-F][0-9a-fA-F]{2}(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))"
)
_WORDS = {"true": True, "false": False, "null": None}
# What may come next. A bracket may close right after it opens and after a value, not after a comma.
_VALUE, _VALUE_OR_CLOSE, _NAME, _NAME_OR_CLOSE, _COLON, _COMMA_OR_CLOSE, _NOTHING = range(7)
_CLOSES = {("}", _NAME_OR_CLOSE), ("}", _COMMA_OR_CLOSE), ("]", _VALUE_OR_CLOSE), ("]", _COMMA_OR_CLOSE)}


class NotJson(ValueError):
    """The text is not one strict JSON text, or passes a limit."""


def _refuse_constant(name: str) -> object:
    raise NotJson(f"{name} is not JSON")


def _float(literal: str) -> float:
    exponent = literal.lower().partition("e")[2].lstrip("+-")
    if len(exponent) > MAX_EXPONENT_DIGITS:
        raise NotJson("an exponent is too long")
    return float(literal)


_decode = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_float).decode


def loads(text: str) -> object:
    """Read one JSON text with optional whitespace around it.

    Objects become dicts (of equal names the last wins), arrays lists; integer literals become int, every other number
    float.

    Raises:
        NotJson: Anything else, also trailing characters, a byte order mark, and the escape of half a surrogate pair,
            which stands for no character.
    """
    value = _read(text)
    if "\\u" in text and re.search(HALF_PAIR, text.replace(r"\\", "x")):
        raise NotJson("half a surrogate pair")
    return value


def _read(text: str) -> object:
    try:
        return _decode(text) if len(text) <= _SHORT else _Reader(text).read()
    except RecursionError:  # the caller's stack counts too, so this says nothing about the text
        return _Reader(text).read()
    except ValueError as error:
        raise NotJson(str(error)) from None


class _Reader:
    """Reads one text with a stack of its own, so that depth is a limit of the format and not of the interpreter."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._next = _VALUE
        self._root: object = None
        self._open: list[dict[str, object] | list[object]] = []
        self._names: list[str] = []  # one per open object, the member being read

    def read(self) -> object:
        while self._next != _NOTHING:
            token = _TOKEN.match(self._text, self._position)
            if token is None:
                raise NotJson(f"no JSON token at {self._position}")
            self._position = token.end()
            if mark := token["mark"]:
                self._mark(mark)
            elif string := token["string"]:
                self._string(str(_decode(string)))
            elif token["number"]:
                self._put(_number(token))
            else:
                self._put(_WORDS[token["word"]])
        if _END.match(self._text, self._position) is None:
            raise NotJson(f"trailing characters at {self._position}")
        return self._root

    def _string(self, decoded: str) -> None:
        if self._next not in (_NAME, _NAME_OR_CLOSE):
            self._put(decoded)
            return
        if len(decoded.encode("utf-16-le", "surrogatepass")) > MAX_NAME_UTF16_UNITS * 2:
            raise NotJson("a name is too long")
        self._names.append(decoded)
        self._next = _COLON

    def _mark(self, mark: str) -> None:
        inside = type(self._open[-1]) if self._open else None
        if mark in "{[":
            self._put({} if mark == "{" else [])
        elif mark == ":" and self._next == _COLON:
            self._next = _VALUE
        elif mark == "," and self._next == _COMMA_OR_CLOSE:
            self._next = _NAME if inside is dict else _VALUE
        elif (mark, self._next) in _CLOSES and inside is (dict if mark == "}" else list):
            self._close()
        else:
            raise NotJson(f"unexpected {mark} at {self._position}")

    def _close(self) -> None:
        self._open.pop()
        self._next = _COMMA_OR_CLOSE if self._open else _NOTHING

    def _put(self, value: object) -> None:
        if self._next not in (_VALUE, _VALUE_OR_CLOSE):
            raise NotJson(f"unexpected value at {self._position}")
        if not self._open:
            self._root = value
        elif isinstance(into := self._open[-1], dict):
            into[self._names.pop()] = value
        else:
            into.append(value)
        self._next = _COMMA_OR_CLOSE if self._open else _NOTHING
        if isinstance(value, (dict, list)):
            self._open.append(value)
            self._next = _NAME_OR_CLOSE if isinstance(value, dict) else _VALUE_OR_CLOSE
            if len(self._open) > MAX_NESTING:
                raise NotJson("nested too deep")


def _number(token: re.Match[str]) -> int | float:
    literal = token["number"]
    if len(literal) > MAX_NUMBER_CHARACTERS:
        raise NotJson("a number is too long")
    return _float(literal) if token["float"] else int(literal)

"""Reading a file of lines as bytes, whatever is in them, in bounded memory."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from pipelines.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator

STANDARD = "-"
_CHUNK_BYTES = 1 << 20


class Line(NamedTuple):
    r"""What stands before one "\n", or after the last.

    Fields:
        number: 1 and up.
        size: Its length in bytes, without the "\n".
        value: Its bytes, a "\r" included; None if there are more than was asked for.
    """

    number: int
    size: int
    value: bytes | None


def read_lines(stream: BinaryIO, limit_bytes: int) -> Iterator[Line]:
    r"""Every line; empty ones too. A "\n" at the very end begins no further line.

    Args:
        stream: What to read.
        limit_bytes: A longer line is read past, not kept.
    """
    number = 0
    while read := stream.readline(limit_bytes + 1):
        number += 1
        if read.endswith(b"\n"):
            yield Line(number, len(read) - 1, read[:-1])
        elif len(read) <= limit_bytes:
            yield Line(number, len(read), read)
        else:
            size = len(read)
            while not read.endswith(b"\n") and (read := stream.readline(_CHUNK_BYTES)):
                size += len(read)
            yield Line(number, size - read.endswith(b"\n"), None)


@contextmanager
def opened_input(name: str) -> Iterator[BinaryIO]:
    """A file to read, or standard input for "-".

    Raises:
        BadInput: It cannot be read.
    """
    if name == STANDARD:
        yield sys.stdin.buffer
        return
    try:
        with Path(name).open("rb") as stream:
            yield stream
    except OSError as error:
        raise BadInput(f"{name} cannot be read: {error.strerror}") from None


@contextmanager
def opened_output(name: str) -> Iterator[BinaryIO]:
    """A file to write anew, or standard output for "-".

    Raises:
        BadInput: It cannot be written.
    """
    if name == STANDARD:
        yield sys.stdout.buffer
        return
    try:
        with Path(name).open("wb") as stream:
            yield stream
    except OSError as error:
        raise BadInput(f"{name} cannot be written: {error.strerror}") from None

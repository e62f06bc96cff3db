"""One error tree for everything a person can meet.

Two kinds: what the operator can fix (`LikesError`, printed as one line with its remedy and an exit code of its own)
and what is a bug (any other exception, exit code 1). Expected bad data is never an exception: it is a dead letter.
"""

from __future__ import annotations

import errno
from typing import ClassVar


class LikesError(Exception):
    """Something the operator can fix.

    Args:
        message: What is wrong, in one sentence without a trailing full stop.
        remedy: What to do about it, as an imperative; may be empty.
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


class Refused(LikesError):
    """A request that would make counts wrong, or that another job's lease forbids. Exit code 3."""

    exit_code = 3


class SettingError(LikesError):
    """A setting that is unknown, missing or impossible; the message names it. Exit code 4."""

    exit_code = 4


class ServiceUnavailable(LikesError):
    """Kafka, Cassandra, Redis, Flink, Java or Maven cannot be reached; the message names it. Exit code 5."""

    exit_code = 5


class BadInput(LikesError):
    """A file or argument that cannot be read as what it should be. Exit code 6."""

    exit_code = 6


class JobFailed(LikesError):
    """The Flink job ended in failure; the message carries the first cause. Exit code 7."""

    exit_code = 7


class Superseded(LikesError):
    """A writer was outranked by a newer epoch or lost its lease; it must stop writing. Exit code 8."""

    exit_code = 8


_FILE_SYSTEM = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOENT, errno.ENOTDIR}


def of_file_system(error: OSError) -> LikesError | None:
    """What the operator can mend about a file, None where the error is of another kind."""
    if error.errno not in _FILE_SYSTEM:
        return None
    what = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
    return BadInput(what, "files go where LIKES_STACK_DIR, LIKES_CACHE_DIR and job.state_dir say")

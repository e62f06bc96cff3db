"""When a job that Flink restarts again and again is given up."""

from __future__ import annotations

# A service that is away comes back, and nothing is lost meanwhile: its failures never count.
_AWAY = ("ServiceUnavailable", "org.apache.kafka.common.errors")
# Of Kafka's, these do not pass.
_LASTING = ("RecordTooLarge", "OffsetOutOfRange", "NoOffsetForPartition", "Authorization", "InvalidTopic")


class Patience:
    """Counts failures of one kind in a row that let nothing be saved between them.

    Args:
        limit: So many are too many.
    """

    def __init__(self, limit: int = 10) -> None:
        self.limit = limit
        self._failures = 0
        self._cause = ""
        self._saved = 0

    def is_over(self, cause: str, saved: int) -> bool:
        """Note a failure.

        Args:
            cause: What failed, in one line.
            saved: How many checkpoints the job has completed so far.

        Returns:
            Whether the job will not get any further by trying again.
        """
        again = cause == self._cause and saved == self._saved and not _passes(cause)
        self._failures = self._failures + 1 if again else 1
        self._cause, self._saved = cause, saved
        return self._failures >= self.limit


def _passes(cause: str) -> bool:
    return any(away in cause for away in _AWAY) and not any(lasting in cause for lasting in _LASTING)

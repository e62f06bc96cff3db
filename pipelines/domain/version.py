"""The version of one stored total: (generation, epoch, changes), packed into 63 bits so that it orders as an integer.

    bits 62..54  generation   9 bits, one counting from offset 0 under one set of rules
    bits 53..33  epoch       21 bits, the fencing number of the writing attempt, newer for every start or restart
    bits 32..0   changes     33 bits, register changes and touches of that content and region in the running state

Whatever a restarted writer stores outranks all that ran before it. Cassandra takes the packed version as the write's
timestamp; Redis compares it as fixed-width text.
"""

from __future__ import annotations

from typing import NamedTuple

from pipelines.domain.bounds import check_part

GENERATION_BITS, EPOCH_BITS, CHANGES_BITS = 9, 21, 33
EPOCH_SHIFT = CHANGES_BITS
GENERATION_SHIFT = CHANGES_BITS + EPOCH_BITS


class Version(NamedTuple):
    """A version taken apart. Compares like its packed form.

    Fields:
        generation: Which counting, 0..511.
        epoch: Fencing number of the writer, 0..2097151.
        changes: Changes and touches counted so far, 0..8589934591.
    """

    generation: int
    epoch: int
    changes: int

    def pack(self) -> int:
        """Pack the version.

        Raises:
            PartOverflow: A part does not fit; the message names it.
        """
        check_part("generation", self.generation, GENERATION_BITS)
        check_part("epoch", self.epoch, EPOCH_BITS)
        check_part("changes", self.changes, CHANGES_BITS)
        return self.generation << GENERATION_SHIFT | self.epoch << EPOCH_SHIFT | self.changes

    @classmethod
    def unpack(cls, packed: int) -> Version:
        """Take a packed version apart.

        Raises:
            PartOverflow: `packed` is negative or over 63 bits.
        """
        check_part("version", packed, GENERATION_BITS + GENERATION_SHIFT)
        return cls(
            packed >> GENERATION_SHIFT,
            packed >> EPOCH_SHIFT & ((1 << EPOCH_BITS) - 1),
            packed & ((1 << CHANGES_BITS) - 1),
        )

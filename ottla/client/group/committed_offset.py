"""How far a group has come in one partition. Decision: no I/O."""

from typing import NamedTuple

from kafkawire.ids import LeaderEpoch, Offset

NO_OFFSET = Offset(-1)


class CommittedOffset(NamedTuple):
    """The offset of the next record to be read.

    `leader_epoch` is the one of the record before it, -1 where unknown: by it a log that was cut
    off is recognised (KIP-320). `metadata` is a note of whoever committed.
    """

    offset: Offset
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    metadata: str = ""

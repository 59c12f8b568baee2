"""How far a group has come in one partition. Decision: no I/O."""

from collections.abc import Mapping
from typing import NamedTuple

from kafkawire.ids import LeaderEpoch, Offset, TopicPartition

NO_OFFSET = Offset(-1)


class CommittedOffset(NamedTuple):
    """The offset of the next record to be read.

    `leader_epoch` is the one of the record before it, -1 where unknown: by it a log that was cut
    off is recognised (KIP-320). `metadata` is a note of whoever committed.
    """

    offset: Offset
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    metadata: str = ""


def parse_commit(
    offsets: Mapping[TopicPartition, int | CommittedOffset],
) -> dict[TopicPartition, CommittedOffset]:
    """Return what a user wants to commit, plain numbers as offsets without an epoch.

    Raises:
        ValueError: an offset is negative.
    """
    wanted = {}
    for each, at in offsets.items():
        committed = at if isinstance(at, CommittedOffset) else CommittedOffset(Offset(at))
        if committed.offset < 0:
            raise ValueError(f"an offset is 0 or more, got {committed.offset} for {each}")
        wanted[TopicPartition(*each)] = committed
    return wanted

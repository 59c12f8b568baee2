"""The progress of a group in one partition. Decision: no I/O."""

from collections.abc import Mapping
from typing import NamedTuple

from kafkawire.ids import LeaderEpoch, Offset, TopicPartition

NO_OFFSET = Offset(-1)


class CommittedOffset(NamedTuple):
    """A committed offset: that of the next record to read.

    `leader_epoch` is the epoch of the record before it, -1 if unknown; it reveals a truncated log
    (KIP-320). `metadata` is free text of the committing application.
    """

    offset: Offset
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    metadata: str = ""


def parse_commit(
    offsets: Mapping[TopicPartition, int | CommittedOffset],
) -> dict[TopicPartition, CommittedOffset]:
    """Return the offsets that a user commits; a plain number is an offset without an epoch.

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

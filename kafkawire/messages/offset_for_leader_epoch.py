"""Declares OffsetForLeaderEpoch, for the end offset of a leader epoch (decision)."""

from collections.abc import Sequence

from kafkawire.schema import INT16, INT32, INT64, STRING, array, field, message, struct


@struct
class OffsetForLeaderPartition:
    partition: int = field(INT32)
    current_leader_epoch: int = field(INT32, since=2, default=-1, ignorable=True)
    leader_epoch: int = field(INT32)


@struct
class OffsetForLeaderTopic:
    topic: str = field(STRING)
    partitions: Sequence[OffsetForLeaderPartition] = field(array(OffsetForLeaderPartition))


@message(versions=(0, 4), flexible=4)
class OffsetForLeaderEpochRequest:
    """Request for the end offsets of leader epochs."""

    replica_id: int = field(INT32, since=3, default=-2, ignorable=True)
    topics: Sequence[OffsetForLeaderTopic] = field(array(OffsetForLeaderTopic))


@struct
class EpochEndOffset:
    error_code: int = field(INT16)
    partition: int = field(INT32)
    leader_epoch: int = field(INT32, since=1, default=-1, ignorable=True)
    end_offset: int = field(INT64, default=-1)


@struct
class OffsetForLeaderTopicResult:
    topic: str = field(STRING)
    partitions: Sequence[EpochEndOffset] = field(array(EpochEndOffset))


@message(versions=(0, 4), flexible=4)
class OffsetForLeaderEpochResponse:
    """The end offset of each epoch, to which a follower truncates."""

    throttle_time_ms: int = field(INT32, since=2, ignorable=True)
    topics: Sequence[OffsetForLeaderTopicResult] = field(array(OffsetForLeaderTopicResult))

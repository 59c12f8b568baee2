"""Declares ListOffsets, which finds offsets by time, and the ends of a log (decision)."""

from collections.abc import Mapping, Sequence
from typing import Final

from kafkawire.schema import INT8, INT16, INT32, INT64, STRING, array, field, message, since, struct
from kafkawire.sentinels import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)

TIMESTAMPS_SINCE: Final[Mapping[int, int]] = {
    LATEST_TIMESTAMP: 1,
    EARLIEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
}
"""First version with each timestamp that requests an end of the log or a special record."""


@struct
class ListOffsetsPartition:
    partition_index: int = field(INT32)
    current_leader_epoch: int = field(INT32, since=4, default=-1, ignorable=True)
    timestamp: int = field(INT64)
    max_num_offsets: int = field(INT32, until=0, default=1)


@struct
class ListOffsetsTopic:
    name: str = field(STRING)
    partitions: Sequence[ListOffsetsPartition] = field(array(ListOffsetsPartition))


@message(versions=(0, 10), flexible=6)
class ListOffsetsRequest:
    """Request for offsets by timestamp; -1 requests the end of the log, -2 its start."""

    replica_id: int = field(INT32)
    isolation_level: int = field(INT8, since=2)
    topics: Sequence[ListOffsetsTopic] = field(array(ListOffsetsTopic))
    timeout_ms: int = field(INT32, since=10, ignorable=True)


@struct
class ListOffsetsPartitionResponse:
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    old_style_offsets: Sequence[int] = field(array(INT64), until=0)
    timestamp: int = field(INT64, since=1, default=-1)
    offset: int = field(INT64, since=1, default=-1)
    leader_epoch: int = field(INT32, since=4, default=-1)


LEADER_EPOCHS_SINCE: Final = since(ListOffsetsPartitionResponse, "leader_epoch")
OFFSET_NOT_AVAILABLE_SINCE: Final = 5
"""First version whose clients know OFFSET_NOT_AVAILABLE."""


@struct
class ListOffsetsTopicResponse:
    name: str = field(STRING)
    partitions: Sequence[ListOffsetsPartitionResponse] = field(array(ListOffsetsPartitionResponse))


@message(versions=(0, 10), flexible=6)
class ListOffsetsResponse:
    """The first offset at or after each timestamp."""

    throttle_time_ms: int = field(INT32, since=2, ignorable=True)
    topics: Sequence[ListOffsetsTopicResponse] = field(array(ListOffsetsTopicResponse))

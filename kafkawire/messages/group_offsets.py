"""Declares OffsetCommit, OffsetFetch and OffsetDelete, for a group's progress (decision)."""

from collections.abc import Sequence
from typing import Final

from kafkawire.schema import BOOL, INT16, INT32, INT64, STRING, array, field, message, since, struct


@struct
class OffsetCommitRequestPartition:
    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)
    committed_leader_epoch: int = field(INT32, since=6, default=-1, ignorable=True)
    commit_timestamp: int = field(INT64, since=1, until=1, default=-1)
    committed_metadata: str | None = field(STRING, nullable=0)


@struct
class OffsetCommitRequestTopic:
    name: str = field(STRING)
    partitions: Sequence[OffsetCommitRequestPartition] = field(array(OffsetCommitRequestPartition))


@message(versions=(0, 9), flexible=8)
class OffsetCommitRequest:
    """Request to commit offsets of a group."""

    group_id: str = field(STRING)
    generation_id_or_member_epoch: int = field(INT32, since=1, default=-1, ignorable=True)
    member_id: str = field(STRING, since=1, ignorable=True)
    group_instance_id: str | None = field(STRING, since=7, nullable=7, default=None)
    retention_time_ms: int = field(INT64, since=2, until=4, default=-1, ignorable=True)
    topics: Sequence[OffsetCommitRequestTopic] = field(array(OffsetCommitRequestTopic))


@struct
class OffsetCommitResponsePartition:
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@struct
class OffsetCommitResponseTopic:
    name: str = field(STRING)
    partitions: Sequence[OffsetCommitResponsePartition] = field(
        array(OffsetCommitResponsePartition)
    )


@message(versions=(0, 9), flexible=8)
class OffsetCommitResponse:
    """The result for each offset."""

    throttle_time_ms: int = field(INT32, since=3, ignorable=True)
    topics: Sequence[OffsetCommitResponseTopic] = field(array(OffsetCommitResponseTopic))


@struct
class OffsetFetchRequestTopic:
    name: str = field(STRING)
    partition_indexes: Sequence[int] = field(array(INT32))


@struct
class OffsetFetchRequestTopics:
    name: str = field(STRING)
    partition_indexes: Sequence[int] = field(array(INT32))


@struct
class OffsetFetchRequestGroup:
    group_id: str = field(STRING)
    member_id: str | None = field(STRING, since=9, nullable=9, default=None, ignorable=True)
    member_epoch: int = field(INT32, since=9, default=-1, ignorable=True)
    topics: Sequence[OffsetFetchRequestTopics] | None = field(
        array(OffsetFetchRequestTopics), nullable=8
    )


@message(versions=(0, 9), flexible=6)
class OffsetFetchRequest:
    """Request for the committed offsets of a group or, from version 8 on, of several groups."""

    group_id: str = field(STRING, until=7)
    topics: Sequence[OffsetFetchRequestTopic] | None = field(
        array(OffsetFetchRequestTopic), until=7, nullable=2
    )
    groups: Sequence[OffsetFetchRequestGroup] = field(array(OffsetFetchRequestGroup), since=8)
    require_stable: bool = field(BOOL, since=7)


GROUPS_SINCE: Final = since(OffsetFetchRequest, "groups")
STABLE_SINCE: Final = since(OffsetFetchRequest, "require_stable")


@struct
class OffsetFetchResponsePartition:
    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)
    committed_leader_epoch: int = field(INT32, since=5, default=-1, ignorable=True)
    metadata: str | None = field(STRING, nullable=0)
    error_code: int = field(INT16)


@struct
class OffsetFetchResponseTopic:
    name: str = field(STRING)
    partitions: Sequence[OffsetFetchResponsePartition] = field(array(OffsetFetchResponsePartition))


@struct
class OffsetFetchResponsePartitions:
    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)
    committed_leader_epoch: int = field(INT32, default=-1, ignorable=True)
    metadata: str | None = field(STRING, nullable=8)
    error_code: int = field(INT16)


@struct
class OffsetFetchResponseTopics:
    name: str = field(STRING)
    partitions: Sequence[OffsetFetchResponsePartitions] = field(
        array(OffsetFetchResponsePartitions)
    )


@struct
class OffsetFetchResponseGroup:
    group_id: str = field(STRING)
    topics: Sequence[OffsetFetchResponseTopics] = field(array(OffsetFetchResponseTopics))
    error_code: int = field(INT16)


@message(versions=(0, 9), flexible=6)
class OffsetFetchResponse:
    """The committed offsets; -1 for a partition without one."""

    throttle_time_ms: int = field(INT32, since=3, ignorable=True)
    topics: Sequence[OffsetFetchResponseTopic] = field(array(OffsetFetchResponseTopic), until=7)
    error_code: int = field(INT16, since=2, until=7, ignorable=True)
    groups: Sequence[OffsetFetchResponseGroup] = field(array(OffsetFetchResponseGroup), since=8)


ERROR_CODE_SINCE: Final = since(OffsetFetchResponse, "error_code")


@struct
class OffsetDeleteRequestPartition:
    partition_index: int = field(INT32)


@struct
class OffsetDeleteRequestTopic:
    name: str = field(STRING)
    partitions: Sequence[OffsetDeleteRequestPartition] = field(array(OffsetDeleteRequestPartition))


@message(versions=(0, 0))
class OffsetDeleteRequest:
    """Request to delete the committed offsets of partitions."""

    group_id: str = field(STRING)
    topics: Sequence[OffsetDeleteRequestTopic] = field(array(OffsetDeleteRequestTopic))


@struct
class OffsetDeleteResponsePartition:
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@struct
class OffsetDeleteResponseTopic:
    name: str = field(STRING)
    partitions: Sequence[OffsetDeleteResponsePartition] = field(
        array(OffsetDeleteResponsePartition)
    )


@message(versions=(0, 0))
class OffsetDeleteResponse:
    """The result for each partition."""

    error_code: int = field(INT16)
    throttle_time_ms: int = field(INT32, ignorable=True)
    topics: Sequence[OffsetDeleteResponseTopic] = field(array(OffsetDeleteResponseTopic))

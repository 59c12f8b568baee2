"""Declares DeleteRecords, which raises log start offsets (decision)."""

from collections.abc import Sequence

from kafkawire.schema import INT16, INT32, INT64, STRING, array, field, message, struct


@struct
class DeleteRecordsPartition:
    partition_index: int = field(INT32)
    offset: int = field(INT64)


@struct
class DeleteRecordsTopic:
    name: str = field(STRING)
    partitions: Sequence[DeleteRecordsPartition] = field(array(DeleteRecordsPartition))


@message(versions=(0, 2), flexible=2)
class DeleteRecordsRequest:
    """Request to delete all records below given offsets; -1 means the high watermark."""

    topics: Sequence[DeleteRecordsTopic] = field(array(DeleteRecordsTopic))
    timeout_ms: int = field(INT32)


@struct
class DeleteRecordsPartitionResult:
    partition_index: int = field(INT32)
    low_watermark: int = field(INT64)
    error_code: int = field(INT16)


@struct
class DeleteRecordsTopicResult:
    name: str = field(STRING)
    partitions: Sequence[DeleteRecordsPartitionResult] = field(array(DeleteRecordsPartitionResult))


@message(versions=(0, 2), flexible=2)
class DeleteRecordsResponse:
    """The new log start offset of each partition."""

    throttle_time_ms: int = field(INT32)
    topics: Sequence[DeleteRecordsTopicResult] = field(array(DeleteRecordsTopicResult))

"""Declares DescribeLogDirs (decision)."""

from collections.abc import Sequence

from kafkawire.schema import BOOL, INT16, INT32, INT64, STRING, array, field, message, struct


@struct
class DescribableLogDirTopic:
    topic: str = field(STRING)
    partitions: Sequence[int] = field(array(INT32))


@message(versions=(0, 4), flexible=2)
class DescribeLogDirsRequest:
    """Request for the content of the log directories; `topics` None requests all topics."""

    topics: Sequence[DescribableLogDirTopic] | None = field(
        array(DescribableLogDirTopic), nullable=0
    )


@struct
class DescribeLogDirsPartition:
    partition_index: int = field(INT32)
    partition_size: int = field(INT64)
    offset_lag: int = field(INT64)
    is_future_key: bool = field(BOOL)


@struct
class DescribeLogDirsTopic:
    name: str = field(STRING)
    partitions: Sequence[DescribeLogDirsPartition] = field(array(DescribeLogDirsPartition))


@struct
class DescribeLogDirsResult:
    error_code: int = field(INT16)
    log_dir: str = field(STRING)
    topics: Sequence[DescribeLogDirsTopic] = field(array(DescribeLogDirsTopic))
    total_bytes: int = field(INT64, since=4, default=-1, ignorable=True)
    usable_bytes: int = field(INT64, since=4, default=-1, ignorable=True)


@message(versions=(0, 4), flexible=2)
class DescribeLogDirsResponse:
    """The sizes and lags of the replicas in each log directory."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, since=3, ignorable=True)
    results: Sequence[DescribeLogDirsResult] = field(array(DescribeLogDirsResult))

"""Declares AlterReplicaLogDirs (decision)."""

from collections.abc import Sequence

from kafkawire.schema import INT16, INT32, STRING, array, field, message, struct


@struct
class AlterReplicaLogDirTopic:
    name: str = field(STRING)
    partitions: Sequence[int] = field(array(INT32))


@struct
class AlterReplicaLogDir:
    path: str = field(STRING)
    topics: Sequence[AlterReplicaLogDirTopic] = field(array(AlterReplicaLogDirTopic))


@message(versions=(0, 2), flexible=2)
class AlterReplicaLogDirsRequest:
    """Request to move replicas of this broker to other log directories."""

    dirs: Sequence[AlterReplicaLogDir] = field(array(AlterReplicaLogDir))


@struct
class AlterReplicaLogDirPartitionResult:
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@struct
class AlterReplicaLogDirTopicResult:
    topic_name: str = field(STRING)
    partitions: Sequence[AlterReplicaLogDirPartitionResult] = field(
        array(AlterReplicaLogDirPartitionResult)
    )


@message(versions=(0, 2), flexible=2)
class AlterReplicaLogDirsResponse:
    """The result of starting each move; DescribeLogDirs reports the progress."""

    throttle_time_ms: int = field(INT32)
    results: Sequence[AlterReplicaLogDirTopicResult] = field(array(AlterReplicaLogDirTopicResult))

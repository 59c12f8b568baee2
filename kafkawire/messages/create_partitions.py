"""Declares CreatePartitions (decision)."""

from collections.abc import Sequence

from kafkawire.schema import BOOL, INT16, INT32, STRING, array, field, message, struct


@struct
class CreatePartitionsAssignment:
    broker_ids: Sequence[int] = field(array(INT32))


@struct
class CreatePartitionsTopic:
    name: str = field(STRING)
    count: int = field(INT32)
    assignments: Sequence[CreatePartitionsAssignment] | None = field(
        array(CreatePartitionsAssignment), nullable=0
    )


@message(versions=(0, 3), flexible=2)
class CreatePartitionsRequest:
    """Request to raise the number of partitions of topics to `count`."""

    topics: Sequence[CreatePartitionsTopic] = field(array(CreatePartitionsTopic))
    timeout_ms: int = field(INT32)
    validate_only: bool = field(BOOL)


@struct
class CreatePartitionsTopicResult:
    name: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0, default=None)


@message(versions=(0, 3), flexible=2)
class CreatePartitionsResponse:
    """The result for each topic."""

    throttle_time_ms: int = field(INT32)
    results: Sequence[CreatePartitionsTopicResult] = field(array(CreatePartitionsTopicResult))

"""Declares Produce, which appends record batches to partitions (decision).

The codec slices `records` out of the request as a memoryview and touches none of their bytes. The
hot path uses `kafkawire.native`.
"""

from collections.abc import Sequence
from typing import Final

from kafkawire.schema import (
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    Records,
    array,
    field,
    message,
    struct,
)


@struct
class PartitionProduceData:
    index: int = field(INT32)
    records: Records | None = field(RECORDS)


@struct
class TopicProduceData:
    name: str = field(STRING)
    partition_data: Sequence[PartitionProduceData] = field(array(PartitionProduceData))


@message(versions=(0, 11), flexible=9)
class ProduceRequest:
    """Request to append batches.

    `acks` is 0 (no response), 1 (after the leader's append) or -1 (after that of all in-sync
    replicas). Versions 0 to 2 are declared so that they can be refused: their record format is not
    supported.
    """

    transactional_id: str | None = field(STRING, since=3, nullable=3, default=None)
    acks: int = field(INT16)
    timeout_ms: int = field(INT32)
    topic_data: Sequence[TopicProduceData] = field(array(TopicProduceData))


ZSTD_SINCE: Final = 7


@struct
class BatchIndexAndErrorMessage:
    batch_index: int = field(INT32)
    batch_index_error_message: str | None = field(STRING, nullable=8, default=None)


@struct
class LeaderIdAndEpoch:
    leader_id: int = field(INT32, default=-1)
    leader_epoch: int = field(INT32, default=-1)


@struct
class PartitionProduceResponse:
    index: int = field(INT32)
    error_code: int = field(INT16)
    base_offset: int = field(INT64)
    log_append_time_ms: int = field(INT64, since=2, default=-1, ignorable=True)
    log_start_offset: int = field(INT64, since=5, default=-1, ignorable=True)
    record_errors: Sequence[BatchIndexAndErrorMessage] = field(
        array(BatchIndexAndErrorMessage), since=8, ignorable=True
    )
    error_message: str | None = field(STRING, since=8, nullable=8, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, since=10, tag=0)


@struct
class TopicProduceResponse:
    name: str = field(STRING)
    partition_responses: Sequence[PartitionProduceResponse] = field(array(PartitionProduceResponse))


@struct
class NodeEndpoint:
    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable=10, default=None)


@message(versions=(0, 11), flexible=9)
class ProduceResponse:
    """The offset or the error of each batch."""

    responses: Sequence[TopicProduceResponse] = field(array(TopicProduceResponse))
    throttle_time_ms: int = field(INT32, since=1, ignorable=True)
    node_endpoints: Sequence[NodeEndpoint] = field(array(NodeEndpoint), since=10, tag=0)

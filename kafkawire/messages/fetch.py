"""Declares Fetch, with which consumers and followers read record batches (decision).

`encode_parts` passes `records` through, so that a region of a file reaches the socket without being
read. The hot path uses `kafkawire.native`.
"""

import uuid
from collections.abc import Sequence
from typing import Final

from kafkawire.schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UUID,
    Records,
    array,
    field,
    message,
    since,
    struct,
)


@struct
class ReplicaState:
    replica_id: int = field(INT32, default=-1)
    replica_epoch: int = field(INT64, default=-1)


@struct
class FetchPartition:
    partition: int = field(INT32)
    current_leader_epoch: int = field(INT32, since=9, default=-1, ignorable=True)
    fetch_offset: int = field(INT64)
    last_fetched_epoch: int = field(INT32, since=12, default=-1)
    log_start_offset: int = field(INT64, since=5, default=-1, ignorable=True)
    partition_max_bytes: int = field(INT32)
    replica_directory_id: uuid.UUID = field(UUID, since=17, tag=0, ignorable=True)


@struct
class FetchTopic:
    topic: str = field(STRING, until=12, ignorable=True)
    topic_id: uuid.UUID = field(UUID, since=13, ignorable=True)
    partitions: Sequence[FetchPartition] = field(array(FetchPartition))


TOPIC_IDS_SINCE: Final = since(FetchTopic, "topic_id")
ZSTD_SINCE: Final = 10
STORAGE_ERROR_SINCE: Final = 6
"""First version whose clients know KAFKA_STORAGE_ERROR."""


@struct
class ForgottenTopic:
    topic: str = field(STRING, until=12, ignorable=True)
    topic_id: uuid.UUID = field(UUID, since=13, ignorable=True)
    partitions: Sequence[int] = field(array(INT32))


@message(versions=(4, 17), flexible=12)
class FetchRequest:
    """Request for batches from given offsets on, completed by `min_bytes` or `max_wait_ms`.

    A follower sets `replica_id`, or `replica_state` from version 15 on.
    """

    cluster_id: str | None = field(
        STRING, since=12, nullable=12, default=None, tag=0, ignorable=True
    )
    replica_id: int = field(INT32, until=14, default=-1)
    replica_state: ReplicaState = field(ReplicaState, since=15, tag=1)
    max_wait_ms: int = field(INT32)
    min_bytes: int = field(INT32)
    max_bytes: int = field(INT32, default=2147483647, ignorable=True)
    isolation_level: int = field(INT8, ignorable=True)
    session_id: int = field(INT32, since=7, ignorable=True)
    session_epoch: int = field(INT32, since=7, default=-1, ignorable=True)
    topics: Sequence[FetchTopic] = field(array(FetchTopic))
    forgotten_topics_data: Sequence[ForgottenTopic] = field(array(ForgottenTopic), since=7)
    rack_id: str = field(STRING, since=11, ignorable=True)


BROKER_EPOCHS_SINCE: Final = since(FetchRequest, "replica_state")


@struct
class EpochEndOffset:
    epoch: int = field(INT32, default=-1)
    end_offset: int = field(INT64, default=-1)


@struct
class LeaderIdAndEpoch:
    leader_id: int = field(INT32, default=-1)
    leader_epoch: int = field(INT32, default=-1)


@struct
class SnapshotId:
    end_offset: int = field(INT64, default=-1)
    epoch: int = field(INT32, default=-1)


@struct
class AbortedTransaction:
    producer_id: int = field(INT64)
    first_offset: int = field(INT64)


@struct
class PartitionData:
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    high_watermark: int = field(INT64)
    last_stable_offset: int = field(INT64, default=-1, ignorable=True)
    log_start_offset: int = field(INT64, since=5, default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = field(EpochEndOffset, since=12, tag=0)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, since=12, tag=1)
    snapshot_id: SnapshotId = field(SnapshotId, since=12, tag=2)
    aborted_transactions: Sequence[AbortedTransaction] | None = field(
        array(AbortedTransaction), nullable=4, ignorable=True
    )
    preferred_read_replica: int = field(INT32, since=11, default=-1)
    records: Records | None = field(RECORDS)


DIVERGING_EPOCHS_SINCE: Final = since(PartitionData, "diverging_epoch")


@struct
class FetchableTopicResponse:
    topic: str = field(STRING, until=12, ignorable=True)
    topic_id: uuid.UUID = field(UUID, since=13, ignorable=True)
    partitions: Sequence[PartitionData] = field(array(PartitionData))


@struct
class NodeEndpoint:
    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable=16, default=None)


@message(versions=(4, 17), flexible=12)
class FetchResponse:
    """The batches of each partition, with its high watermark and last stable offset."""

    throttle_time_ms: int = field(INT32, ignorable=True)
    error_code: int = field(INT16, since=7, ignorable=True)
    session_id: int = field(INT32, since=7)
    responses: Sequence[FetchableTopicResponse] = field(array(FetchableTopicResponse))
    node_endpoints: Sequence[NodeEndpoint] = field(array(NodeEndpoint), since=16, tag=0)

"""Declares the requests that add to a transaction and end it (decision).

Producers send AddPartitionsToTxn, AddOffsetsToTxn and EndTxn to the transaction coordinator, and
TxnOffsetCommit to the group coordinator. The transaction coordinator sends WriteTxnMarkers to the
leaders of the transaction's partitions; a leader verifies partitions with AddPartitionsToTxn from
version 4 on (KIP-890).
"""

from collections.abc import Sequence
from typing import Final

from kafkawire.schema import BOOL, INT16, INT32, INT64, STRING, array, field, message, since, struct


@struct
class AddPartitionsToTxnTopic:
    name: str = field(STRING)
    partitions: Sequence[int] = field(array(INT32))


@struct
class AddPartitionsToTxnTransaction:
    """One transaction of a batched request; `verify_only` asks and adds nothing."""

    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    verify_only: bool = field(BOOL)
    topics: Sequence[AddPartitionsToTxnTopic] = field(array(AddPartitionsToTxnTopic))


@message(versions=(0, 5), flexible=3)
class AddPartitionsToTxnRequest:
    """Request to add partitions to one transaction or, from version 4 on, to several."""

    transactions: Sequence[AddPartitionsToTxnTransaction] = field(
        array(AddPartitionsToTxnTransaction), since=4
    )
    v3_and_below_transactional_id: str = field(STRING, until=3)
    v3_and_below_producer_id: int = field(INT64, until=3)
    v3_and_below_producer_epoch: int = field(INT16, until=3)
    v3_and_below_topics: Sequence[AddPartitionsToTxnTopic] = field(
        array(AddPartitionsToTxnTopic), until=3
    )


TRANSACTIONS_SINCE: Final = since(AddPartitionsToTxnRequest, "transactions")
"""First version for brokers: several transactions in one request, with `verify_only`."""


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: int = field(INT32)
    partition_error_code: int = field(INT16)


@struct
class AddPartitionsToTxnTopicResult:
    name: str = field(STRING)
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = field(
        array(AddPartitionsToTxnPartitionResult)
    )


@struct
class AddPartitionsToTxnResult:
    transactional_id: str = field(STRING)
    topic_results: Sequence[AddPartitionsToTxnTopicResult] = field(
        array(AddPartitionsToTxnTopicResult)
    )


@message(versions=(0, 5), flexible=3)
class AddPartitionsToTxnResponse:
    """The result for each partition."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, since=4, ignorable=True)
    results_by_transaction: Sequence[AddPartitionsToTxnResult] = field(
        array(AddPartitionsToTxnResult), since=4
    )
    results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = field(
        array(AddPartitionsToTxnTopicResult), until=3
    )


@message(versions=(0, 4), flexible=3)
class AddOffsetsToTxnRequest:
    """Request to add a group's partition of `__consumer_offsets` to a transaction."""

    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    group_id: str = field(STRING)


@message(versions=(0, 4), flexible=3)
class AddOffsetsToTxnResponse:
    """Whether the group's partition is in the transaction."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)


@message(versions=(0, 4), flexible=3)
class EndTxnRequest:
    """Request to commit or abort a transaction."""

    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    committed: bool = field(BOOL)


@message(versions=(0, 4), flexible=3)
class EndTxnResponse:
    """Whether the decision is durable; the markers follow."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)


@struct
class WritableTxnMarkerTopic:
    name: str = field(STRING)
    partition_indexes: Sequence[int] = field(array(INT32))


@struct
class WritableTxnMarker:
    """The end of one producer's transaction; `transaction_result` is true for a commit."""

    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    transaction_result: bool = field(BOOL)
    topics: Sequence[WritableTxnMarkerTopic] = field(array(WritableTxnMarkerTopic))
    coordinator_epoch: int = field(INT32)


@message(versions=(0, 1), flexible=1)
class WriteTxnMarkersRequest:
    """Request to end transactions in the logs that the broker leads."""

    markers: Sequence[WritableTxnMarker] = field(array(WritableTxnMarker))


@struct
class WritableTxnMarkerPartitionResult:
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@struct
class WritableTxnMarkerTopicResult:
    name: str = field(STRING)
    partitions: Sequence[WritableTxnMarkerPartitionResult] = field(
        array(WritableTxnMarkerPartitionResult)
    )


@struct
class WritableTxnMarkerResult:
    producer_id: int = field(INT64)
    topics: Sequence[WritableTxnMarkerTopicResult] = field(array(WritableTxnMarkerTopicResult))


@message(versions=(0, 1), flexible=1)
class WriteTxnMarkersResponse:
    """The result for each marker and partition, after replication."""

    markers: Sequence[WritableTxnMarkerResult] = field(array(WritableTxnMarkerResult))


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)
    committed_leader_epoch: int = field(INT32, since=2, default=-1, ignorable=True)
    committed_metadata: str | None = field(STRING, nullable=0)


@struct
class TxnOffsetCommitRequestTopic:
    name: str = field(STRING)
    partitions: Sequence[TxnOffsetCommitRequestPartition] = field(
        array(TxnOffsetCommitRequestPartition)
    )


@message(versions=(0, 4), flexible=3)
class TxnOffsetCommitRequest:
    """Request to commit offsets of a group together with a transaction."""

    transactional_id: str = field(STRING)
    group_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    generation_id: int = field(INT32, since=3, default=-1)
    member_id: str = field(STRING, since=3)
    group_instance_id: str | None = field(STRING, since=3, nullable=3, default=None)
    topics: Sequence[TxnOffsetCommitRequestTopic] = field(array(TxnOffsetCommitRequestTopic))


MEMBER_SINCE: Final = since(TxnOffsetCommitRequest, "member_id")
"""First version with the member and generation of the group (KIP-447)."""


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@struct
class TxnOffsetCommitResponseTopic:
    name: str = field(STRING)
    partitions: Sequence[TxnOffsetCommitResponsePartition] = field(
        array(TxnOffsetCommitResponsePartition)
    )


@message(versions=(0, 4), flexible=3)
class TxnOffsetCommitResponse:
    """The result for each offset."""

    throttle_time_ms: int = field(INT32)
    topics: Sequence[TxnOffsetCommitResponseTopic] = field(array(TxnOffsetCommitResponseTopic))

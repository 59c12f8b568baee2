"""Declares DescribeProducers, which lists the producers of a partition (KIP-664) (decision)."""

from collections.abc import Sequence

from kafkawire.schema import INT16, INT32, INT64, STRING, array, field, message, struct


@struct
class DescribeProducersTopic:
    name: str = field(STRING)
    partition_indexes: Sequence[int] = field(array(INT32))


@message(versions=(0, 0), flexible=0)
class DescribeProducersRequest:
    """Request for the active producers of partitions."""

    topics: Sequence[DescribeProducersTopic] = field(array(DescribeProducersTopic))


@struct
class ProducerDescription:
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT32)
    last_sequence: int = field(INT32, default=-1)
    last_timestamp: int = field(INT64, default=-1)
    coordinator_epoch: int = field(INT32)
    current_txn_start_offset: int = field(INT64, default=-1)


@struct
class DescribeProducersPartition:
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0, default=None)
    active_producers: Sequence[ProducerDescription] = field(array(ProducerDescription))


@struct
class DescribeProducersResponseTopic:
    name: str = field(STRING)
    partitions: Sequence[DescribeProducersPartition] = field(array(DescribeProducersPartition))


@message(versions=(0, 0), flexible=0)
class DescribeProducersResponse:
    """The producers in the state of each partition's leader."""

    throttle_time_ms: int = field(INT32)
    topics: Sequence[DescribeProducersResponseTopic] = field(array(DescribeProducersResponseTopic))

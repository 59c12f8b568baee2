"""Declares AlterPartition, with which a leader proposes a change of the in-sync set (decision).

Kafka's request and response both have a TopicData and a PartitionData; here their names differ.
"""

import uuid
from collections.abc import Sequence
from typing import Final

from kafkawire.schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UUID,
    array,
    field,
    message,
    since,
    struct,
)


@struct
class BrokerState:
    broker_id: int = field(INT32)
    broker_epoch: int = field(INT64, default=-1)


@struct
class RequestPartitionData:
    partition_index: int = field(INT32)
    leader_epoch: int = field(INT32)
    new_isr: Sequence[int] = field(array(INT32), until=2)
    new_isr_with_epochs: Sequence[BrokerState] = field(array(BrokerState), since=3)
    leader_recovery_state: int = field(INT8, since=1)
    partition_epoch: int = field(INT32)


@struct
class RequestTopicData:
    topic_name: str = field(STRING, until=1, ignorable=True)
    topic_id: uuid.UUID = field(UUID, since=2, ignorable=True)
    partitions: Sequence[RequestPartitionData] = field(array(RequestPartitionData))


BROKER_EPOCHS_SINCE: Final = since(RequestPartitionData, "new_isr_with_epochs")
TOPIC_IDS_SINCE: Final = since(RequestTopicData, "topic_id")


@message(versions=(0, 3), flexible=0)
class AlterPartitionRequest:
    """Request to record in-sync sets, each guarded by the partition epoch it is based on."""

    broker_id: int = field(INT32)
    broker_epoch: int = field(INT64, default=-1)
    topics: Sequence[RequestTopicData] = field(array(RequestTopicData))


@struct
class ResponsePartitionData:
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32)
    isr: Sequence[int] = field(array(INT32))
    leader_recovery_state: int = field(INT8, since=1, ignorable=True)
    partition_epoch: int = field(INT32)


@struct
class ResponseTopicData:
    topic_name: str = field(STRING, until=1, ignorable=True)
    topic_id: uuid.UUID = field(UUID, since=2, ignorable=True)
    partitions: Sequence[ResponsePartitionData] = field(array(ResponsePartitionData))


@message(versions=(0, 3), flexible=0)
class AlterPartitionResponse:
    """The recorded state of each partition."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    topics: Sequence[ResponseTopicData] = field(array(ResponseTopicData))

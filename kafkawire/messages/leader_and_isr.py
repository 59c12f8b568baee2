"""Declares LeaderAndIsr, which sends a broker its roles as leader or follower (decision)."""

import uuid
from collections.abc import Sequence
from typing import Final

from kafkawire.schema import (
    BOOL,
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
class LeaderAndIsrPartitionState:
    topic_name: str = field(STRING, until=1, ignorable=True)
    partition_index: int = field(INT32)
    controller_epoch: int = field(INT32)
    leader: int = field(INT32)
    leader_epoch: int = field(INT32)
    isr: Sequence[int] = field(array(INT32))
    partition_epoch: int = field(INT32)
    replicas: Sequence[int] = field(array(INT32))
    adding_replicas: Sequence[int] = field(array(INT32), since=3, ignorable=True)
    removing_replicas: Sequence[int] = field(array(INT32), since=3, ignorable=True)
    is_new: bool = field(BOOL, since=1, ignorable=True)
    leader_recovery_state: int = field(INT8, since=6)


@struct
class LeaderAndIsrTopicState:
    topic_name: str = field(STRING)
    topic_id: uuid.UUID = field(UUID, since=5, ignorable=True)
    partition_states: Sequence[LeaderAndIsrPartitionState] = field(
        array(LeaderAndIsrPartitionState)
    )


TOPIC_IDS_SINCE: Final = since(LeaderAndIsrTopicState, "topic_id")


@struct
class LeaderAndIsrLiveLeader:
    broker_id: int = field(INT32)
    host_name: str = field(STRING)
    port: int = field(INT32)


@message(versions=(0, 7), flexible=4)
class LeaderAndIsrRequest:
    """Request to become leader or follower of partitions."""

    controller_id: int = field(INT32)
    is_kraft_controller: bool = field(BOOL, since=7)
    controller_epoch: int = field(INT32)
    broker_epoch: int = field(INT64, since=2, default=-1, ignorable=True)
    # A receiver that does not know this field treats every request as a full update.
    type: int = field(INT8, since=5, default=0, ignorable=True)
    ungrouped_partition_states: Sequence[LeaderAndIsrPartitionState] = field(
        array(LeaderAndIsrPartitionState), until=1
    )
    topic_states: Sequence[LeaderAndIsrTopicState] = field(array(LeaderAndIsrTopicState), since=2)
    live_leaders: Sequence[LeaderAndIsrLiveLeader] = field(array(LeaderAndIsrLiveLeader))


@struct
class LeaderAndIsrPartitionError:
    topic_name: str = field(STRING, until=4, ignorable=True)
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@struct
class LeaderAndIsrTopicError:
    topic_id: uuid.UUID = field(UUID)
    partition_errors: Sequence[LeaderAndIsrPartitionError] = field(
        array(LeaderAndIsrPartitionError)
    )


@message(versions=(0, 7), flexible=4)
class LeaderAndIsrResponse:
    """The result for each partition."""

    error_code: int = field(INT16)
    partition_errors: Sequence[LeaderAndIsrPartitionError] = field(
        array(LeaderAndIsrPartitionError), until=4
    )
    topics: Sequence[LeaderAndIsrTopicError] = field(array(LeaderAndIsrTopicError), since=5)

"""Declares UpdateMetadata, with which the controller sends brokers its metadata (decision)."""

import uuid
from collections.abc import Sequence

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
    struct,
)


@struct
class UpdateMetadataPartitionState:
    topic_name: str = field(STRING, until=4, ignorable=True)
    partition_index: int = field(INT32)
    controller_epoch: int = field(INT32)
    leader: int = field(INT32)
    leader_epoch: int = field(INT32)
    isr: Sequence[int] = field(array(INT32))
    zk_version: int = field(INT32)
    replicas: Sequence[int] = field(array(INT32))
    offline_replicas: Sequence[int] = field(array(INT32), since=4, ignorable=True)


@struct
class UpdateMetadataTopicState:
    topic_name: str = field(STRING)
    topic_id: uuid.UUID = field(UUID, since=7, ignorable=True)
    partition_states: Sequence[UpdateMetadataPartitionState] = field(
        array(UpdateMetadataPartitionState)
    )


@struct
class UpdateMetadataEndpoint:
    port: int = field(INT32)
    host: str = field(STRING)
    listener: str = field(STRING, since=3, ignorable=True)
    security_protocol: int = field(INT16)


@struct
class UpdateMetadataBroker:
    id: int = field(INT32)
    v0_host: str = field(STRING, until=0, ignorable=True)
    v0_port: int = field(INT32, until=0, ignorable=True)
    endpoints: Sequence[UpdateMetadataEndpoint] = field(
        array(UpdateMetadataEndpoint), since=1, ignorable=True
    )
    rack: str | None = field(STRING, since=2, nullable=0, ignorable=True)


@message(versions=(0, 8), flexible=6)
class UpdateMetadataRequest:
    """Request to serve this metadata from now on."""

    controller_id: int = field(INT32)
    is_kraft_controller: bool = field(BOOL, since=8)
    type: int = field(INT8, since=8, tag=0, ignorable=True)
    controller_epoch: int = field(INT32)
    broker_epoch: int = field(INT64, since=5, default=-1, ignorable=True)
    ungrouped_partition_states: Sequence[UpdateMetadataPartitionState] = field(
        array(UpdateMetadataPartitionState), until=4
    )
    topic_states: Sequence[UpdateMetadataTopicState] = field(
        array(UpdateMetadataTopicState), since=5
    )
    live_brokers: Sequence[UpdateMetadataBroker] = field(array(UpdateMetadataBroker))


@message(versions=(0, 8), flexible=6)
class UpdateMetadataResponse:
    """The error code: success, or the broker has seen a newer controller."""

    error_code: int = field(INT16)

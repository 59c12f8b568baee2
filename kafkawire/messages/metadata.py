"""Declares Metadata: brokers, topics, partitions and their leaders (decision)."""

import uuid
from collections.abc import Sequence
from typing import Final

from kafkawire.schema import BOOL, INT16, INT32, STRING, UUID, array, field, message, struct
from kafkawire.sentinels import OPERATIONS_NOT_ASKED_FOR


@struct
class MetadataRequestTopic:
    topic_id: uuid.UUID = field(UUID, since=10, ignorable=True)
    name: str | None = field(STRING, nullable=10)


@message(versions=(0, 12), flexible=9)
class MetadataRequest:
    """Request for the brokers, and for the leaders of topics.

    `topics` None requests all topics; in version 0 an empty array does.
    """

    topics: Sequence[MetadataRequestTopic] | None = field(array(MetadataRequestTopic), nullable=1)
    allow_auto_topic_creation: bool = field(BOOL, since=4, default=True)
    include_cluster_authorized_operations: bool = field(BOOL, since=8, until=10)
    include_topic_authorized_operations: bool = field(BOOL, since=8)


NULL_FOR_ALL_SINCE: Final = 1
LISTENER_NOT_FOUND_SINCE: Final = 6
"""First version whose clients know LISTENER_NOT_FOUND."""
TOPIC_IDS_SINCE: Final = 12
"""First version that may name topics by id; in versions 10 and 11 ids are in responses only."""


@struct
class MetadataResponseBroker:
    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, since=1, nullable=1, default=None, ignorable=True)


@struct
class MetadataResponsePartition:
    error_code: int = field(INT16)
    partition_index: int = field(INT32)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32, since=7, default=-1, ignorable=True)
    replica_nodes: Sequence[int] = field(array(INT32))
    isr_nodes: Sequence[int] = field(array(INT32))
    offline_replicas: Sequence[int] = field(array(INT32), since=5, ignorable=True)


@struct
class MetadataResponseTopic:
    error_code: int = field(INT16)
    name: str | None = field(STRING, nullable=12)
    topic_id: uuid.UUID = field(UUID, since=10, ignorable=True)
    is_internal: bool = field(BOOL, since=1, ignorable=True)
    partitions: Sequence[MetadataResponsePartition] = field(array(MetadataResponsePartition))
    topic_authorized_operations: int = field(INT32, since=8, default=OPERATIONS_NOT_ASKED_FOR)


@message(versions=(0, 12), flexible=9)
class MetadataResponse:
    """The cluster metadata of the responding broker."""

    throttle_time_ms: int = field(INT32, since=3, ignorable=True)
    brokers: Sequence[MetadataResponseBroker] = field(array(MetadataResponseBroker))
    cluster_id: str | None = field(STRING, since=2, nullable=2, default=None, ignorable=True)
    controller_id: int = field(INT32, since=1, default=-1, ignorable=True)
    topics: Sequence[MetadataResponseTopic] = field(array(MetadataResponseTopic))
    cluster_authorized_operations: int = field(
        INT32, since=8, until=10, default=OPERATIONS_NOT_ASKED_FOR
    )

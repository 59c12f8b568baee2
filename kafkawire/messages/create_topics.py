"""Declares CreateTopics (decision)."""

import uuid
from collections.abc import Sequence

from kafkawire.schema import BOOL, INT8, INT16, INT32, STRING, UUID, array, field, message, struct


@struct
class CreatableReplicaAssignment:
    partition_index: int = field(INT32)
    broker_ids: Sequence[int] = field(array(INT32))


@struct
class CreatableTopicConfig:
    name: str = field(STRING)
    value: str | None = field(STRING, nullable=0)


@struct
class CreatableTopic:
    name: str = field(STRING)
    num_partitions: int = field(INT32)
    replication_factor: int = field(INT16)
    assignments: Sequence[CreatableReplicaAssignment] = field(array(CreatableReplicaAssignment))
    configs: Sequence[CreatableTopicConfig] = field(array(CreatableTopicConfig))


@message(versions=(0, 7), flexible=5)
class CreateTopicsRequest:
    """Request to create topics, or only to validate that."""

    topics: Sequence[CreatableTopic] = field(array(CreatableTopic))
    timeout_ms: int = field(INT32, default=60000)
    validate_only: bool = field(BOOL, since=1)


@struct
class CreatableTopicConfigs:
    name: str = field(STRING)
    value: str | None = field(STRING, nullable=5)
    read_only: bool = field(BOOL)
    config_source: int = field(INT8, default=-1, ignorable=True)
    is_sensitive: bool = field(BOOL)


@struct
class CreatableTopicResult:
    name: str = field(STRING)
    topic_id: uuid.UUID = field(UUID, since=7, ignorable=True)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, since=1, nullable=0, ignorable=True)
    topic_config_error_code: int = field(INT16, since=5, tag=0, ignorable=True)
    num_partitions: int = field(INT32, since=5, default=-1, ignorable=True)
    replication_factor: int = field(INT16, since=5, default=-1, ignorable=True)
    configs: Sequence[CreatableTopicConfigs] | None = field(
        array(CreatableTopicConfigs), since=5, nullable=5, ignorable=True
    )


@message(versions=(0, 7), flexible=5)
class CreateTopicsResponse:
    """The result for each topic."""

    throttle_time_ms: int = field(INT32, since=2, ignorable=True)
    topics: Sequence[CreatableTopicResult] = field(array(CreatableTopicResult))

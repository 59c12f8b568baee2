"""The records of `__consumer_offsets` (decision).

A key or value is its version and a message of that version. Keys of versions 0 and 1
name offsets, keys of version 2 name groups. Offsets are written in version 3, or in version 1 if
they have their own expiration time; groups are written in version 3. All versions up to 4 are read.

Source: GroupMetadataManager and the schemas of kafka-group-coordinator, Kafka 3.9.
"""

from typing import Final, NamedTuple

from kafkawire.ids import TopicPartition
from kafkawire.internal_topic import version_of, with_version, without_version
from kafkawire.messages.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkawire.sentinels import NO_TIMESTAMP

MAX_TIMESTAMP_MS: Final = 2**63 - 1

_OFFSET_KEY_VERSIONS: Final = (0, 1)
_GROUP_KEY_VERSION: Final = 2
_LAST_VALUE_VERSION: Final = 4
# The last version that is not flexible; Kafka writes the same.
_WRITTEN_VERSION: Final = 3
_VERSION_WITH_EXPIRY: Final = 1


class OffsetKey(NamedTuple):
    """The key of a committed offset."""

    group_id: str
    topic_partition: TopicPartition


class GroupKey(NamedTuple):
    """The key of a group."""

    group_id: str


class CommittedOffset(NamedTuple):
    """The progress of a group in a partition: the next offset that it will read."""

    offset: int
    leader_epoch: int
    """Leader epoch of the last consumed record; NO_EPOCH if the client did not send it."""
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    """Time of expiration, if an old client has set it."""


def offset_key(group_id: str, topic_partition: TopicPartition) -> bytes:
    """Return the key of the record of a committed offset."""
    topic, partition = topic_partition
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return with_version(key, _OFFSET_KEY_VERSIONS[-1])


def offset_value(committed: CommittedOffset) -> bytes:
    """Return the value of the record of a committed offset."""
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
    )
    if committed.expire_timestamp_ms is None:
        return with_version(value, _WRITTEN_VERSION)
    value.expire_timestamp = committed.expire_timestamp_ms
    return with_version(value, _VERSION_WITH_EXPIRY)


def group_key(group_id: str) -> bytes:
    """Return the key of a group's record."""
    return with_version(GroupMetadataKey(group=group_id), _GROUP_KEY_VERSION)


def group_value(value: GroupMetadataValue) -> bytes:
    """Return the value of a group's record."""
    return with_version(value, _WRITTEN_VERSION)


def read_key(data: bytes) -> OffsetKey | GroupKey | None:
    """Return the decoded key; None for an unknown version, which callers must skip.

    Raises:
        DecodeError: `data` is not a key.
    """
    version = version_of(data)
    if version in _OFFSET_KEY_VERSIONS:
        key = without_version(OffsetCommitKey, data, version)
        return OffsetKey(key.group, TopicPartition(key.topic, key.partition))
    if version == _GROUP_KEY_VERSION:
        group = without_version(GroupMetadataKey, data, version)
        return GroupKey(group.group)
    return None


def read_offset_value(data: bytes) -> CommittedOffset:
    """Return the offset in the value of a record.

    Raises:
        DecodeError: the value is damaged, or of a newer version.
    """
    value = without_version(OffsetCommitValue, data, _LAST_VALUE_VERSION)
    expires_ms = value.expire_timestamp
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        None if expires_ms == NO_TIMESTAMP else expires_ms,
    )


def read_group_value(data: bytes) -> GroupMetadataValue:
    """Return the group in the value of a record; before version 1 members share one timeout.

    Raises:
        DecodeError: the value is damaged, or of a newer version.
    """
    value = without_version(GroupMetadataValue, data, _LAST_VALUE_VERSION)
    if version_of(data) == 0:
        for member in value.members:
            member.rebalance_timeout = member.session_timeout
    return value

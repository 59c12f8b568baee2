"""The records of `__consumer_offsets`, and the partition that a group belongs to (decision).

A key or value is its version (two bytes) and a message of that version. Keys of versions 0 and 1
name offsets, keys of version 2 name groups. Offsets are written in version 3, or in version 1 if
they have their own expiration time; groups are written in version 3. All versions up to 4 are read.

Source: GroupMetadataManager and the schemas of kafka-group-coordinator, Kafka 3.9.
"""

from functools import lru_cache
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple, TypeVar

from kafkawire.errors import DecodeError
from kafkawire.ids import TopicPartition
from kafkawire.messages.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkawire.schema import decode, encode
from kafkawire.sentinels import NO_TIMESTAMP

OFFSETS_TOPIC: Final = "__consumer_offsets"
MAX_TIMESTAMP_MS: Final = 2**63 - 1

_VERSION: Final = Struct(">h")
_OFFSET_KEY_VERSIONS: Final = (0, 1)
_GROUP_KEY_VERSION: Final = 2
_LAST_VALUE_VERSION: Final = 4
# The last version that is not flexible; Kafka writes the same.
_WRITTEN_VERSION: Final = 3
_VERSION_WITH_EXPIRY: Final = 1
_CACHED_HASHES: Final = 16_384
_INT32: Final = 0xFFFF_FFFF
_INT32_MIN_BITS: Final = 0x8000_0000

M = TypeVar("M")


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


# A loop over characters, called twice per request of a group. Without the cache it is half the cost
# of a commit (benchmarks/loads/group_load.py).
@lru_cache(maxsize=_CACHED_HASHES)
def java_string_hash(text: str) -> int:
    """Return the result of Java's `String.hashCode`: over UTF-16 units, a signed 32-bit number."""
    units = memoryview(text.encode("utf-16-be", "surrogatepass"))
    value = 0
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8 | units[position + 1])) & _INT32
    return value - (_INT32 + 1) if value & _INT32_MIN_BITS else value


def partition_for(group_id: str, partition_count: int) -> int:
    """Return the partition of `__consumer_offsets` that holds a group."""
    value = abs(java_string_hash(group_id))
    # Java cannot negate its smallest integer; Kafka uses 0 instead.
    return 0 if value == _INT32_MIN_BITS else value % partition_count


def offset_key(group_id: str, topic_partition: TopicPartition) -> bytes:
    """Return the key of the record of a committed offset."""
    topic, partition = topic_partition
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return _versioned(key, _OFFSET_KEY_VERSIONS[-1])


def offset_value(committed: CommittedOffset) -> bytes:
    """Return the value of the record of a committed offset."""
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
    )
    if committed.expire_timestamp_ms is None:
        return _versioned(value, _WRITTEN_VERSION)
    value.expire_timestamp = committed.expire_timestamp_ms
    return _versioned(value, _VERSION_WITH_EXPIRY)


def group_key(group_id: str) -> bytes:
    """Return the key of a group's record."""
    return _versioned(GroupMetadataKey(group=group_id), _GROUP_KEY_VERSION)


def group_value(value: GroupMetadataValue) -> bytes:
    """Return the value of a group's record."""
    return _versioned(value, _WRITTEN_VERSION)


def read_key(data: bytes) -> OffsetKey | GroupKey | None:
    """Return the decoded key; None for an unknown version, which callers must skip.

    Raises:
        DecodeError: `data` is not a key.
    """
    version = _version(data)
    if version in _OFFSET_KEY_VERSIONS:
        key = decode(OffsetCommitKey, memoryview(data)[_VERSION.size :], version)
        return OffsetKey(key.group, TopicPartition(key.topic, key.partition))
    if version == _GROUP_KEY_VERSION:
        group = decode(GroupMetadataKey, memoryview(data)[_VERSION.size :], version)
        return GroupKey(group.group)
    return None


def read_offset_value(data: bytes) -> CommittedOffset:
    """Return the offset in the value of a record.

    Raises:
        DecodeError: the value is damaged, or of a newer version.
    """
    value = _read(OffsetCommitValue, data)
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
    value = _read(GroupMetadataValue, data)
    if _version(data) == 0:
        for member in value.members:
            member.rebalance_timeout = member.session_timeout
    return value


def _versioned(message: object, version: int) -> bytes:
    return _VERSION.pack(version) + encode(message, version)


def _read(message_type: type[M], data: bytes) -> M:
    version = _version(data)
    if not 0 <= version <= _LAST_VALUE_VERSION:
        raise DecodeError(f"{message_type.__name__} version {version}, the last known is 4")
    return decode(message_type, memoryview(data)[_VERSION.size :], version)


def _version(data: bytes) -> int:
    try:
        version: int = _VERSION.unpack_from(data)[0]
    except struct_error:
        raise DecodeError(f"{len(data)} bytes cannot hold a version") from None
    return version

"""Records as producers and consumers see them (decision)."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from kafkawire.ids import LeaderEpoch, Offset
from kafkawire.records import TimestampType

BytesLike: TypeAlias = bytes | bytearray | memoryview
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


class RecordMetadata(NamedTuple):
    """Place of a record in the log.

    `offset` is -1 if the broker did not report it, as with acks=0. `timestamp_ms` is the time of
    the record, or of its append if the topic has message.timestamp.type=LogAppendTime.
    """

    topic: str
    partition: int
    offset: Offset
    timestamp_ms: int


class UnsentRecord(NamedTuple):
    """A record that waits to be appended to a batch."""

    topic: str
    value: BytesLike | None
    key: BytesLike | None
    partition: int | None
    timestamp_ms: int
    headers: Headers


class ConsumerRecord(NamedTuple):
    """One record that was read. `timestamp_ms` is in ms since the epoch.

    Key and value are bytes or None, or the results of the consumer's deserializers.
    """

    # A named tuple, because it is the cheapest object with named fields to create per record
    # (benchmarks/client_throughput.py).

    topic: str
    partition: int
    offset: Offset
    timestamp_ms: int
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_type: TimestampType
    leader_epoch: LeaderEpoch

"""What producers get back and consumers receive. Decision: values only."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from kafkawire.ids import LeaderEpoch, Offset
from kafkawire.records import TimestampType

BytesLike: TypeAlias = bytes | bytearray | memoryview
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


class RecordMetadata(NamedTuple):
    """Where a record was written. `offset` is -1 with acks=0: the broker does not tell."""

    topic: str
    partition: int
    offset: Offset
    timestamp_ms: int


class UnsentRecord(NamedTuple):
    """A record that waits for something before it can be appended to a batch."""

    topic: str
    value: BytesLike | None
    key: BytesLike | None
    partition: int | None
    timestamp_ms: int
    headers: Headers


class ConsumerRecord(NamedTuple):
    """One record as it was read.

    A named tuple, because one is made per record and it is the cheapest thing to make that has
    names (benchmarks/client_throughput.py).
    """

    topic: str
    partition: int
    offset: Offset
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_type: TimestampType
    leader_epoch: LeaderEpoch

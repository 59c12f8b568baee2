"""Control batches, which end transactions inside a log (decision).

A control batch holds one record. Its key holds the type (version 2 | type 2); the value of a
transaction marker holds version 2 | coordinator epoch 4. Clients never write a control batch.

Source: KIP-98, and org.apache.kafka.common.record.EndTransactionMarker of Kafka 3.9.
"""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from kafkawire.errors import CorruptBatchError
from kafkawire.records_build import BatchBuilder
from kafkawire.records_header import BytesLike, read_header
from kafkawire.records_read import read_records
from kafkawire.sentinels import NO_EPOCH

_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")
_VERSION: Final = 0


class ControlType(IntEnum):
    """The type of a control record; a reader skips other numbers, which exist."""

    ABORT = 0
    COMMIT = 1


_KNOWN_TYPES: Final = frozenset(int(known) for known in ControlType)


class EndTransactionMarker(NamedTuple):
    """The end of one producer's transaction in one partition."""

    control_type: ControlType
    coordinator_epoch: int


def build_control_batch(
    control_type: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_EPOCH,
) -> bytearray:
    """Return the batch with which a transaction coordinator ends a transaction in a log."""
    builder = BatchBuilder(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
    key = _KEY.pack(_VERSION, control_type)
    builder.append(timestamp_ms, key, _VALUE.pack(_VERSION, coordinator_epoch))
    return builder.build(base_offset, leader_epoch)


def read_control_batch(batch: BytesLike) -> EndTransactionMarker | None:
    """Return the marker in `batch`; None if the batch is empty or its type is unknown.

    Raises:
        CorruptBatchError: `batch` is not a control batch, or its marker is malformed.
    """
    if not read_header(batch).is_control:
        raise CorruptBatchError("not a control batch")
    for record in read_records(batch):
        version, number = _unpack(_KEY, record.key)
        if version < 0:
            raise CorruptBatchError(f"control record of version {version}")
        if number not in _KNOWN_TYPES:
            return None
        version, coordinator_epoch = _unpack(_VALUE, record.value)
        if version < 0:
            raise CorruptBatchError(f"end of transaction marker of version {version}")
        return EndTransactionMarker(ControlType(number), coordinator_epoch)
    return None


def _unpack(layout: Struct, data: bytes | None) -> tuple[int, int]:
    if data is None or len(data) < layout.size:
        raise CorruptBatchError(f"a control record's field needs {layout.size} bytes, got {data!r}")
    first, second = layout.unpack_from(data)
    return first, second

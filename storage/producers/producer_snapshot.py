"""The bytes of a producer snapshot, in Kafka's format (decision).

`<offset>.snapshot` holds the state of the producers when the log ended at `offset`:

    version 2 (= 1) | CRC-32C 4 of all later bytes | count 4 | entries
    entry: producer id 8 | epoch 2 | last sequence 4 | last offset 8 | offset delta 4 |
           timestamp 8 | coordinator epoch 4 | first offset of the open transaction 8

An entry describes only the last batch of its producer; -1 means that a value is absent.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from crc32c import crc32c

from kafkawire.ids import Offset
from storage.errors import CorruptSnapshotError
from storage.producers.producer_entry import ProducerEntry, WrittenBatch

VERSION: Final = 1

_HEADER: Final = Struct(">hIi")
_CRC_START: Final = 2
_CRC_END: Final = 6
_ENTRY: Final = Struct(">qhiqiqiq")
_NO_BATCH: Final = WrittenBatch(last_sequence=-1, last_offset=-1, offset_delta=0, timestamp_ms=-1)


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """Return the content of the file for `entries`, in their order."""
    rows = [_encode_entry(entry) for entry in entries]
    content = bytearray(_HEADER.pack(VERSION, 0, len(rows)) + b"".join(rows))
    content[_CRC_START:_CRC_END] = crc32c(memoryview(content)[_CRC_END:]).to_bytes(4, "big")
    return bytes(content)


def _encode_entry(entry: ProducerEntry) -> bytes:
    batch = entry.last_batch or _NO_BATCH
    return _ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        batch.last_sequence,
        batch.last_offset,
        batch.offset_delta,
        entry.last_timestamp_ms,
        entry.coordinator_epoch,
        entry.transaction_first_offset,
    )


def decode_snapshot(content: bytes) -> list[ProducerEntry]:
    """Return the producers in a snapshot.

    Raises:
        CorruptSnapshotError: the bytes are damaged, or not a snapshot of this version.
    """
    if len(content) < _HEADER.size:
        raise CorruptSnapshotError(f"{len(content)} bytes, a header has {_HEADER.size}")
    version, crc, count = _HEADER.unpack_from(content)
    if version != VERSION:
        raise CorruptSnapshotError(f"version {version} is not {VERSION}")
    if crc != crc32c(memoryview(content)[_CRC_END:]):
        raise CorruptSnapshotError(f"the checksum is not {crc:#010x}")
    if len(content) != _HEADER.size + count * _ENTRY.size:
        raise CorruptSnapshotError(f"{count} entries announced in {len(content)} bytes")
    return [_decode_entry(row) for row in _ENTRY.iter_unpack(content[_HEADER.size :])]


def _decode_entry(row: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, sequence, offset, delta, timestamp_ms, coordinator_epoch, first = row
    entry = ProducerEntry(producer_id)
    entry.move_to(epoch)
    if offset >= 0:
        entry.add(epoch, WrittenBatch(sequence, offset, delta, timestamp_ms))
    entry.last_timestamp_ms = timestamp_ms
    entry.coordinator_epoch = coordinator_epoch
    entry.transaction_first_offset = Offset(first)
    return entry

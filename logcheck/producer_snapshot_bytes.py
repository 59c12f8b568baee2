"""The bytes of producer snapshots (decision).

Layout, with sizes in bytes: version 2 (= 1), CRC-32C 4 of all following bytes, count 4, then an
entry of 46 bytes per producer. An entry holds the producer id 8, epoch 2, last sequence 4, last
offset 8, offset delta 4, timestamp 8, coordinator epoch 4, and first offset of the open transaction
8. Absent values are -1.
"""

from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from logcheck.finding import Check, Damage, Finder, Report

VERSION: Final = 1
_HEADER: Final = Struct(">hIi")
_CRC_END: Final = 6
_ENTRY: Final = Struct(">qhiqiqiq")


class ProducerEntry(NamedTuple):
    """The state of one producer."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    transaction_first_offset: int


def is_unfinished(data: bytes) -> bool:
    """Whether a broker may have left these bytes that died while it wrote a snapshot.

    The file is created before it is written. After a loss of power it may hold zeros instead.
    """
    if len(data) < _HEADER.size or not any(data):
        return True
    count: int = _HEADER.unpack_from(data)[2]
    return len(data) < _HEADER.size + count * _ENTRY.size


def read_producer_snapshot(
    data: bytes, file: str, report: Report
) -> list[tuple[int, ProducerEntry]]:
    """Return the positions and entries; report the first violation of the format.

    A broker ignores a damaged snapshot completely. Its readable entries are returned nevertheless.
    """

    finder = Finder(Check.PRODUCERS, report)

    def find(position: int, expected: str, found: str) -> None:
        finder.find(Damage.BAD_SNAPSHOT, file, position, None, expected, found)

    if len(data) < _HEADER.size:
        find(0, f"{_HEADER.size} bytes", f"{len(data)} bytes")
        return []
    version, crc, count = _HEADER.unpack_from(data)
    if version != VERSION:
        find(0, f"version {VERSION}", f"version {version}")
        return []
    body_bytes = len(data) - _HEADER.size
    if crc32c(memoryview(data)[_CRC_END:]) != crc:
        find(2, f"the checksum {crc:#010x}", "another checksum")
    elif body_bytes != count * _ENTRY.size:
        find(_CRC_END, f"{count} entries", f"{body_bytes} bytes of entries")
    whole = data[_HEADER.size : len(data) - body_bytes % _ENTRY.size]
    rows = enumerate(_ENTRY.iter_unpack(whole))
    return [(_HEADER.size + slot * _ENTRY.size, ProducerEntry(*row)) for slot, row in rows]

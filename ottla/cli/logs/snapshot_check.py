"""Parses producer snapshots. Decision: no I/O.

Layout, with sizes in bytes: version 2 (= 1), CRC-32C 4 of all following bytes, count 4, then an
entry of 46 bytes per producer. An entry holds the producer id 8, epoch 2, last sequence 4, last
offset 8, offset delta 4, timestamp 8, coordinator epoch 4, and first offset of the open transaction
8. Absent values are -1.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Final

from crc32c import crc32c

from ottla.cli.logs.finding import Damage, Finding, Report

VERSION: Final = 1
_HEADER: Final = Struct(">hIi")
_CRC_END: Final = 6
_ENTRY: Final = Struct(">qhiqiqiq")
_FIELDS: Final = (
    "producer_id",
    "producer_epoch",
    "last_sequence",
    "last_offset",
    "offset_delta",
    "timestamp_ms",
    "coordinator_epoch",
    "transaction_first_offset",
)


def read_snapshot(data: bytes, file: str, report: Report) -> list[Mapping[str, int]]:
    """Return all readable entries; a broker ignores a snapshot with any finding completely."""

    def found(damage: Damage, position: int, text: str) -> None:
        report(Finding(damage=damage, file=file, position=position, text=text))

    if len(data) < _HEADER.size:
        found(Damage.PARTIAL_ENTRY, 0, f"{len(data)} bytes, fewer than the header's {_HEADER.size}")
        return []
    version, crc, count = _HEADER.unpack_from(data)
    if version != VERSION:
        found(Damage.BAD_VERSION, 0, f"version {version}, expected {VERSION}")
        return []
    if crc != (actual := crc32c(memoryview(data)[_CRC_END:])):
        found(Damage.BAD_CRC, 2, f"the checksum is {crc:#010x}, but the data have {actual:#010x}")
    body_bytes = len(data) - _HEADER.size
    if body_bytes != count * _ENTRY.size:
        found(Damage.WRONG_COUNT, _CRC_END, f"{count} entries stated, {body_bytes} bytes follow")
    whole = data[_HEADER.size : len(data) - body_bytes % _ENTRY.size]
    return [dict(zip(_FIELDS, row, strict=True)) for row in _ENTRY.iter_unpack(whole)]

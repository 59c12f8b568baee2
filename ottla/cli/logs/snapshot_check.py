"""Reads producer snapshots. Decision: no I/O.

Version 2 (= 1), CRC-32C 4 of what follows, count 4, then an entry of 46 bytes per producer: its id
8, epoch 2, last sequence 4, last offset 8, offset delta 4, timestamp 8, coordinator epoch 4, first
offset of the open transaction 8; -1 stands for what is not there.
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
    """Return the entries that are there; a broker reads none of a snapshot that has a finding."""

    def found(damage: Damage, position: int, text: str) -> None:
        report(Finding(damage=damage, file=file, position=position, text=text))

    if len(data) < _HEADER.size:
        found(Damage.PARTIAL_ENTRY, 0, f"{len(data)} bytes, the header alone has {_HEADER.size}")
        return []
    version, crc, count = _HEADER.unpack_from(data)
    if version != VERSION:
        found(Damage.BAD_VERSION, 0, f"version {version}, expected {VERSION}")
        return []
    if crc != (actual := crc32c(memoryview(data)[_CRC_END:])):
        found(Damage.BAD_CRC, 2, f"the checksum is {crc:#010x}, that of the data {actual:#010x}")
    rest = len(data) - _HEADER.size
    if rest != count * _ENTRY.size:
        found(Damage.WRONG_COUNT, _CRC_END, f"{count} entries announced, {rest} bytes follow")
    whole = data[_HEADER.size : len(data) - rest % _ENTRY.size]
    return [dict(zip(_FIELDS, row, strict=True)) for row in _ENTRY.iter_unpack(whole)]

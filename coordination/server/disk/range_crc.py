"""CRC-32 of any range of some bytes, without reading the range again (decision).

The CRC of a range follows from the CRCs of the two prefixes that end at its limits. For bytes `a`
and `b`, crc(a + b) is crc(b) xor crc(a) *advanced* over as many zero bytes as `b` has. To advance a
CRC is linear in its bits. Source: crc32_combine of zlib.
"""

import zlib
from array import array
from functools import cache
from typing import Final

BLOCK_BYTES: Final = 64
"""Distance of the prefixes whose CRCs are kept."""


class RangeCrc:
    """The CRCs of all ranges of `data`."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._prefix_crcs = array("I", [0])
        crc = 0
        for start in range(0, len(data), BLOCK_BYTES):
            crc = zlib.crc32(data[start : start + BLOCK_BYTES], crc)
            self._prefix_crcs.append(crc)

    def of(self, start: int, end: int, previous_crc: int = 0) -> int:
        """Return what `zlib.crc32(data[start:end], previous_crc)` returns."""
        return advance(self._of_prefix(start) ^ previous_crc, end - start) ^ self._of_prefix(end)

    def _of_prefix(self, end: int) -> int:
        block = end // BLOCK_BYTES
        return zlib.crc32(self._data[block * BLOCK_BYTES : end], self._prefix_crcs[block])


def advance(crc: int, zero_count: int) -> int:
    """Return the share of `crc` in the CRC of its bytes and `zero_count` more."""
    power = 0
    while zero_count:
        if zero_count & 1:
            crc = _apply(_tables(power), crc)
        zero_count >>= 1
        power += 1
    return crc


_Tables = tuple[list[int], list[int], list[int], list[int]]


@cache
def _tables(power: int) -> _Tables:
    """Return the advance over 2^power zero bytes of each value of each byte of a CRC."""
    if power == 0:
        images = [zlib.crc32(b"\0", 1 << bit) ^ zlib.crc32(b"\0") for bit in range(32)]
    else:
        half = _tables(power - 1)
        images = [_apply(half, _apply(half, 1 << bit)) for bit in range(32)]
    return _table(images[:8]), _table(images[8:16]), _table(images[16:24]), _table(images[24:])


def _table(images: list[int]) -> list[int]:
    table = [0]
    for image in images:
        table.extend([known ^ image for known in table])
    return table


def _apply(tables: _Tables, crc: int) -> int:
    low, second, third, high = tables
    return low[crc & 0xFF] ^ second[crc >> 8 & 0xFF] ^ third[crc >> 16 & 0xFF] ^ high[crc >> 24]

"""Decision: the Produce response after every batch was appended, encoded without objects.

Nearly every response of a busy broker is of this kind, and only its topic names vary in size. The
bytes are the same as from `schema.encode` (tests/property/kafkawire/test_produce_accepted.py), in a
sixth of the time (benchmarks/micro/test_handlers.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from kafkawire.primitives import uvarint

FLEXIBLE_FROM: Final = 9


Accepted = tuple[int, int, int, int]
"""Partition, base offset, log append time (-1 unless the broker set it), log start offset.

A bare tuple, because creating a named one takes as long as encoding it.
"""

_COMPACT: Final = [uvarint(length + 1) for length in range(256)]
_int32: Final = Struct(">i").pack
_int16: Final = Struct(">h").pack
# Index, no error, offset, time (and from version 5 on log start). From version 8 on also no record
# errors and no error message; from version 9 on compact, with no tagged fields.
_row_v3: Final = Struct(">i2xqq").pack
_row_v5: Final = Struct(">i2xqqq").pack
_row_v8: Final = Struct(">i2xqqq4xh").pack
_row_v9: Final = Struct(">i2xqqqB2x").pack


def encode_accepted(topics: Sequence[tuple[str, Sequence[Accepted]]], version: int) -> bytes:
    """Return the body of a ProduceResponse of version 3 to 11 without any error."""
    if version >= FLEXIBLE_FROM:
        return _encode_flexible(topics)
    parts = [_int32(len(topics))]
    for name, rows in topics:
        text = name.encode()
        parts += (_int16(len(text)), text, _int32(len(rows)))
        for partition, base_offset, time_ms, start_offset in rows:
            if version >= 8:
                parts.append(_row_v8(partition, base_offset, time_ms, start_offset, -1))
            elif version >= 5:
                parts.append(_row_v5(partition, base_offset, time_ms, start_offset))
            else:
                parts.append(_row_v3(partition, base_offset, time_ms))
    # No throttling.
    parts.append(_int32(0))
    return b"".join(parts)


def _encode_flexible(topics: Sequence[tuple[str, Sequence[Accepted]]]) -> bytes:
    parts = [_compact(len(topics))]
    for name, rows in topics:
        text = name.encode()
        parts += (_compact(len(text)), text, _compact(len(rows)))
        for partition, base_offset, time_ms, start_offset in rows:
            parts.append(_row_v9(partition, base_offset, time_ms, start_offset, 1))
        parts.append(b"\0")
    # No throttling, no tagged fields.
    parts.append(b"\0\0\0\0\0")
    return b"".join(parts)


def _compact(length: int) -> bytes:
    """Return a length in the form of flexible versions: plus one, as a varint."""
    return _COMPACT[length] if length < len(_COMPACT) else uvarint(length + 1)

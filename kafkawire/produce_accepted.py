"""Decision: the Produce response when every batch was appended, written without objects.

That is nearly every response of a busy broker, and of fixed form but for the topics' names. The
bytes are those that `schema.encode` makes of the same `ProduceResponse`
(tests/property/kafkawire/test_produce_accepted.py); it takes a sixth of the time
(benchmarks/micro/test_handlers.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from kafkawire.primitives import uvarint

FLEXIBLE_FROM: Final = 9


Accepted = tuple[int, int, int, int]
"""Partition, base offset, log append time (-1 unless the broker set it), log start offset.

A bare tuple: to make a named one takes as long as to write it.
"""

_COMPACT: Final = [uvarint(length + 1) for length in range(256)]
_int32: Final = Struct(">i").pack
_int16: Final = Struct(">h").pack
# Index, no error, offset, time (and from version 5 log start); from version 8 also no record
# errors and no error message, from version 9 compact and with no tagged fields.
_row_v3: Final = Struct(">i2xqq").pack
_row_v5: Final = Struct(">i2xqqq").pack
_row_v8: Final = Struct(">i2xqqq4xh").pack
_row_v9: Final = Struct(">i2xqqqB2x").pack


def encode_accepted(topics: Sequence[tuple[str, Sequence[Accepted]]], version: int) -> bytes:
    """Return the body of a ProduceResponse of version 3 to 11 in which nothing was refused."""
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
    """Return a length as flexible versions write it: one more, as a varint."""
    return _COMPACT[length] if length < len(_COMPACT) else uvarint(length + 1)

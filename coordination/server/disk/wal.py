"""Format of the write-ahead log (decision): batches in segments, and detection of damage.

A segment is a 40-byte header and batches; zeros follow the last batch.

    header  magic 8, store id 16, first zxid i64, previous crc u32, crc u32 of all before
    batch   length u32, previous crc u32, crc u32, payload (msgpack array of entries)

The crc covers the store id, length, previous crc and payload. A batch of another store, or bytes
that a client stored in a node, therefore never count as a valid batch. Each batch holds its
predecessor's crc.

Batch N+1 is written only after batch N is on disk. An invalid batch at the end was therefore never
acknowledged: it is torn, and cut off. An invalid batch before a valid one is damage to acknowledged
data. A *seal* is an empty batch, written after a synced batch when no entry is waiting. It proves
that all batches before it were synced, and the next batch overwrites it. A closed segment ends with
a closing seal.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

import msgpack  # type: ignore[import-untyped,unused-ignore]

from coordination.server.disk.range_crc import RangeCrc
from coordination.server.state.txns import Entry, pack_entry

MAGIC: Final = b"OTLWAL\x00\x01"
STORE_ID_BYTES: Final = 16
_HEADER = struct.Struct(">8s16sqI")
_BATCH = struct.Struct(">III")
_CRC = struct.Struct(">I")
HEADER_BYTES: Final = _HEADER.size + _CRC.size
BATCH_HEADER_BYTES: Final = _BATCH.size
LENGTH_BYTES: Final = 4
SEAL_PAYLOAD: Final = b"\x90"
CLOSING_PAYLOAD: Final = b"\x91\xc0"
# Files grow in steps of this size. An open segment of another size was truncated, or the process
# died while it grew.
ALLOCATION_STEP_BYTES: Final = 4 * 1024 * 1024
_ARRAY_MARKS: Final = frozenset([*range(0x90, 0xA0), 0xDC, 0xDD])


class SegmentHeader(NamedTuple):
    """Header of a segment."""

    store_id: bytes
    first_zxid: int
    previous_crc: int


class Batch(NamedTuple):
    """A valid batch with its offset in the file, its crc and its payload."""

    offset: int
    crc: int
    payload: bytes

    @property
    def end(self) -> int:
        """Offset after the batch (exclusive)."""
        return self.offset + BATCH_HEADER_BYTES + len(self.payload)

    @property
    def is_seal(self) -> bool:
        """Whether it has no entries, and only proves that the batches before it were synced."""
        return self.payload in (SEAL_PAYLOAD, CLOSING_PAYLOAD)


class Ending(Enum):
    """State of the end of a segment."""

    OPEN = "only zeros after the last batch"
    CLOSED = "a closing seal"
    TORN = "an incomplete batch, which was never acknowledged"
    DAMAGED = "an invalid batch before a valid one"
    CUT = "the file was truncated"


class Scan(NamedTuple):
    """Valid batches of a segment, without seals, and the state of its end."""

    batches: list[Batch]
    ending: Ending
    end_offset: int
    last_crc: int


def encode_header(header: SegmentHeader) -> bytes:
    """Return the first bytes of a segment."""
    head = _HEADER.pack(MAGIC, *header)
    return head + _CRC.pack(zlib.crc32(head))


def decode_header(data: bytes) -> SegmentHeader | None:
    """Return the header of a segment; None if it is incomplete, damaged or of another format."""
    if len(data) < HEADER_BYTES:
        return None
    head = data[: _HEADER.size]
    magic, store_id, first_zxid, previous_crc = _HEADER.unpack(head)
    (crc,) = _CRC.unpack_from(data, _HEADER.size)
    if magic != MAGIC or crc != zlib.crc32(head):
        return None
    return SegmentHeader(store_id, first_zxid, previous_crc)


def encode_entries(entries: Sequence[Entry]) -> bytes:
    """Return the payload of a batch."""
    return pack([pack_entry(entry) for entry in entries])


def decode_entries(payload: bytes) -> Sequence[Any]:
    """Return the packed entries of a payload, for `txns.unpack_entry`."""
    fields: Sequence[Any] = unpack(payload)
    return fields


class Chain:
    """Frames consecutive payloads as batches; `last_crc` is the newest link of the chain."""

    def __init__(self, store_id: bytes, last_crc: int) -> None:
        self._seed = zlib.crc32(store_id)
        self.last_crc = last_crc

    def frame(self, payload: bytes) -> bytes:
        """Return the batch for `payload` and make it the newest link."""
        batch, self.last_crc = self._framed(payload)
        return batch

    def seal(self, payload: bytes = SEAL_PAYLOAD) -> bytes:
        """Return a seal after the newest link; the next batch replaces it."""
        return self._framed(payload)[0]

    def _framed(self, payload: bytes) -> tuple[bytes, int]:
        crc = _crc_of(self._seed, len(payload), self.last_crc, payload)
        return _BATCH.pack(len(payload), self.last_crc, crc) + payload, crc


def _crc_of(seed: int, length: int, previous_crc: int, payload: bytes) -> int:
    return zlib.crc32(payload, _crc_before_payload(seed, length, previous_crc))


def _crc_before_payload(seed: int, length: int, previous_crc: int) -> int:
    head = ((length << 32) | previous_crc).to_bytes(8, "big")
    return zlib.crc32(head, seed)


def scan(data: bytes, header: SegmentHeader) -> Scan:
    """Scan a whole segment file; the caller decides how to handle the ending."""
    batches = list(_valid_batches(data, header))
    data_batches = [batch for batch in batches if not batch.is_seal]
    end_offset = data_batches[-1].end if data_batches else HEADER_BYTES
    last_crc = data_batches[-1].crc if data_batches else header.previous_crc
    ending = _ending(data, header, batches)
    return Scan(data_batches, ending, end_offset, last_crc)


def _valid_batches(data: bytes, header: SegmentHeader) -> Iterator[Batch]:
    seed, expected, position = zlib.crc32(header.store_id), header.previous_crc, HEADER_BYTES
    while (batch := _batch_at(data, position, seed)) is not None:
        if _BATCH.unpack_from(data, position)[1] != expected:
            return
        yield batch
        if batch.is_seal:
            return
        expected, position = batch.crc, batch.end


def _batch_at(data: bytes, position: int, seed: int) -> Batch | None:
    fields = _plausible_fields_at(data, position)
    if fields is None:
        return None
    length, previous_crc, crc = fields
    start = position + BATCH_HEADER_BYTES
    payload = data[start : start + length]
    if _crc_of(seed, length, previous_crc, payload) != crc:
        return None
    return Batch(position, crc, payload)


def _plausible_fields_at(data: bytes, position: int) -> tuple[int, int, int] | None:
    """Return length, previous crc and crc at `position`; None if no batch can begin there."""
    start = position + BATCH_HEADER_BYTES
    if start >= len(data):
        return None
    length, previous_crc, crc = _BATCH.unpack_from(data, position)
    if not 0 < length <= len(data) - start or data[start] not in _ARRAY_MARKS:
        return None
    return length, previous_crc, crc


def _ending(data: bytes, header: SegmentHeader, batches: list[Batch]) -> Ending:
    position = batches[-1].end if batches else HEADER_BYTES
    if batches and batches[-1].payload == CLOSING_PAYLOAD and not data[position:].strip(b"\0"):
        return Ending.CLOSED
    # Data after a seal, or after the last valid batch, is an interrupted write.
    rest = data[position:].rstrip(b"\0")
    if _has_batch(data, position, position + len(rest), zlib.crc32(header.store_id)):
        return Ending.DAMAGED
    if len(data) % ALLOCATION_STEP_BYTES and _may_have_lost_batch(data, position, batches):
        return Ending.CUT
    return Ending.TORN if rest else Ending.OPEN


def _may_have_lost_batch(data: bytes, position: int, batches: list[Batch]) -> bool:
    """Whether a whole batch may have followed at `position` before the file was truncated.

    A file of such a size was truncated, or its growth was interrupted. The writer syncs the new
    size before it writes more batches, so in the second case a seal or zeros are at `position`; the
    crash may have torn the seal. A batch would have overwritten their first bytes with its length.
    """
    if batches and batches[-1].is_seal:
        return False
    if position + LENGTH_BYTES > len(data):
        return True
    length = int.from_bytes(data[position : position + LENGTH_BYTES], "big")
    is_seal = length <= len(CLOSING_PAYLOAD)
    return not is_seal and position + BATCH_HEADER_BYTES + length > len(data)


def _has_batch(data: bytes, start: int, end: int, seed: int) -> bool:
    # A seal ends with 0x90 and a closing seal with 0xc0, so `rstrip` removes neither. A payload
    # may end with zeros, so a batch may extend beyond `end`, but it cannot begin there.
    if start == end:
        return False
    # A client may have stored bytes that look like the beginnings of many large batches, so the
    # work must not grow with their lengths.
    crcs = RangeCrc(data)
    for position in range(start, end):
        if (fields := _plausible_fields_at(data, position)) is None:
            continue
        length, previous_crc, crc = fields
        payload_start = position + BATCH_HEADER_BYTES
        before = _crc_before_payload(seed, length, previous_crc)
        if crcs.of(payload_start, payload_start + length, before) == crc:
            return True
    return False


# Typed wrappers of msgpack, which has no type hints; snapshots use them too.


def pack(value: Any) -> bytes:
    """Return the msgpack bytes of `value`."""
    packed: bytes = msgpack.packb(value)
    return packed


def unpack(data: bytes) -> Any:
    """Return the value in `data`; arrays become tuples.

    Raises:
        ValueError: `data` is not exactly one msgpack value.
    """
    return msgpack.unpackb(data, use_list=False, strict_map_key=False)


def unpack_stream(data: memoryview) -> Iterator[Any]:
    """Yield the consecutive values in `data`."""
    unpacker = msgpack.Unpacker(use_list=False, strict_map_key=False, max_buffer_size=len(data))
    unpacker.feed(data)
    yield from unpacker

"""The four codecs of Kafka, with a limit on the decompressed size (decision).

Invariant: `decompress` never holds more than `max_bytes` of output, whatever size the input claims.
Each codec writes into a buffer of a fixed size, so the codec itself need not enforce the limit. The
size that the input claims can only make the buffer smaller.

The containers are as Kafka's Java clients write and read them:
    gzip    RFC 1952; by zlib-ng, which has a size limit (docs/adr/0103)
    snappy  xerial's: a 16-byte header, then blocks, each with its length; a bare block is read too
    lz4     frames of independent blocks of 64 KiB: Java rejects dependent blocks, which
            cramjam.lz4.compress writes. Built here, as in Java, at the default level
    zstd    RFC 8878 frames; decoded by zstandard (docs/adr/0071)

Source: org.apache.kafka.common.compress of Kafka 3.9; lz4_Frame_format.md; RFC 8878.
"""

import mmap
from collections.abc import Callable, Iterator
from enum import IntEnum
from struct import Struct, error
from typing import Any, Final, NamedTuple, cast

import cramjam
import zstandard
from zlib_ng import zlib_ng

from kafkawire.errors import CorruptBatchError, TooLargeError
from kafkawire.units import KIB, MIB

# About the size of a highly repetitive batch of a million bytes; clients send nothing larger.
MAX_DECOMPRESSED_BYTES: Final = 128 * MIB

# Buffers from this size on are memory-mapped: clearing and copying 128 MiB would block all other
# threads for 0.1 s each.
_MAPPED_BYTES: Final = 1 * MIB

_GZIP_WINDOW_BITS: Final = 31
_GZIP_MEMBERS_LIMIT: Final = 16
_GZIP_PART_BYTES: Final = 4 * MIB

_XERIAL_HEADER: Final = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_MAGIC: Final = _XERIAL_HEADER[:8]
_XERIAL_BLOCK_BYTES: Final = 32 * KIB
# The densest snappy element is a copy: 64 bytes out of 3.
_SNAPPY_MAX_RATIO: Final = 22

# Version 1, independent blocks, no checksums, blocks of 64 KiB; the last byte is its checksum.
_LZ4_FRAME_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_END_MARK: Final = bytes(4)
_LZ4_MAGIC: Final = _LZ4_FRAME_HEADER[:4]
_LZ4_BLOCK_BYTES: Final = 64 * KIB
_LZ4_STORED_BIT: Final = 1 << 31
_LZ4_INDEPENDENT_BIT: Final = 0x20
_LZ4_BLOCK_CHECKSUM_BIT: Final = 0x10
_LZ4_CONTENT_SIZE_BIT: Final = 0x08
_LZ4_DICTIONARY_BIT: Final = 0x01
_LZ4_MAX_RATIO: Final = 255
# Kafka's default level, for which its clients use the fast compressor.
_LZ4_DEFAULT_LEVEL: Final = 9

_ZSTD_DEFAULT_LEVEL: Final = 3
_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_SKIPPABLE_MAGIC: Final = 0x184D2A5
_ZSTD_BLOCK_BYTES: Final = 128 * KIB
_ZSTD_RAW: Final = 0
_ZSTD_RUN: Final = 1

_BIG_INT32: Final = Struct(">i")
_LITTLE_UINT32: Final = Struct("<I")


class Codec(IntEnum):
    """Compression of a batch's records; the number is the one on the wire."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Codec, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """Compress `data`; `level` depends on the codec, None is the default of Kafka's producers."""
    if codec is Codec.GZIP:
        return zlib_ng.compress(data, -1 if level is None else level, wbits=_GZIP_WINDOW_BITS)
    if codec is Codec.SNAPPY:
        return _compress_snappy(memoryview(data))
    if codec is Codec.LZ4:
        return _compress_lz4(memoryview(data), level)
    if codec is Codec.ZSTD:
        # cramjam's default differs: 0 means "choose", and it has chosen 3 and 11.
        chosen = _ZSTD_DEFAULT_LEVEL if level is None else level
        return bytes(cramjam.zstd.compress(data, level=chosen))
    return bytes(data)


def decompress(
    codec: Codec, data: bytes | bytearray | memoryview, max_bytes: int
) -> bytes | memoryview:
    """Decompress all of `data`.

    Raises:
        TooLargeError: it expands to more than `max_bytes`.
        CorruptBatchError: `data` is malformed or truncated.
    """
    return Decompressor().decompress(codec, data, max_bytes)


class Decompressor:
    """A decompressor of many batches, one after the other. Use it in one thread.

    It keeps the memory of the zstd decoder and of a block of lz4, whose allocation takes longer
    than to decompress a batch of 16 KiB (`python -m benchmarks audit`).
    """

    def __init__(self) -> None:
        self._zstd: zstandard.ZstdDecompressor | None = None
        self._lz4_block: memoryview | None = None

    def decompress(
        self, codec: Codec, data: bytes | bytearray | memoryview, max_bytes: int
    ) -> bytes | memoryview:
        """Decompress all of `data`; see the function `decompress`."""
        if codec is Codec.NONE:
            if len(data) > max_bytes:
                raise _too_large(codec, max_bytes)
            return bytes(data)
        try:
            if codec is Codec.ZSTD:
                if self._zstd is None:
                    self._zstd = zstandard.ZstdDecompressor()
                return _decompress_zstd(self._zstd, memoryview(data), max_bytes)
            if codec is Codec.LZ4:
                block = _only_lz4_block(memoryview(data))
                if block is not None:
                    return self._decompress_lz4_block(block, max_bytes)
            return _DECOMPRESS[codec](memoryview(data), max_bytes)
        except _FAILURES as cause:
            raise CorruptBatchError(f"bad {codec.name.lower()} data: {cause}") from cause

    def _decompress_lz4_block(self, block: memoryview, max_bytes: int) -> bytes:
        """Decompress the only block of a frame in half the time of a frame decoder."""
        if self._lz4_block is None:
            self._lz4_block = memoryview(bytearray(_LZ4_BLOCK_BYTES))
        output = self._lz4_block
        size = cramjam.lz4.decompress_block_into(block, output, output_len=_LZ4_BLOCK_BYTES)
        if size > max_bytes:
            raise _too_large(Codec.LZ4, max_bytes)
        return bytes(output[:size])


# Its stub declares an instance instead of a class.
_ZLIB_ERROR: type[Exception] = cast(Any, zlib_ng.error)
_FAILURES: Final = (
    cramjam.DecompressionError,
    zstandard.ZstdError,
    _ZLIB_ERROR,
    error,
    IndexError,
)


def _too_large(codec: Codec, max_bytes: int) -> TooLargeError:
    return TooLargeError(f"{codec.name.lower()} data expands beyond {max_bytes} bytes")


def _truncated(codec: Codec) -> CorruptBatchError:
    return CorruptBatchError(f"{codec.name.lower()} data ends too early")


def _decompress_gzip(data: memoryview, max_bytes: int) -> bytes | memoryview:
    parts: list[bytes] = []
    rest: bytes | memoryview = data
    budget = max_bytes
    for _ in range(_GZIP_MEMBERS_LIMIT):
        member = zlib_ng.decompressobj(_GZIP_WINDOW_BITS)
        while not member.eof:
            # One byte more than allowed distinguishes "too large" from "just fits"; 0 would mean
            # no limit.
            part = member.decompress(rest, min(budget + 1, _GZIP_PART_BYTES))
            parts.append(part)
            budget -= len(part)
            if budget < 0:
                raise _too_large(Codec.GZIP, max_bytes)
            if not (part or member.eof):
                raise _truncated(Codec.GZIP)
            rest = member.unconsumed_tail
        rest = member.unused_data
        if not rest:
            return _joined(parts, max_bytes - budget)
    raise CorruptBatchError(f"gzip data has more than {_GZIP_MEMBERS_LIMIT} members")


def _joined(parts: list[bytes], size_bytes: int) -> bytes | memoryview:
    if len(parts) == 1:
        return parts[0]
    if size_bytes < _MAPPED_BYTES:
        return b"".join(parts)
    output, end = memoryview(mmap.mmap(-1, size_bytes)), size_bytes
    while parts:
        part = parts.pop()
        output[end - len(part) : end] = part
        end -= len(part)
    return output


def _compress_snappy(data: memoryview) -> bytes:
    parts: list[bytes] = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_BIG_INT32.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, max_bytes: int) -> bytes:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_snappy_block(data, max_bytes, max_bytes)
    blocks: list[bytes] = []
    budget = max_bytes
    position = len(_XERIAL_HEADER)
    while position < len(data):
        start = position + _BIG_INT32.size
        size: int = _BIG_INT32.unpack_from(data, position)[0]
        if not 0 <= size <= len(data) - start:
            raise _truncated(Codec.SNAPPY)
        position = start + size
        blocks.append(_decompress_snappy_block(data[start:position], budget, max_bytes))
        budget -= len(blocks[-1])
    return b"".join(blocks)


def _decompress_snappy_block(block: memoryview, budget: int, max_bytes: int) -> bytes:
    size = cramjam.snappy.decompress_raw_len(block)
    if size > budget:
        raise _too_large(Codec.SNAPPY, max_bytes)
    if size > len(block) * _SNAPPY_MAX_RATIO:
        raise CorruptBatchError(f"a snappy block of {len(block)} bytes cannot hold {size}")
    return bytes(cramjam.snappy.decompress_raw(block))


def _compress_lz4(data: memoryview, level: int | None) -> bytes:
    if level not in (None, _LZ4_DEFAULT_LEVEL):
        frame = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        frame.compress(bytes(data))
        return bytes(frame.finish())
    parts: list[bytes | memoryview] = [_LZ4_FRAME_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        raw = data[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(raw, store_size=False))
        if len(block) < len(raw):
            parts += (_LITTLE_UINT32.pack(len(block)), block)
        else:
            parts += (_LITTLE_UINT32.pack(len(raw) | _LZ4_STORED_BIT), raw)
    parts.append(_LZ4_END_MARK)
    return b"".join(parts)


def _decompress_lz4(data: memoryview, max_bytes: int) -> bytes | memoryview:
    """Decompress into a fixed buffer, as large as the frame can become, up to `max_bytes`."""
    bound = _bound_lz4(data)
    output_bytes = min(bound, max_bytes)
    is_large = output_bytes >= _MAPPED_BYTES
    output = memoryview(mmap.mmap(-1, output_bytes)) if is_large else bytearray(output_bytes)
    try:
        size = cramjam.lz4.decompress_into(data, output)
    except cramjam.DecompressionError as cause:
        if bound > max_bytes:
            raise _too_large(Codec.LZ4, max_bytes) from cause
        raise
    return memoryview(output)[:size] if is_large else bytes(memoryview(output)[:size])


def _only_lz4_block(data: memoryview) -> memoryview | None:
    """Return the compressed block of a small frame with the usual header; None for other frames."""
    start = len(_LZ4_FRAME_HEADER) + _LITTLE_UINT32.size
    end = len(data) - len(_LZ4_END_MARK)
    if end <= start:
        return None
    # The frame has no other block if this one fills it.
    header = _LZ4_FRAME_HEADER + _LITTLE_UINT32.pack(end - start)
    is_usual = bytes(data[:start]) == header and bytes(data[end:]) == _LZ4_END_MARK
    return data[start:end] if is_usual else None


def is_linked_lz4(data: memoryview) -> bool:
    """Whether the blocks of an lz4 frame need each other, or a dictionary, to be decompressed.

    Kafka and its Java clients refuse such a frame.
    """
    if data[: len(_LZ4_MAGIC)] != _LZ4_MAGIC or len(data) == len(_LZ4_MAGIC):
        return False
    return data[4] & (_LZ4_INDEPENDENT_BIT | _LZ4_DICTIONARY_BIT) != _LZ4_INDEPENDENT_BIT


def _bound_lz4(data: memoryview) -> int:
    """Return the maximum size of the decompressed frame in `data`, from the sizes of its blocks."""
    if data[: len(_LZ4_MAGIC)] != _LZ4_MAGIC:
        raise CorruptBatchError("lz4 data does not begin with a frame")
    flags = data[4]
    block_bytes = 1 << (8 + 2 * (data[5] >> 4 & 7))
    checksum_bytes = 4 if flags & _LZ4_BLOCK_CHECKSUM_BIT else 0
    position = 7 + (8 if flags & _LZ4_CONTENT_SIZE_BIT else 0)
    position += 4 if flags & _LZ4_DICTIONARY_BIT else 0
    bound = 0
    while size := _LITTLE_UINT32.unpack_from(data, position)[0]:
        stored = size & ~_LZ4_STORED_BIT
        position += 4 + stored + checksum_bytes
        bound += stored if size != stored else min(block_bytes, stored * _LZ4_MAX_RATIO)
    return bound


class _ZstdFrame(NamedTuple):
    """A frame of zstd data, without skippable ones."""

    data: memoryview
    bound: int
    """Maximum size of its blocks, decompressed."""
    content_size: int | None
    """The decompressed size that the frame claims, if it does."""


def _decompress_zstd(
    decoder: zstandard.ZstdDecompressor, data: memoryview, max_bytes: int
) -> bytes:
    if not data:
        raise _truncated(Codec.ZSTD)
    parts: list[bytes] = []
    budget = max_bytes
    for frame in _zstd_frames(data):
        size = frame.content_size
        if size is not None and (size > frame.bound or (frame.bound and not size)):
            # The decoder would allocate this size, or believe that there is nothing.
            raise CorruptBatchError(f"{frame.bound} bytes of zstd blocks cannot hold {size}")
        limit = frame.bound if size is None else size
        if size is not None and size > budget:
            raise _too_large(Codec.ZSTD, max_bytes)
        try:
            # A limit of 0 would mean that the frame must claim a size.
            part = decoder.decompress(frame.data, max_output_size=max(min(limit, budget), 1))
        except zstandard.ZstdError as cause:
            if limit > budget:
                raise _too_large(Codec.ZSTD, max_bytes) from cause
            raise
        parts.append(part)
        budget -= len(part)
        if budget < 0:
            raise _too_large(Codec.ZSTD, max_bytes)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _zstd_frames(data: memoryview) -> Iterator[_ZstdFrame]:
    position = 0
    while position < len(data):
        magic: int = _LITTLE_UINT32.unpack_from(data, position)[0]
        if magic == _ZSTD_MAGIC:
            frame, position = _zstd_frame(data, position)
            yield frame
        elif magic >> 4 == _ZSTD_SKIPPABLE_MAGIC:
            position += 8 + _LITTLE_UINT32.unpack_from(data, position + 4)[0]
        else:
            raise CorruptBatchError("zstd data does not begin with a frame")


def _zstd_frame(data: memoryview, start: int) -> tuple[_ZstdFrame, int]:
    """Return the frame from `start` on, and the position of its end."""
    position = start + 4
    descriptor = data[position]
    is_single_segment = descriptor >> 5 & 1
    content_size_flag = descriptor >> 6
    content_size_bytes = (is_single_segment, 2, 4, 8)[content_size_flag]
    dictionary_bytes = (0, 1, 2, 4)[descriptor & 3]
    position += 2 - is_single_segment + dictionary_bytes
    content_size = None
    if content_size_bytes:
        # The flag 1 stores the size minus 256.
        claimed = int.from_bytes(data[position : position + content_size_bytes], "little")
        content_size = claimed + (256 if content_size_flag == 1 else 0)
    position += content_size_bytes

    bound = 0
    is_last = 0
    while not is_last:
        # Reading all three bytes through indexes raises IndexError at the end of the data.
        block = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        is_last, kind, size = block & 1, block >> 1 & 3, block >> 3
        position += 3 + (1 if kind == _ZSTD_RUN else size)
        bound += size if kind in (_ZSTD_RAW, _ZSTD_RUN) else _ZSTD_BLOCK_BYTES
    position += 4 if descriptor & 4 else 0
    return _ZstdFrame(data[start:position], bound, content_size), position


_DECOMPRESS: Final[dict[Codec, Callable[[memoryview, int], bytes | memoryview]]] = {
    Codec.GZIP: _decompress_gzip,
    Codec.SNAPPY: _decompress_snappy,
    Codec.LZ4: _decompress_lz4,
}

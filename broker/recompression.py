"""Storing a batch in the codec that its topic wants (decision).

Only where `compression.type` names another codec than the producer used. The records' bytes stay
as they are inside; length, attributes and checksum of the batch change.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from crc32c import crc32c

from kafkawire.compression import MAX_DECOMPRESSED_BYTES, Codec, compress, decompress
from kafkawire.errors import ApiError, CorruptBatchError, ErrorCode
from kafkawire.records import BATCH_HEADER_BYTES, BatchHeader, read_header
from kafkawire.records_header import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CRC_POSITION,
    LOG_OVERHEAD_BYTES,
)
from storage.config import LogConfig

_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
_LENGTH: Final = Struct(">i")
_LENGTH_POSITION: Final = 8
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")


def target_codec(config: LogConfig) -> Codec | None:
    """Return the codec that every batch is stored in, None to keep the producer's."""
    return _CODECS.get(config.compression_type)


def recompress(
    batch: memoryview, header: BatchHeader, codec: Codec, config: LogConfig
) -> tuple[memoryview, BatchHeader]:
    """Return a copy of `batch` in `codec`, and its header.

    Raises:
        ApiError: the records cannot be decompressed, or the copy is too large for the topic.
    """
    try:
        records = decompress(header.codec, batch[BATCH_HEADER_BYTES:], MAX_DECOMPRESSED_BYTES)
    except CorruptBatchError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    copy = bytearray(batch[:BATCH_HEADER_BYTES])
    copy += compress(codec, records, _level(codec, config))
    if len(copy) > config.max_message_bytes:
        text = (
            f"{len(copy)} bytes after recompression, max.message.bytes={config.max_message_bytes}"
        )
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, text)
    _LENGTH.pack_into(copy, _LENGTH_POSITION, len(copy) - LOG_OVERHEAD_BYTES)
    _ATTRIBUTES.pack_into(copy, ATTRIBUTES_POSITION, header.attributes & ~CODEC_MASK | codec)
    _CRC.pack_into(copy, CRC_POSITION, crc32c(memoryview(copy)[ATTRIBUTES_POSITION:]))
    return memoryview(copy), read_header(copy)


def _level(codec: Codec, config: LogConfig) -> int | None:
    if codec is Codec.GZIP:
        return None if config.compression_gzip_level < 0 else config.compression_gzip_level
    if codec is Codec.LZ4:
        return config.compression_lz4_level
    return config.compression_zstd_level if codec is Codec.ZSTD else None

"""Recompresses a batch in its topic's codec (decision).

Only needed if `compression.type` names another codec than the producer used. The bytes of the
records inside do not change; length, attributes and checksum of the batch do.
"""

from __future__ import annotations

from typing import Final

from kafkawire.compression import Codec
from kafkawire.errors import ApiError, CorruptBatchError, ErrorCode
from kafkawire.records import BatchHeader, read_header
from kafkawire.records import recompress as rebuild
from storage.config.log_config import LogConfig

_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


def target_codec(config: LogConfig) -> Codec | None:
    """Return the codec that every batch is stored in; None to keep the producer's."""
    return _CODECS.get(config.compression_type)


def recompress(
    batch: memoryview, codec: Codec, config: LogConfig
) -> tuple[memoryview, BatchHeader]:
    """Return a copy of `batch` in `codec`, and its header.

    Raises:
        ApiError: the records cannot be decompressed, or the copy is too large for the topic.
    """
    try:
        copy = rebuild(batch, codec, _level(codec, config))
    except CorruptBatchError as error:
        # The checksum was right, so a retry by the producer would not help.
        raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from None
    if len(copy) > config.max_message_bytes:
        text = (
            f"batch has {len(copy)} bytes after recompression, "
            f"max.message.bytes is {config.max_message_bytes}"
        )
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, text)
    return memoryview(copy), read_header(copy)


def _level(codec: Codec, config: LogConfig) -> int | None:
    if codec is Codec.GZIP:
        return None if config.compression_gzip_level < 0 else config.compression_gzip_level
    if codec is Codec.LZ4:
        return config.compression_lz4_level
    return config.compression_zstd_level if codec is Codec.ZSTD else None

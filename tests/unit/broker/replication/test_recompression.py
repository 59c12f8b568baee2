"""Recompression in the codec of a topic: `broker.replication.recompression`."""

import pytest

from broker.replication.recompression import recompress, target_codec
from kafkawire.compression import Codec
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.records import BatchBuilder, crc_matches, read_header, read_records
from storage.config.log_config import LogConfig

VALUES = [b"a" * 300, b"", b"b" * 300]


def built(codec: Codec) -> memoryview:
    builder = BatchBuilder(codec=codec, producer_id=9, producer_epoch=1, base_sequence=4)
    for number, value in enumerate(VALUES):
        builder.append(1000 + number, b"k", value, [("h", b"v")])
    return memoryview(builder.build())


@pytest.mark.parametrize(
    ("compression_type", "codec"),
    [("producer", None), ("uncompressed", Codec.NONE), ("zstd", Codec.ZSTD), ("gzip", Codec.GZIP)],
)
def test_target_codec_is_the_one_in_the_config(compression_type: str, codec: Codec | None) -> None:
    assert target_codec(LogConfig(compression_type=compression_type)) is codec


@pytest.mark.parametrize("source", Codec, ids=lambda codec: codec.name)
@pytest.mark.parametrize("target", Codec, ids=lambda codec: codec.name)
def test_recompression_changes_only_the_codec(source: Codec, target: Codec) -> None:
    original = built(source)
    copy, header = recompress(original, target, LogConfig())
    assert header == read_header(copy)
    assert header.codec is target
    assert header.size_bytes == len(copy)
    assert crc_matches(copy, header)
    assert list(read_records(copy)) == list(read_records(original))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, 4)


def test_compression_levels_of_the_topic_are_used() -> None:
    levels = LogConfig(
        compression_gzip_level=1, compression_lz4_level=12, compression_zstd_level=19
    )
    for codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD):
        copy, _ = recompress(built(Codec.NONE), codec, levels)
        assert list(read_records(copy)) == list(read_records(built(Codec.NONE)))


def test_batch_too_large_after_recompression_is_refused() -> None:
    original = built(Codec.ZSTD)
    with pytest.raises(ApiError) as caught:
        recompress(original, Codec.NONE, LogConfig(max_message_bytes=300))
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_undecompressible_records_are_refused() -> None:
    original = built(Codec.ZSTD)
    original[61:] = bytes(len(original) - 61)
    with pytest.raises(ApiError) as caught:
        recompress(original, Codec.LZ4, LogConfig())
    assert caught.value.code is ErrorCode.INVALID_RECORD

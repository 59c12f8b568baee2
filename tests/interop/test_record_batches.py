"""Record batches of Ottla, aiokafka and kafka-python agree, both ways and in every codec."""

import importlib
import warnings
from typing import Any

import pytest

from kafkawire.records import (
    BatchBuilder,
    Codec,
    TimestampType,
    crc_matches,
    read_header,
    read_records,
    validate_produced,
)

NOW_MS = 1_700_000_000_000
CODECS = list(Codec)
Fields = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

RECORDS: list[Fields] = [
    (
        NOW_MS + (n * 7919) % 1000 - n % 3,
        (None, b"", b"key-%d" % (n % 17))[n % 3],
        (b"value %d " % n * (n % 40), None, b"")[n % 5 // 3],
        [("trace", b"%d" % n), ("größe", None)][: n % 4 % 3],
    )
    for n in range(500)
]


def theirs(library: Any, codec: Codec, *, is_transactional: bool = False) -> bytes:
    builder = library.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=is_transactional,
        producer_id=4711,
        producer_epoch=3,
        base_sequence=12,
        batch_size=1 << 24,
    )
    for offset, (timestamp_ms, key, value, headers) in enumerate(RECORDS):
        appended = builder.append(offset, timestamp_ms, key, value, headers)
        assert appended is not None
    return bytes(builder.build())


def ours(codec: Codec, *, is_transactional: bool = False) -> bytearray:
    builder = BatchBuilder(
        codec=codec,
        producer_id=4711,
        producer_epoch=3,
        base_sequence=12,
        is_transactional=is_transactional,
    )
    for record in RECORDS:
        builder.append(*record)
    return builder.build()


def library_of(name: str) -> Any:
    # kafka-python loads its schemas with a deprecated function of the standard library.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module(f"{name}.record.default_records")


libraries = pytest.mark.parametrize(
    "library",
    [
        pytest.param(library_of("aiokafka"), id="aiokafka"),
        pytest.param(library_of("kafka"), id="kafka-python"),
    ],
)


@libraries
@pytest.mark.parametrize("is_transactional", [False, True])
def test_plain_batches_are_the_same_bytes(library: Any, is_transactional: bool) -> None:
    """Except for the leader epoch, which a broker overwrites; the libraries differ there."""
    expected = theirs(library, Codec.NONE, is_transactional=is_transactional)
    built = ours(Codec.NONE, is_transactional=is_transactional)
    assert built[:12] == expected[:12]
    assert built[16:] == expected[16:]


@libraries
@pytest.mark.parametrize("codec", CODECS)
def test_batches_of_other_libraries_are_accepted_and_read(library: Any, codec: Codec) -> None:
    sent = theirs(library, codec)
    batch = bytearray(sent)
    header = validate_produced(
        memoryview(batch),
        compacted=False,
        max_batch_bytes=1 << 20,
        timestamp_type=TimestampType.CREATE_TIME,
        now_ms=NOW_MS,
        timestamp_before_max_ms=10_000,
        timestamp_after_max_ms=10_000,
    )
    assert batch == sent, "validation has nothing to correct"
    assert header.codec is codec
    read = [(*record[1:4], list(record.headers)) for record in read_records(batch)]
    assert read == RECORDS


@libraries
@pytest.mark.parametrize("codec", CODECS)
def test_other_libraries_read_our_batches(library: Any, codec: Codec) -> None:
    batch = library.DefaultRecordBatch(bytes(ours(codec)))
    assert batch.validate_crc()
    assert batch.compression_type == codec
    read = [(record.timestamp, record.key, record.value, list(record.headers)) for record in batch]
    assert read == RECORDS


@libraries
def test_other_libraries_decode_the_same_header(library: Any) -> None:
    data = ours(Codec.ZSTD, is_transactional=True)
    header = read_header(data)
    batch = library.DefaultRecordBatch(bytes(data))
    assert crc_matches(memoryview(data), header)
    assert (batch.base_offset, batch.magic, batch.crc, batch.attributes) == (
        header.base_offset,
        header.magic,
        header.crc,
        header.attributes,
    )
    assert (batch.last_offset_delta, batch.first_timestamp, batch.max_timestamp) == (
        header.last_offset_delta,
        header.base_timestamp_ms,
        header.max_timestamp_ms,
    )
    assert (batch.is_transactional, batch.is_control_batch) == (
        header.is_transactional,
        header.is_control,
    )

"""Batches for tests: well-formed ones, and ones with a wrong header under a correct checksum."""

from kafkawire.records import (
    BATCH_HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    BatchBuilder,
    Codec,
    read_header,
    write_header,
)

NOW_MS = 1_700_000_000_000
Fields = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
RECORDS: list[Fields] = [
    (NOW_MS, b"key", b"value", ()),
    (NOW_MS + 5, None, None, (("name", b"header"), ("null", None))),
    (NOW_MS - 3, b"", b"x" * 300, (("", b""),)),
]


def batch_of(*records: Fields, codec: Codec = Codec.NONE) -> bytearray:
    """Return a batch as a producer without an id sends it."""
    builder = BatchBuilder(codec=codec)
    for timestamp_ms, key, value, headers in records or RECORDS:
        builder.append(timestamp_ms, key, value, headers)
    return builder.build()


def with_header(batch: bytearray, **changes: int) -> bytearray:
    """Return `batch` with other header fields and a matching checksum."""
    changed = bytearray(batch)
    write_header(changed, read_header(batch)._replace(**changes))
    return changed


def with_section(batch: bytearray, section: bytes, record_count: int) -> bytearray:
    """Return `batch` with other bytes behind the header, and `record_count` in it."""
    return with_header(
        batch[:BATCH_HEADER_BYTES] + section,
        batch_length=BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES + len(section),
        record_count=record_count,
        last_offset_delta=max(0, record_count - 1),
    )

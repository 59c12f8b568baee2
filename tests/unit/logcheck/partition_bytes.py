"""Files of a healthy partition in memory, for tests that damage them."""

import struct
from dataclasses import dataclass, field

from kafkawire.compression import Codec
from kafkawire.records import BatchBuilder, BatchHeader, read_header
from logcheck.finding import Damage, Finding
from logcheck.segment_columns import SegmentColumns

BASE_OFFSET = 1_000
FILE = "00000000000000001000.log"
FIRST_TIMESTAMP_MS = 1_700_000_000_000
RECORDS_PER_BATCH = 3

CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
LAST_OFFSET_DELTA_POSITION = 23
MAX_TIMESTAMP_POSITION = 35
RECORD_COUNT_POSITION = 57


@dataclass
class Reported:
    """Collects the findings that checks report."""

    findings: list[Finding] = field(default_factory=list)

    def __call__(self, finding: Finding) -> None:
        self.findings.append(finding)

    @property
    def damages(self) -> list[Damage]:
        return [finding.damage for finding in self.findings]


def build_batch(
    base_offset: int,
    *,
    timestamp_ms: int = FIRST_TIMESTAMP_MS,
    count: int = RECORDS_PER_BATCH,
    codec: Codec = Codec.NONE,
    leader_epoch: int = 0,
) -> bytearray:
    """Return a batch of `count` records, one millisecond apart."""
    builder = BatchBuilder(codec=codec)
    for number in range(count):
        builder.append(timestamp_ms + number, b"key", b"value %d" % number, (("name", b"x"),))
    return bytearray(builder.build(base_offset, leader_epoch))


def build_batches(count: int = 3, base_offset: int = BASE_OFFSET) -> list[bytearray]:
    """Return `count` batches with consecutive offsets and increasing timestamps."""
    return [
        build_batch(
            base_offset + number * RECORDS_PER_BATCH,
            timestamp_ms=FIRST_TIMESTAMP_MS + number * 10,
            codec=list(Codec)[number % len(Codec)],
        )
        for number in range(count)
    ]


def join(batches: list[bytearray]) -> bytearray:
    """Return the bytes of a segment."""
    return bytearray(b"".join(batches))


def seal(batch: bytearray) -> bytearray:
    """Update the checksum of a changed batch, so that the change is its only damage."""
    from crc32c import crc32c

    struct.pack_into(">I", batch, CRC_POSITION, crc32c(bytes(batch[ATTRIBUTES_POSITION:])))
    return batch


def header_of(batch: bytearray) -> BatchHeader:
    return read_header(memoryview(batch))


def segment_columns(batches: list[bytearray]) -> SegmentColumns:
    """Return the columns of a segment made of `batches`."""
    segment, position = SegmentColumns(BASE_OFFSET, FILE), 0
    for batch in batches:
        segment.add(position, header_of(batch))
        position += len(batch)
    segment.end_position = position
    return segment


class BytesSource:
    """A source of bytes, of which a writer appends the last `appended_bytes` during the walk."""

    chunk_bytes = 1 << 20

    def __init__(self, data: bytes | bytearray, appended_bytes: int = 0) -> None:
        self._data = memoryview(data)
        self.size_bytes = len(data) - appended_bytes

    def read_at(self, position: int, size: int) -> memoryview:
        return self._data[position : position + size]

    def has_grown_to(self, size_bytes: int) -> bool:
        return size_bytes <= len(self._data)

    def behind_hole(self, position: int) -> int:
        return position


def positions_of(batches: list[bytearray]) -> list[int]:
    """Return the byte position of each batch."""
    return [sum(map(len, batches[:number])) for number in range(len(batches))]

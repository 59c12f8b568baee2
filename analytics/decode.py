"""A range of a segment as Arrow record batches, without Spark (composition).

One row per record. Columns that are not requested cost nothing. A finding is a row too: it fills
the columns `finding`, `expected` and `found`, and its record columns are null.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

import pyarrow as pa

from analytics.file_store import OpenFile
from analytics.segment_range import SegmentRange
from kafkawire.columns_loops import Column, Spans
from kafkawire.native import RecordColumns
from kafkawire.records import BatchHeader, TimestampType
from logcheck.batch_check import BatchCheck
from logcheck.batch_walk import Hole, Walk
from logcheck.finding import Check, Damage, Finder, Finding, unreadable

MAX_BATCH_ROWS: Final = 100_000
# Arrow's plain string columns hold at most 2 GiB.
MAX_BATCH_BYTES: Final = 64 * 1024 * 1024

_RECORD_COLUMNS: Final = {
    "offset": (Column.OFFSET, "bigint"),
    "timestamp_ms": (Column.TIMESTAMP, "bigint"),
    "key": (Column.KEY, "binary"),
    "value": (Column.VALUE, "binary"),
    "key_bytes": (Column.KEY_BYTES, "int"),
    "value_bytes": (Column.VALUE_BYTES, "int"),
    "key_hash_high": (Column.KEY_HASH, "bigint"),
    "key_hash_low": (Column.KEY_HASH, "bigint"),
    "fingerprint": (Column.FINGERPRINT, "bigint"),
    "record_bytes": (Column.RECORD_BYTES, "int"),
    "header_count": (Column.HEADER_COUNT, "int"),
}
_HEADER_COLUMNS: Final[dict[str, Callable[[int, BatchHeader], int]]] = {
    "position": lambda position, _: position,
    "base_offset": lambda _, header: header.base_offset,
    "last_offset": lambda _, header: header.last_offset,
    "leader_epoch": lambda _, header: header.leader_epoch,
    "producer_id": lambda _, header: header.producer_id,
    "producer_epoch": lambda _, header: header.producer_epoch,
    "base_sequence": lambda _, header: header.base_sequence,
    "attributes": lambda _, header: header.attributes,
    "crc": lambda _, header: header.crc,
}
_PLACE_COLUMNS: Final = ("topic", "partition", "replica", "file")
_FINDING_COLUMNS: Final = ("finding", "expected", "found")
_TYPES: Final = {"bigint": pa.int64(), "int": pa.int32(), "binary": pa.binary()}

SCHEMA: Final = ", ".join(
    [
        "topic string, partition int, replica string, file string",
        *(f"{name} bigint" for name in _HEADER_COLUMNS),
        *(f"{name} {kind}" for name, (_, kind) in _RECORD_COLUMNS.items()),
        "finding string, expected string, found string",
    ]
)
"""All columns as a Spark schema string; `attributes` are the bits of the batch header."""


def arrow_type(name: str) -> Any:
    """Return the Arrow type of a column.

    Raises:
        KeyError: there is no such column.
    """
    if name in _RECORD_COLUMNS:
        return _TYPES[_RECORD_COLUMNS[name][1]]
    if name in _HEADER_COLUMNS:
        return pa.int64()
    if name == "partition":
        return pa.int32()
    if name in _PLACE_COLUMNS or name in _FINDING_COLUMNS:
        return pa.string()
    raise KeyError(name)


def decode(
    place: SegmentRange, columns: Sequence[str], *, until_offset: int | None = None
) -> Iterator[Any]:
    """Yield record batches with `columns`; stop at the first batch at or above `until_offset`."""
    rows = _Rows(place, columns)
    findings: list[Finding] = []
    try:
        with OpenFile(place.file) as source:
            walk = Walk(source, place.file, findings.append, is_tail_allowed=True)
            check = BatchCheck(place.file, findings.append)
            for item in walk.items(place.start, place.end):
                if isinstance(item, Hole) or (batch := check.open(item)) is None:
                    continue
                if until_offset is not None and batch.header.base_offset >= until_offset:
                    break
                rows.append(batch.position, batch.header, batch.section)
                if rows.is_full:
                    yield rows.take()
            if walk.end_position > place.end:
                expected = f"a batch that ends at byte {place.end}, by the offset index"
                found = f"a batch that ends at byte {walk.end_position}"
                find = Finder(Check.OFFSET_INDEX, findings.append).find
                find(Damage.RANGE_MISALIGNED, place.file, place.end, None, expected, found)
    except OSError as error:
        findings.append(unreadable(place.file, error))
    if rows.count:
        yield rows.take()
    if findings and "finding" in columns:
        yield rows.findings(findings)


class _Rows:
    """A builder of record batches from the records of one range."""

    def __init__(self, place: SegmentRange, columns: Sequence[str]) -> None:
        self._place = place
        self._schema = pa.schema([(name, arrow_type(name)) for name in columns])
        mask = 0
        for name in columns:
            mask |= _RECORD_COLUMNS[name][0] if name in _RECORD_COLUMNS else 0
        self._records = RecordColumns(mask)
        self._headers = {name: array("q") for name in columns if name in _HEADER_COLUMNS}

    @property
    def count(self) -> int:
        return self._records.row_count

    @property
    def is_full(self) -> bool:
        return self.count >= MAX_BATCH_ROWS or self._records.span_bytes >= MAX_BATCH_BYTES

    def append(self, position: int, header: BatchHeader, section: memoryview) -> None:
        append_ms = (
            header.max_timestamp_ms
            if header.timestamp_type is TimestampType.LOG_APPEND_TIME
            else None
        )
        count = header.record_count
        self._records.append(
            section, count, header.base_offset, header.base_timestamp_ms, append_ms
        )
        for name, column in self._headers.items():
            column.extend(array("q", [_HEADER_COLUMNS[name](position, header)]) * count)

    def take(self) -> Any:
        count = self.count
        taken = self._records.take()
        columns = [self._column(field, count, taken) for field in self._schema]
        for name in self._headers:
            self._headers[name] = array("q")
        return pa.record_batch(columns, schema=self._schema)

    def _column(self, field: Any, count: int, taken: dict[str, bytes | Spans]) -> Any:
        name = field.name
        if name in _PLACE_COLUMNS:
            return pa.repeat(pa.scalar(getattr(self._place, name), field.type), count)
        if name in _FINDING_COLUMNS:
            return pa.nulls(count, field.type)
        if name in self._headers:
            buffer = pa.py_buffer(self._headers[name].tobytes())
            return pa.Array.from_buffers(field.type, count, [None, buffer])
        column = taken[name]
        if isinstance(column, Spans):
            buffers = [column.validity, column.offsets, column.data]
            return pa.Array.from_buffers(
                field.type, count, [pa.py_buffer(buffer) for buffer in buffers]
            )
        return pa.Array.from_buffers(field.type, count, [None, pa.py_buffer(column)])

    def findings(self, findings: Sequence[Finding]) -> Any:
        place = {name: getattr(self._place, name) for name in _PLACE_COLUMNS}
        names = set(self._schema.names)
        rows = [asdict(each) | {"finding": each.damage.value} | place for each in findings]
        kept = [{name: row[name] for name in names & row.keys()} for row in rows]
        return pa.RecordBatch.from_pylist(kept, schema=self._schema)

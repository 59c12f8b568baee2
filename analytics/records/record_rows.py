"""Records as Arrow columns with the names and types of Spark's Kafka source (composition).

    key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,
    timestampType int, headers array<struct<key: string, value: binary>>

`timestampType` is 0 for the producer's time and 1 for the broker's. `headers` is null for a record
without headers. A timestamp that does not fit into the column is null.

Source: KafkaRecordToRowConverter of Spark 4.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyarrow import compute

from analytics.records import COLUMNS, HEADERS
from analytics.records.log_reader import LogReader, Piece
from analytics.records.offset_choice import Isolation
from analytics.records.partition_log import (
    PartitionLog,
    is_end_of_transaction,
    read_aborted_ranges,
)
from kafkawire.columns_loops import Column, Spans
from kafkawire.native import RecordColumns, read_rows
from kafkawire.records import BatchHeader, ControlType, TimestampType, read_control_batch
from logcheck.batch_check import BatchCheck
from logcheck.finding import Damage, Finding
from logcheck.transaction_ranges import TransactionRanges

MAX_ROWS: Final = 100_000
# Arrow's plain binary columns hold at most 2 GiB.
MAX_BYTES: Final = 32 * 1024 * 1024
_HEADER_TYPE: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
_TYPES: Final = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestampType": pa.int32(),
    HEADERS: pa.list_(_HEADER_TYPE),
}
_MASKS: Final = {
    "key": Column.KEY,
    "value": Column.VALUE,
    "timestamp": Column.TIMESTAMP,
    HEADERS: Column.HEADER_COUNT,
}
_UNFIT: Final = (Damage.RECORD_COUNT, Damage.RECORD_OFFSET)
"""Findings of a batch whose records have no reliable offsets."""


class RecordReader:
    """A reader of the visible records of one log, as Arrow record batches.

    The columns are the first ones of `COLUMNS`, or a choice of them. `time_unit` is that of the
    timestamps: `us` as in Spark, or `ms` as in Kafka.
    """

    def __init__(
        self,
        log: "LogSpan",
        columns: Sequence[str] = COLUMNS,
        *,
        time_unit: str = "us",
        may_lose_data: bool = False,
        may_begin_later: bool = False,
    ) -> None:
        self._span = log
        self._rows = RecordRows(log.topic, log.partition, columns, time_unit=time_unit)
        self._reader = LogReader(
            log.directory,
            log.start,
            log.end,
            may_lose_data=may_lose_data,
            may_begin_later=may_begin_later,
        )

    @property
    def lost(self) -> Sequence[str]:
        """A sentence for each part of the log that was skipped."""
        return self._reader.lost

    @property
    def deleted(self) -> Sequence[tuple[int, int]]:
        """With `may_begin_later`, the offsets (inclusive) that retention deleted meanwhile."""
        return self._reader.deleted

    def batches(self) -> Iterator[Any]:
        """Yield the records in order of their offsets.

        Raises:
            DataLossError: a part of the log is damaged or gone, and may not be skipped.
            OSError: a file cannot be read.
        """
        rows = self._rows
        for piece, section in self._sections():
            if not piece.is_whole and rows.count:
                yield rows.take()
            rows.append(piece.batch.header, section)
            if not piece.is_whole:
                batch = rows.take(piece.first_offset, piece.end_offset)
                if batch.num_rows:
                    yield batch
            elif rows.is_full:
                yield rows.take()
        if rows.count:
            yield rows.take()

    def _sections(self) -> Iterator[tuple[Piece, memoryview]]:
        """Yield the visible batches with their decompressed records."""
        findings: list[Finding] = []
        committed = CommittedOnly(self._span, self._reader)
        for piece in self._reader.pieces():
            if not committed.is_visible(piece):
                continue
            findings.clear()
            opened = BatchCheck(piece.file, findings.append).open(piece.batch)
            unfit = [each for each in findings if each.damage in _UNFIT]
            if opened is None or unfit:
                self._reader.lose(f"damaged: {(unfit or findings)[0]}")
                continue
            if opened.header.record_count:
                yield piece, opened.section


class LogSpan:
    """The offsets `start..end` (exclusive) of one log, as plain data that can be sent to a task."""

    def __init__(
        self,
        *,
        directory: str,
        topic: str,
        partition: int,
        start: int,
        end: int,
        isolation: str,
    ) -> None:
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.start = start
        self.end = end
        self.isolation = Isolation(isolation)

    @classmethod
    def of(cls, log: PartitionLog, start: int, end: int, isolation: Isolation) -> "LogSpan":
        """Return a span of `log`."""
        return cls(
            directory=log.directory,
            topic=log.topic,
            partition=log.partition,
            start=start,
            end=end,
            isolation=isolation,
        )


class CommittedOnly:
    """The rule that decides which batches a consumer of the span's isolation level sees."""

    def __init__(self, span: LogSpan, reader: LogReader) -> None:
        self._reader = reader
        self._is_committed = span.isolation is Isolation.READ_COMMITTED
        self._aborted = TransactionRanges()
        if self._is_committed and span.start < span.end:
            self._aborted = read_aborted_ranges(span.directory)
        self._seen: set[int] = set()
        """Producers with visible records since their last marker."""

    def is_visible(self, piece: Piece) -> bool:
        """Whether a consumer receives the records of the batch.

        Raises:
            DataLossError: the batch aborts records that the transaction index did not list.
        """
        header = piece.batch.header
        producer_id = header.producer_id
        if header.is_control:
            if self._is_committed and is_end_of_transaction(piece.batch):
                if producer_id in self._seen and _aborts(piece):
                    self._reader.lose(
                        f"{piece.file}: the marker at offset {header.base_offset} aborts a "
                        "transaction that is missing in the transaction index"
                    )
                self._seen.discard(producer_id)
            return False
        if not self._is_committed or not header.is_transactional:
            return True
        if self._aborted.covers(producer_id, header.base_offset):
            return False
        if header.record_count:
            self._seen.add(producer_id)
        return True


def _aborts(piece: Piece) -> bool:
    if not piece.batch.header.record_count:
        return False
    marker = read_control_batch(piece.batch.data)
    return marker is not None and marker.control_type is ControlType.ABORT


class RecordRows:
    """A builder of record batches with some of `COLUMNS`, from the batches of one log."""

    def __init__(
        self, topic: str, partition: int, columns: Sequence[str], *, time_unit: str
    ) -> None:
        self._places = {"topic": topic, "partition": partition}
        self._time_unit = time_unit
        self.schema = pa.schema([(name, arrow_type(name, time_unit)) for name in columns])
        mask = int(Column.OFFSET)
        for name in columns:
            mask |= _MASKS.get(name, 0)
        self._records = RecordColumns(mask)
        self._has_headers = HEADERS in columns
        self._clear()

    def _clear(self) -> None:
        self._timestamp_types = array("i")
        self._sections: list[tuple[BatchHeader, memoryview]] = []
        self._section_bytes = 0

    @property
    def count(self) -> int:
        """Number of records so far."""
        return self._records.row_count

    @property
    def is_full(self) -> bool:
        """Whether the record batch is large enough."""
        size_bytes = max(self._records.span_bytes, self._section_bytes)
        return self.count >= MAX_ROWS or size_bytes >= MAX_BYTES

    def append(self, header: BatchHeader, section: memoryview) -> None:
        """Add the records of a batch."""
        kind = header.timestamp_type
        append_ms = header.max_timestamp_ms if kind is TimestampType.LOG_APPEND_TIME else None
        count = header.record_count
        self._records.append(
            section, count, header.base_offset, header.base_timestamp_ms, append_ms
        )
        self._timestamp_types.extend(array("i", [kind]) * count)
        if self._has_headers:
            self._sections.append((header, section))
            self._section_bytes += len(section)

    def take(self, first_offset: int | None = None, end_offset: int | None = None) -> Any:
        """Return the records so far, of the given offsets only, and start empty columns."""
        count, taken = self.count, self._records.take()
        columns = [self._column(field, count, taken) for field in self.schema]
        self._clear()
        batch = pa.record_batch(columns, schema=self.schema)
        if first_offset is None or end_offset is None:
            return batch
        offsets = array("q")
        offsets.frombytes(bytes(taken["offset"]))  # type: ignore[arg-type]
        first, end = bisect_left(offsets, first_offset), bisect_left(offsets, end_offset)
        return batch.slice(first, max(0, end - first))

    def _column(self, field: Any, count: int, taken: dict[str, bytes | Spans]) -> Any:
        name = field.name
        if name in self._places:
            return pa.repeat(pa.scalar(self._places[name], field.type), count)
        if name == "timestampType":
            buffer = pa.py_buffer(self._timestamp_types.tobytes())
            return pa.Array.from_buffers(field.type, count, [None, buffer])
        if name == HEADERS:
            return self._headers(count, taken["header_count"])
        column = taken["timestamp_ms" if name == "timestamp" else name]
        if isinstance(column, Spans):
            buffers = [
                pa.py_buffer(part) for part in (column.validity, column.offsets, column.data)
            ]
            return pa.Array.from_buffers(field.type, count, buffers)
        plain = pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(column)])
        return _timestamps(plain, self._time_unit) if name == "timestamp" else plain

    def _headers(self, count: int, header_counts: bytes | Spans) -> Any:
        counts = array("i")
        counts.frombytes(bytes(header_counts))  # type: ignore[arg-type]
        if not any(counts):
            return pa.nulls(count, _TYPES[HEADERS])
        # The loop over all columns does not keep headers, which few records have.
        rows: list[Any] = []
        for header, section in self._sections:
            end = len(rows) + header.record_count
            rows += (
                _headers_of(header, section)
                if any(counts[len(rows) : end])
                else ([None] * header.record_count)
            )
        return pa.array(rows, _TYPES[HEADERS])


def _headers_of(header: BatchHeader, section: memoryview) -> Iterator[Any]:
    """Yield the headers of each record of a batch; None without any."""
    # A timestamp of its own keeps the loop from rejecting one that is out of range.
    fixed_ms = 0
    for row in read_rows(
        section, header.record_count, header.base_offset, 0, fixed_ms, tuple, (), ()
    ):
        yield [{"key": name, "value": value} for name, value in row[4]] or None


def arrow_type(name: str, time_unit: str) -> Any:
    """Return the Arrow type of a column.

    Raises:
        KeyError: there is no such column.
    """
    return pa.timestamp(time_unit, "UTC") if name == "timestamp" else _TYPES[name]


def _timestamps(times_ms: Any, unit: str) -> Any:
    if unit == "ms":
        return times_ms.cast(pa.timestamp("ms", "UTC"))
    try:
        times_us = compute.multiply_checked(times_ms, 1000)
    except pa.ArrowInvalid:
        limit = 2**63 // 1000 - 1
        fits = compute.and_(
            compute.less_equal(times_ms, limit), compute.greater_equal(times_ms, -limit)
        )
        times_us = compute.multiply(compute.if_else(fits, times_ms, None), 1000)
    return times_us.cast(pa.timestamp("us", "UTC"))

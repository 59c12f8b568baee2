"""The reason for refusing a produced batch, once it is known to be invalid (decision).

The fast path (`records_validate`) only detects that a batch is invalid. This module finds the
reason, in the order of Kafka's checks, so that a batch with two faults gets the same code as in
Kafka.

Source: ProduceRequest.validateRecords, ByteBufferLogInputStream, UnifiedLog.
analyzeAndValidateRecords and LogValidator of Kafka 3.9; KIP-467 for errors per record.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple, NoReturn

from kafkawire.compression import Codec
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.records_header import (
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
)
from kafkawire.records_loops import Survey
from kafkawire.records_read import Record
from kafkawire.sentinels import NO_TIMESTAMP

# As in Kafka's log reader: no batch of any format is smaller.
_MIN_LENGTH: Final = 14
_MAGIC_POSITION: Final = 16
_FRAME: Final = Struct(">qi")
_CODECS: Final = frozenset(int(codec) for codec in Codec)
_RECORD_ERRORS_LIMIT: Final = 100
_NO_KEY: Final = "no key, which a compacted topic needs"


class RecordError(NamedTuple):
    """Reason for refusing one record, for the list in a produce response."""

    batch_index: int
    message: str


class RecordsRejectedError(ApiError):
    """Single records of a batch are invalid; `record_errors` has the first hundred of them."""

    def __init__(self, code: ErrorCode, record_errors: list[RecordError]) -> None:
        first = record_errors[0]
        super().__init__(code, f"record {first.batch_index}: {first.message}")
        self.record_errors = record_errors


class RecordRules(NamedTuple):
    """Rules of a topic for each record; times are inclusive, None if the broker sets them."""

    needs_key: bool
    times_ms: tuple[int, int] | None

    def may_have_time(self, timestamp_ms: int) -> bool:
        """Whether the topic accepts a record with this timestamp; -1 means none."""
        if self.times_ms is None or timestamp_ms == NO_TIMESTAMP:
            return True
        oldest_ms, newest_ms = self.times_ms
        return oldest_ms <= timestamp_ms <= newest_ms

    def refuse_time(self, timestamp_ms: int) -> str:
        """Return the error text for a timestamp that `may_have_time` rejects."""
        return f"timestamp {timestamp_ms} is not within {self.times_ms}"


def refuse_frame(batch: memoryview, max_batch_bytes: int) -> NoReturn:
    """Raise the reason why `batch` is not a single, complete batch of format v2 and legal size."""
    size = _size_at(batch, 0)
    if size is None:
        raise _invalid(f"{len(batch)} bytes hold no whole batch")
    if batch[_MAGIC_POSITION] != MAGIC:
        raise _invalid(f"only magic {MAGIC} is taken, not {batch[_MAGIC_POSITION]}")
    if size < len(batch):
        _size_at(batch, size)
        raise _invalid(f"exactly one batch is taken, {len(batch) - size} bytes follow the first")
    base_offset: int = _FRAME.unpack_from(batch)[0]
    if base_offset != 0:
        raise _invalid(f"the base offset must be 0, not {base_offset}")
    if size > max_batch_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size} bytes, the limit is {max_batch_bytes}",
        )
    assert size < BATCH_HEADER_BYTES, "nothing is wrong with the frame"
    raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are less than a batch header")


def _size_at(batch: memoryview, position: int) -> int | None:
    """Return the size of the batch at `position`, None if it is incomplete; raise if invalid."""
    remaining = len(batch) - position
    if remaining < LOG_OVERHEAD_BYTES:
        return None
    length: int = _FRAME.unpack_from(batch, position)[1]
    if length < _MIN_LENGTH:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"batch length {length} is below {_MIN_LENGTH}")
    if remaining <= _MAGIC_POSITION:
        return None
    magic = batch[position + _MAGIC_POSITION]
    if magic > MAGIC:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"unknown magic {magic}")
    size = LOG_OVERHEAD_BYTES + length
    return size if size <= remaining else None


def refuse_header(header: BatchHeader) -> NoReturn:
    """Raise the reason why a client may not send `header`; the batch's checksum is correct."""
    codec = header.attributes & CODEC_MASK
    if codec not in _CODECS:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown codec {codec}")
    if header.last_offset_delta < 0:
        raise _invalid(f"negative last offset delta {header.last_offset_delta}")
    if header.record_count <= 0:
        raise _invalid(f"impossible count of records {header.record_count}")
    if header.last_offset_delta != header.record_count - 1:
        raise _invalid(
            f"{header.record_count} records do not fit last offset delta {header.last_offset_delta}"
        )
    if header.is_control:
        raise _invalid("clients may not write control batches")
    if header.base_sequence < 0 <= header.producer_id:
        raise _invalid(f"producer {header.producer_id} sent sequence {header.base_sequence}")
    assert header.timestamp_type, "nothing is wrong with the header"
    raise ApiError(ErrorCode.INVALID_TIMESTAMP, "clients may not set the type log-append-time")


def refuse_survey(survey: Survey, rules: RecordRules) -> NoReturn:
    """Raise the fault of a batch that breaks `rules`, found from `survey` alone.

    It names at most one record. This is for batches with too many records for a list of faults.
    """
    for timestamp_ms in (survey.earliest_timestamp_ms, survey.latest_timestamp_ms):
        if not rules.may_have_time(timestamp_ms):
            raise ApiError(ErrorCode.INVALID_TIMESTAMP, rules.refuse_time(timestamp_ms))
    if rules.needs_key and survey.first_without_key >= 0:
        fault = RecordError(survey.first_without_key, _NO_KEY)
    else:
        assert survey.first_out_of_place >= 0, "nothing is wrong with the records"
        fault = RecordError(survey.first_out_of_place, "offset delta is not the index")
    raise RecordsRejectedError(ErrorCode.INVALID_RECORD, [fault])


def refuse_records(records: Iterable[Record], rules: RecordRules) -> NoReturn:
    """Raise the faults of `records`, which break `rules`; their offsets count from 0.

    As in Kafka, a single wrong timestamp makes the whole refusal INVALID_TIMESTAMP.
    """
    code = ErrorCode.INVALID_RECORD
    found: list[RecordError] = []
    for record_code, record_error in _faults(records, rules):
        if record_code is ErrorCode.INVALID_TIMESTAMP:
            code = record_code
        if len(found) < _RECORD_ERRORS_LIMIT:
            found.append(record_error)
    raise RecordsRejectedError(code, found)


def _faults(
    records: Iterable[Record], rules: RecordRules
) -> Iterator[tuple[ErrorCode, RecordError]]:
    for index, record in enumerate(records):
        if rules.needs_key and record.key is None:
            yield ErrorCode.INVALID_RECORD, RecordError(index, _NO_KEY)
        elif not rules.may_have_time(record.timestamp_ms):
            message = rules.refuse_time(record.timestamp_ms)
            yield ErrorCode.INVALID_TIMESTAMP, RecordError(index, message)
        elif record.offset != index:
            message = f"offset delta {record.offset}, not {index}"
            yield ErrorCode.INVALID_RECORD, RecordError(index, message)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, message)

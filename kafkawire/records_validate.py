"""Validation of a batch that a client has sent (decision).

The common form of a batch, checksum included, is checked in one pass by `read_plain_batch`. Any
other form, and any error, takes the way through this module.

Every refusal has the same code as in Kafka (`records_refusal`). If Kafka has no proper code, or
accepts damage, Ottla differs:

- an unknown codec is UNSUPPORTED_COMPRESSION_TYPE and undecodable compressed data INVALID_RECORD,
  also lz4 of a form that Java cannot read; Kafka reports both as UNKNOWN_SERVER_ERROR,
- bytes behind the batch are refused; Kafka drops them if they are less than a batch,
- a record with parts that do not fill its length is refused; Kafka checks only uncompressed
  batches,
- a batch of type log-append-time is always refused; Kafka misses one combination,
- records with offset deltas other than 0, 1, 2, ... are refused; Kafka renumbers them in
  compressed batches, and stores them unchanged in others.
"""

from functools import partial
from typing import Final, Protocol

from kafkawire.compression import MAX_DECOMPRESSED_BYTES, Codec, is_linked_lz4
from kafkawire.errors import ApiError, CorruptBatchError, ErrorCode, TooLargeError
from kafkawire.native import IS_COMPILED, read_plain_batch, read_rows, survey_records
from kafkawire.records_header import (
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    CONTROL_BIT,
    HEADER,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    BytesLike,
    TimestampType,
    crc_matches,
    read_header,
    set_max_timestamp,
)
from kafkawire.records_loops import MIN_RECORD_BYTES
from kafkawire.records_read import Record, record_section
from kafkawire.records_refusal import (
    RecordRules,
    refuse_frame,
    refuse_header,
    refuse_records,
    refuse_survey,
)
from kafkawire.sentinels import NO_TIMESTAMP

_LAST_CODEC: Final = int(max(Codec))
# Batches with more records are refused without a list of the invalid ones: a few MB of compressed
# data may hold millions of records.
_EXPLAINED_RECORDS_LIMIT: Final = 10_000
_CREATE_TIME: Final = TimestampType.CREATE_TIME
_NOT_A_CLIENTS: Final = CONTROL_BIT | LOG_APPEND_TIME_BIT

# Number of bytes that are decompressed in the time of checking one record.
RECORD_COST_BYTES: Final = 16 if IS_COMPILED else 1024


# The blocks of a codec may be as short as three bytes, and empty.
_PACKED_COST: Final = 16
# Few codecs reach this ratio, and only with data of almost no content.
_LIKELY_RATIO: Final = 1024


class BudgetSpentError(Exception):
    """The validation exceeds the caller's budget; the batch may be valid or not."""

    def __init__(self, cost_bytes: int = MAX_DECOMPRESSED_BYTES) -> None:
        super().__init__()
        self.cost_bytes = cost_bytes
        """Cost of the batch; for a compressed one, the maximum cost of any batch."""


class Budget:
    """The limit on the work of validating batches, in decompressed bytes.

    As a measure of time, each record costs another `record_bytes`. The blocks of compressed data
    cost something too, because counting them may take longer than reading them. A plain batch costs
    nothing with the compiled loops.
    """

    __slots__ = ("left_bytes", "record_bytes")

    def __init__(self, left_bytes: int, record_bytes: int = RECORD_COST_BYTES) -> None:
        self.left_bytes = left_bytes
        self.record_bytes = record_bytes

    def section(self, batch: memoryview, header: BatchHeader) -> BytesLike:
        """Return the records of `batch`, decompressed, and deduct their cost.

        Raises:
            BudgetSpentError: they cost more than is left; the budget is then empty.
            CorruptBatchError: as for `record_section`.
        """
        left_bytes = max(0, self.left_bytes)
        packed_bytes = 0 if header.codec is Codec.NONE else len(batch)
        if packed_bytes and self.record_bytes:
            parts_bytes = packed_bytes * _PACKED_COST
            if parts_bytes > left_bytes:
                raise BudgetSpentError(parts_bytes)
            left_bytes -= parts_bytes
        self.left_bytes = 0
        limit_bytes = min(left_bytes, MAX_DECOMPRESSED_BYTES)
        try:
            section = record_section(batch, header, limit_bytes)
        except TooLargeError:
            if left_bytes < MAX_DECOMPRESSED_BYTES:
                raise BudgetSpentError from None
            self.left_bytes = left_bytes - MAX_DECOMPRESSED_BYTES
            raise
        except CorruptBatchError:
            # The progress before the error is unknown. Deduct no more than the likely cost, in
            # favour of the other batches.
            self.left_bytes = left_bytes - min(limit_bytes, len(batch) * _LIKELY_RATIO)
            raise
        # A count that the bytes cannot hold costs nothing: no record is read.
        cost_bytes = min(header.record_count, len(section) // MIN_RECORD_BYTES) * self.record_bytes
        if packed_bytes:
            cost_bytes += len(section)
        if cost_bytes > left_bytes:
            raise BudgetSpentError(cost_bytes)
        self.left_bytes = left_bytes - cost_bytes
        return section


class Validate(Protocol):
    """A function that checks a batch that arrives at `now_ms`, and returns its header."""

    def __call__(self, batch: memoryview, now_ms: int, budget: Budget | None = None) -> BatchHeader:
        """Raise the same errors as `validate_produced`."""


def validate_produced(
    batch: memoryview,
    *,
    compacted: bool,
    max_batch_bytes: int,
    timestamp_type: TimestampType,
    now_ms: int,
    timestamp_before_max_ms: int,
    timestamp_after_max_ms: int,
    budget: Budget | None = None,
) -> BatchHeader:
    """Check that `batch` is exactly one batch that the topic accepts, and return its header.

    `timestamp_type` is the topic's. As in Kafka, every record is checked, and a wrong maximum
    timestamp in the header is corrected in place (so `batch` must be writable).

    Raises:
        ApiError: the batch is refused, with the code for the client; RecordsRejectedError names
            the records, if single ones are invalid.
        BudgetSpentError: `budget` is not sufficient to decide.
    """
    header = _read_frame(batch, max_batch_bytes)
    oldest_ms = now_ms - timestamp_before_max_ms
    newest_ms = now_ms + timestamp_after_max_ms
    checks_times = timestamp_type is _CREATE_TIME
    if (
        header.record_count <= 0
        or header.last_offset_delta != header.record_count - 1
        or header.attributes & _NOT_A_CLIENTS
        or header.attributes & CODEC_MASK > _LAST_CODEC
        or header.base_sequence < 0 <= header.producer_id
    ):
        refuse_header(header)
    if header.codec is Codec.LZ4 and is_linked_lz4(batch[BATCH_HEADER_BYTES:]):
        text = "lz4 blocks depend on each other, which Java's clients cannot read"
        raise ApiError(ErrorCode.INVALID_RECORD, text)
    times_ms = (oldest_ms, newest_ms) if checks_times else None
    rules = RecordRules(compacted, times_ms)
    return _check_records(batch, header, rules, budget)


def validator(
    *,
    compacted: bool,
    max_batch_bytes: int,
    timestamp_type: TimestampType,
    timestamp_before_max_ms: int,
    timestamp_after_max_ms: int,
) -> Validate:
    """Return `validate_produced` for one topic, as a function of the batch and the time."""
    closely = partial(
        validate_produced,
        compacted=compacted,
        max_batch_bytes=max_batch_bytes,
        timestamp_type=timestamp_type,
        timestamp_before_max_ms=timestamp_before_max_ms,
        timestamp_after_max_ms=timestamp_after_max_ms,
    )
    checks_times = timestamp_type is _CREATE_TIME

    # Nearly every batch is plain: see benchmarks.micro.test_records.
    def validate(batch: memoryview, now_ms: int, budget: Budget | None = None) -> BatchHeader:
        header = read_plain_batch(
            batch,
            max_batch_bytes,
            compacted,
            checks_times,
            now_ms,
            timestamp_before_max_ms,
            timestamp_after_max_ms,
        )
        return closely(batch, now_ms=now_ms, budget=budget) if header is None else header

    return (
        validate
        if IS_COMPILED
        else lambda batch, now_ms, budget=None: closely(batch, now_ms=now_ms, budget=budget)
    )


def _read_frame(batch: memoryview, max_batch_bytes: int) -> BatchHeader:
    size = len(batch)
    if size < BATCH_HEADER_BYTES:
        refuse_frame(batch, max_batch_bytes)
    header = tuple.__new__(BatchHeader, HEADER.unpack_from(batch))
    if (
        header.magic != MAGIC
        or header.batch_length != size - LOG_OVERHEAD_BYTES
        or header.base_offset != 0
        or size > max_batch_bytes
    ):
        refuse_frame(batch, max_batch_bytes)
    if not crc_matches(batch, header):
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the checksum is not {header.crc:#010x}")
    return header


def _check_records(
    batch: memoryview, header: BatchHeader, rules: RecordRules, budget: Budget | None
) -> BatchHeader:
    try:
        if budget is None:
            section = record_section(batch, header, MAX_DECOMPRESSED_BYTES)
        else:
            section = budget.section(batch, header)
        survey = survey_records(section, header.record_count, header.base_timestamp_ms)
    except CorruptBatchError as error:
        # Not CORRUPT_MESSAGE: the checksum is correct, so a retry would not help.
        raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from error
    earliest_ms, latest_ms, first_without_key, first_out_of_place = survey
    needs_key, times_ms = rules
    if (
        first_out_of_place >= 0
        or (needs_key and first_without_key >= 0)
        or (
            times_ms is not None
            # The latest one stays at -1 if all are below.
            and earliest_ms != NO_TIMESTAMP
            and not times_ms[0] <= earliest_ms <= latest_ms <= times_ms[1]
        )
    ):
        if header.record_count > _EXPLAINED_RECORDS_LIMIT:
            refuse_survey(survey, rules)
        refuse_records(_read_deltas(section, header), rules)
    if times_ms is None or latest_ms == header.max_timestamp_ms:
        return header
    set_max_timestamp(batch, latest_ms)
    return read_header(batch)


def _read_deltas(section: BytesLike, header: BatchHeader) -> list[Record]:
    """Return the records, with offsets that count from 0."""
    return read_rows(
        section, header.record_count, 0, header.base_timestamp_ms, None, Record, (), ()
    )

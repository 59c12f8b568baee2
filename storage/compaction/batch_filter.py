"""The filter that cleaning applies to one batch (decision).

A record is kept if it is the last one of its key, or if it lies beyond the range of the offset map.
A tombstone is treated like any other record until its *delete horizon*: the time of the first
cleaning that finds it to be its key's last record, plus `delete.retention.ms`. The batch itself
stores the horizon as its base timestamp, with bit 6 of the attributes set, and the horizon never
moves (KIP-534). A transaction marker gets a horizon as soon as no data of its transaction is left.

Invariant: offsets, last offset, sequence, producer, leader epoch and codec of a batch do not
change. The last batch of a producer and the last batch of the round are kept even without records.
Source: Cleaner.cleanInto and MemoryRecords.filterTo of Kafka 3.9; KAFKA-17076.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafkawire.compaction_loops import Choice
from kafkawire.compression import MAX_DECOMPRESSED_BYTES, Codec, compress
from kafkawire.errors import CorruptBatchError
from kafkawire.native import OffsetMap, choose_records, rewrite_records
from kafkawire.records import (
    BATCH_HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    TimestampType,
    write_header,
)
from kafkawire.records_header import CODEC_MASK, DELETE_HORIZON_BIT
from kafkawire.records_read import record_section
from storage.compaction.transactions import CleanedTransactions
from storage.config.config_key import LONG_MAX
from storage.producers.producer_state import LastRecord

# A choice by an empty map keeps every record.
_EMPTY_MAP: Final = OffsetMap(1, bytes(16))


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterContext:
    """Inputs of the filter besides the batch."""

    offsets: OffsetMap
    transactions: CleanedTransactions
    last_records: Mapping[int, LastRecord]
    end_offset: int
    """End of the round (exclusive)."""
    now_ms: int
    delete_retention_ms: int


class Filtered(NamedTuple):
    """The batch to write (None if it is dropped), and its number of records."""

    batch: memoryview | bytearray | None
    record_count: int
    without_key_count: int = 0


def filter_batch(batch: memoryview, header: BatchHeader, context: FilterContext) -> Filtered:
    """Return the remainder of `batch`.

    Raises:
        CorruptBatchError: the records cannot be read.
    """
    # A batch of an aborted transaction, or a marker whose transaction has no data left.
    has_no_data = (
        context.transactions.on_control_batch(header, batch)
        if header.is_control
        else context.transactions.on_batch(header)
    )
    horizon_ms = header.delete_horizon_ms
    is_past_horizon = horizon_ms is not None and horizon_ms <= context.now_ms
    is_dropped = has_no_data and (is_past_horizon or not header.is_control)
    if is_dropped or not header.record_count:
        return _emptied(header, context)
    section = record_section(batch, header, MAX_DECOMPRESSED_BYTES)
    choice = choose_records(
        section,
        header.record_count,
        header.base_offset,
        header.base_timestamp_ms,
        _append_timestamp_ms(header),
        _EMPTY_MAP if header.is_control else context.offsets,
        is_past_horizon,  # Then the tombstones go.
    )
    if not choice.kept_count:
        return _emptied(header, context)._replace(without_key_count=choice.without_key_count)
    needs_horizon = horizon_ms is None and (choice.has_tombstone or has_no_data)
    if choice.kept_count == header.record_count and not needs_horizon:
        return Filtered(batch, choice.kept_count)
    if needs_horizon:
        horizon_ms = min(context.now_ms + context.delete_retention_ms, LONG_MAX)
    written = _rewrite(bytes(section), header, choice, horizon_ms)
    return Filtered(written, choice.kept_count, choice.without_key_count)


def _append_timestamp_ms(header: BatchHeader) -> int | None:
    is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    return header.max_timestamp_ms if is_append_time else None


def _emptied(header: BatchHeader, context: FilterContext) -> Filtered:
    """Return an empty batch if its header is still needed, else nothing."""
    last = context.last_records.get(header.producer_id)
    if not (_is_last_of_producer(header, last) or header.next_offset == context.end_offset):
        return Filtered(None, 0)
    return Filtered(
        _with_header(
            b"",
            header,
            attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT),
            base_timestamp_ms=NO_TIMESTAMP,
            record_count=0,
        ),
        0,
    )


def _is_last_of_producer(header: BatchHeader, last: LastRecord | None) -> bool:
    """Whether producer state depends on this batch, the last one of its producer."""
    if last is None:
        return False
    if last.offset is not None:
        return header.last_offset == last.offset
    return header.is_control and header.producer_epoch == last.producer_epoch


def _rewrite(
    section: bytes, header: BatchHeader, choice: Choice, horizon_ms: int | None
) -> bytearray:
    """Return the batch with the chosen records only, at unchanged timestamps.

    It has the horizon, unless a timestamp is too far from that: then the tombstones stay.
    """
    append_ms = _append_timestamp_ms(header)
    base_ms = choice.first_timestamp_ms if horizon_ms is None else horizon_ms
    try:
        records = rewrite_records(
            section, choice.kept, header.base_timestamp_ms, append_ms, base_ms
        )
    except CorruptBatchError:
        # The records are valid, as they have just been read. A producer has chosen timestamps that
        # are hundreds of millions of years apart: only the base that it has chosen is near enough.
        base_ms, horizon_ms = header.base_timestamp_ms, header.delete_horizon_ms
        records = rewrite_records(section, choice.kept, base_ms, append_ms, base_ms)
    if header.codec is not Codec.NONE:
        records = compress(header.codec, records)
    horizon_bit = 0 if horizon_ms is None else DELETE_HORIZON_BIT
    return _with_header(
        records,
        header,
        attributes=header.attributes & ~DELETE_HORIZON_BIT | horizon_bit,
        base_timestamp_ms=base_ms,
        max_timestamp_ms=choice.latest_timestamp_ms if append_ms is None else append_ms,
        record_count=choice.kept_count,
    )


def _with_header(records: bytes, header: BatchHeader, **changes: int) -> bytearray:
    batch = bytearray(BATCH_HEADER_BYTES)
    batch += records
    length = len(batch) - LOG_OVERHEAD_BYTES
    write_header(batch, header._replace(batch_length=length, **changes))
    return batch

"""Holds fetched batches until they are read (decision).

Blocks are read in the order of their arrival, a few batches at a time; a `Cursor` holds the
records that are being handed over.
Invariants: between two jumps the offsets of the records handed over only grow. Everything that is
skipped (markers, aborted transactions, empty batches, records below the position) still advances
the position.
"""

from collections import deque
from collections.abc import Iterator
from operator import length_hint
from typing import Final

from kafkawire.errors import CorruptBatchError
from kafkawire.ids import LeaderEpoch, Offset
from kafkawire.records import (
    MAX_DECOMPRESSED_BYTES,
    BatchHeader,
    BytesLike,
    crc_matches,
    read_records_as,
    record_section,
)
from kafkawire.units import KIB, MIB
from ottla.client.client_config import ConsumerConfig
from ottla.client.consumer.fetch_plan import LANE_COUNT
from ottla.client.consumer.fetched_block import FetchedBlock
from ottla.client.consumer.partition_state import PartitionState
from ottla.client.errors import CorruptRecordsError, OttlaError
from ottla.client.record import ConsumerRecord

CURSOR_RECORDS: Final = 500
CURSOR_BYTES: Final = 64 * KIB
CURSOR_EXPANDED_BYTES: Final = 1 * MIB
"""Limits of a cursor: it takes no further batch once it has reached one of them."""
BLOCK_BYTES: Final = 1 * KIB
"""Memory of a dropped block beside its batches, as an estimate."""


class Cursor:
    """Records of one or more batches that are being handed over."""

    # The list's iterator is the only progress counter, so that handing over costs nothing per
    # record (benchmarks/client_throughput.py).
    __slots__ = ("_fetched", "_records", "block", "end_offset", "is_shown", "iterator")

    def __init__(
        self, block: FetchedBlock, records: list[ConsumerRecord], end_offset: Offset
    ) -> None:
        self.block = block
        self.iterator: Iterator[ConsumerRecord] = iter(records)
        self.end_offset = end_offset
        """The offset after the batches, which may be beyond their last record."""
        self.is_shown = False
        """Whether `show` has replaced the records."""
        self._records = self._fetched = records

    @property
    def left_count(self) -> int:
        """Number of records that are not handed over yet."""
        return length_hint(self.iterator)

    @property
    def next_offset(self) -> Offset:
        """The offset of the next record to hand over."""
        left = self.left_count
        return self._fetched[-left].offset if left else self.end_offset

    @property
    def last_handed(self) -> ConsumerRecord | None:
        """The last record that was handed over, None before the first."""
        handed_count = len(self._records) - self.left_count
        return self._fetched[handed_count - 1] if handed_count else None

    def left(self) -> list[ConsumerRecord]:
        """Return the records that are not handed over yet, as they were fetched."""
        return self._fetched[len(self._fetched) - self.left_count :]

    def show(self, records: list[ConsumerRecord]) -> None:
        """Hand over `records` in place of the first of the fetched ones; the others wait.

        Call it before a record was handed over.
        """
        assert self.left_count == len(self._fetched) >= len(records) > 0
        waiting = self._fetched[len(records) :]
        if waiting:
            self.block.rest, self.block.rest_end_offset = waiting, self.end_offset
            self.end_offset = waiting[0].offset
            self._fetched = self._fetched[: len(records)]
        self._records, self.iterator, self.is_shown = records, iter(records), True

    def cut(self) -> list[ConsumerRecord]:
        """End the iteration for every holder of the iterator; return the remaining records."""
        left = self.left()
        self._records.clear()
        return left


class FetchBuffer:
    """The fetched blocks of all partitions, and the cursor into the block being read."""

    def __init__(self, config: ConsumerConfig) -> None:
        self.size_bytes = 0
        self.has_room = False
        """Whether reading has made room for another fetch; the reader clears this."""
        self.cursor_count = 0
        """Number of cursors created so far."""
        self.record_count = 0
        """Number of records decoded so far, for the metrics."""
        self.read_bytes = 0
        """Size of the batches decoded so far."""
        self.expanded_bytes = 0
        """Size of their records so far, decompressed."""
        self._check_crcs = config.check_crcs
        self._reads_committed = config.isolation_level == "read_committed"
        self._partition_limit_bytes = config.max_partition_fetch_bytes
        self._max_dropped_bytes = config.prefetch_max_bytes
        self._dropped_bytes = 0
        """Size of the data that was dropped, but may still be in the queue."""
        # Paused partitions keep no more, so that reading all others makes room.
        share_bytes = config.prefetch_max_bytes // LANE_COUNT
        self._full_bytes = config.prefetch_max_bytes - min(
            config.max_partition_fetch_bytes, share_bytes
        )
        self._blocks: deque[FetchedBlock] = deque()
        self._cursor: Cursor | None = None
        self._parked: dict[PartitionState, deque[FetchedBlock]] = {}
        """Blocks of paused partitions that reached the head of the queue."""
        self._failed: deque[PartitionState] = deque()
        self._is_in_hand = False
        self._in_hand: dict[PartitionState, ConsumerRecord] = {}

    # Filling

    def add(self, block: FetchedBlock) -> None:
        """Append a block of a fetch response."""
        if self._dropped_bytes > self._max_dropped_bytes:
            self._sweep()
        self._blocks.append(block)
        block.state.buffered_bytes += block.size_bytes
        self.size_bytes += block.size_bytes

    def fail(self, state: PartitionState, error: OttlaError, retry_at_s: float) -> None:
        """Make the next read raise `error`, and drop the fetched data of the partition."""
        self.drop_fetched(state)
        state.on_error(error, retry_at_s)
        self._failed.append(state)

    def drop(self, state: PartitionState) -> None:
        """Drop the fetched data of a partition, and take back its records in hand.

        The partition must then jump or be unassigned.
        """
        self.drop_fetched(state)
        self._in_hand.pop(state, None)

    def drop_fetched(self, state: PartitionState) -> None:
        """Drop the fetched data of a partition, which must then jump.

        Unlike `drop`, this is no decision of the application: its records in hand stay there.
        """
        # Its blocks stay in the queue until they are at its head, or are too many.
        self._dropped_bytes += state.buffered_bytes + BLOCK_BYTES
        self._release(state, state.buffered_bytes)
        self._parked.pop(state, None)
        self._leave(state)

    def pause(self, state: PartitionState) -> None:
        """Hand over no records of this partition until `resume`; keep its fetched data."""
        state.is_paused = True
        self._leave(state)

    def resume(self, state: PartitionState) -> None:
        """Hand over records of this partition again, from where it was paused."""
        state.is_paused = False
        self._blocks.extendleft(reversed(self._parked.pop(state, deque())))

    # Reading

    def position(self, state: PartitionState) -> Offset | None:
        """Return the offset of the next record to hand over, None while it is unknown."""
        if self._cursor is not None and self._cursor.block.state is state:
            return self._cursor.next_offset
        return state.next_offset

    def position_epoch(self, state: PartitionState) -> LeaderEpoch:
        """Return the leader epoch of the record before `position`, -1 if it is unknown."""
        if self._cursor is not None and self._cursor.block.state is state:
            last = self._cursor.last_handed
            if last is not None:
                return last.leader_epoch
        return state.position_epoch

    def hand_out(self) -> None:
        """Mark the records that are handed over from now on as in hand: not yet processed."""
        self._is_in_hand = True

    def take_back(self) -> None:
        """Mark all records that were handed over as processed."""
        self._is_in_hand = False
        self._in_hand.clear()

    def hold_from(self, state: PartitionState, record: ConsumerRecord) -> None:
        """Mark `record` and the later records of its partition as in hand.

        A reader that takes records one by one does not need this: only the last one is in hand.
        """
        self._in_hand.setdefault(state, record)

    def first_in_hand(self, state: PartitionState) -> ConsumerRecord | None:
        """Return the first record of a partition that may not be processed yet."""
        cursor = self._cursor
        if not self._is_in_hand or state in self._in_hand:
            return self._in_hand.get(state)
        if cursor is None or cursor.block.state is not state:
            return None
        return cursor.last_handed

    def interrupt(self) -> None:
        """End the current cursor, so that a reader that iterates requests the next one."""
        if self._cursor is not None:
            self._leave(self._cursor.block.state)

    def cursor(self, *, quietly: bool = False) -> Cursor | None:
        """Return a cursor with at least one record left, or None if nothing is buffered.

        Raises:
            OttlaError: the error passed to `fail`, or CorruptRecordsError for a damaged batch.
                Each error is raised once; with `quietly` it is left for the next call.
        """
        if self._cursor is not None:
            if self._cursor.left_count:
                return self._cursor
            self._leave(self._cursor.block.state)
        if not quietly:
            self._raise_failure()
        while self._blocks:
            block = self._blocks[0]
            if block.is_empty or not block.is_current:
                self._blocks.popleft()
            elif block.state.is_paused:
                self._parked.setdefault(block.state, deque()).append(self._blocks.popleft())
            elif (cursor := self._read(block)) is not None:
                self._cursor = cursor
                self.cursor_count += 1
                return cursor
        if not quietly:
            self._raise_failure()
        return None

    # Inside

    def _sweep(self) -> None:
        """Remove the blocks of earlier positions, which may never reach the head of the queue."""
        self._blocks = deque(block for block in self._blocks if block.is_current)
        self._dropped_bytes = 0

    def _read(self, block: FetchedBlock) -> Cursor | None:
        """Decode batches of `block` into a cursor; None if they contain no records to read."""
        # Several small batches share a cursor, since a cursor costs as much as a few records.
        if block.rest:
            records, block.rest = block.rest, []
            return Cursor(block, records, block.rest_end_offset)
        state = block.state
        assert state.next_offset is not None
        end_offset, epoch = state.next_offset, state.position_epoch
        records = []
        freed_bytes = expanded_bytes = 0
        damage: CorruptRecordsError | None = block.error
        while (
            block.batches
            and len(records) < CURSOR_RECORDS
            and freed_bytes < CURSOR_BYTES
            and expanded_bytes < CURSOR_EXPANDED_BYTES
        ):
            header, batch = block.batches[0]
            try:
                if self._is_visible(block, header, batch, state.next_offset):
                    section = record_section(batch, header, MAX_DECOMPRESSED_BYTES)
                    expanded_bytes += len(section)
                    records += _records_of(block, header, batch, section, state.next_offset)
            except CorruptBatchError as error:
                offset = Offset(header.base_offset)
                damage = CorruptRecordsError(state.topic_partition, offset, str(error))
                break
            del block.batches[0]
            epoch = LeaderEpoch(header.leader_epoch)
            freed_bytes += header.size_bytes
            end_offset = max(end_offset, Offset(header.next_offset))
        self._release(state, freed_bytes)
        self.record_count += len(records)
        self.read_bytes += freed_bytes
        self.expanded_bytes += expanded_bytes
        if records:
            # A damaged batch is reported by the next cursor, after these records.
            return Cursor(block, records, end_offset)
        state.next_offset, state.position_epoch = end_offset, epoch
        if damage is not None:
            self.fail(state, damage, retry_at_s=0.0)
        return None

    def _is_visible(
        self, block: FetchedBlock, header: BatchHeader, batch: memoryview, from_offset: Offset
    ) -> bool:
        """Whether a batch contains records for the reader.

        Raises:
            CorruptBatchError: the batch or a marker before it is damaged.
        """
        if self._check_crcs and not crc_matches(batch, header):
            raise CorruptBatchError("its checksum is wrong")
        is_aborted = self._reads_committed and block.is_aborted(header, batch)
        return not (header.is_control or is_aborted or header.next_offset <= from_offset)

    def _leave(self, state: PartitionState) -> None:
        """End the cursor if it belongs to `state`; its remaining records return to the block."""
        cursor = self._cursor
        if cursor is not None and cursor.block.state is state:
            last = cursor.last_handed
            if last is not None:
                state.position_epoch = last.leader_epoch
                if self._is_in_hand:
                    self._in_hand.setdefault(state, last)
            state.next_offset = cursor.next_offset
            if not cursor.block.rest:
                cursor.block.rest_end_offset = cursor.end_offset
            cursor.block.rest = cursor.cut() + cursor.block.rest
            self._cursor = None

    def _release(self, state: PartitionState, size_bytes: int) -> None:
        was_full = self.size_bytes > self._full_bytes
        was_partition_full = state.buffered_bytes > self._partition_limit_bytes
        state.buffered_bytes -= size_bytes
        self.size_bytes -= size_bytes
        is_full = self.size_bytes > self._full_bytes
        is_partition_full = state.buffered_bytes > self._partition_limit_bytes
        # Each of them: data of paused partitions may fill the buffer, and gives way to a fetch.
        if (was_full and not is_full) or (was_partition_full and not is_partition_full):
            self.has_room = True

    def _raise_failure(self) -> None:
        for _ in range(len(self._failed)):
            state = self._failed.popleft()
            error = state.error
            if error is None:
                continue
            if state.is_paused:
                self._failed.append(state)
                continue
            state.error = None
            # Until now the partition was not fetched.
            self.has_room = True
            raise error


def _records_of(
    block: FetchedBlock,
    header: BatchHeader,
    batch: memoryview,
    section: BytesLike,
    from_offset: Offset,
) -> list[ConsumerRecord]:
    topic, partition = block.state.topic_partition
    records = read_records_as(
        ConsumerRecord,
        batch,
        before=(topic, partition),
        after=(header.timestamp_type, header.leader_epoch),
        header=header,
        section=section,
    )
    if header.base_offset < from_offset:
        return [record for record in records if record.offset >= from_offset]
    return records

"""The segments of one log as one sequence of offsets (edge).

Invariants: offsets grow without overlap from segment to segment; `log_end_offset` is raised only
after a batch has been written to the file, or to the start of a new segment; everything below
`recovery_point` is on disk; `producers` reflects all batches below `log_end_offset`.

One thread owns a `LocalLog`. Other threads may call `sync`.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import structlog

from kafkawire.ids import Offset
from kafkawire.records import BatchHeader
from storage.config.log_config import LogConfig
from storage.disk.checkpoint import sync_directory
from storage.disk.deleted_files import DeletedFiles
from storage.disk.layout import PRODUCER_SNAPSHOT_SUFFIX, segment_file
from storage.log.loading import LoadedLog
from storage.log.segment_swap import SegmentSwap
from storage.producers import producer_replay, producer_snapshots
from storage.segment.segment import FileRegion, Segment
from storage.segment.segment_files import rename_back
from storage.segment.segment_lookup import read_region
from storage.segment.transaction_index import AbortedTransaction

log = structlog.get_logger(__name__)


class SyncGoal(NamedTuple):
    """The offset that a sync raises the recovery point to, unless the log is truncated first."""

    recovery_point: Offset
    end_offset: Offset
    truncation_count: int


class LocalLog:
    """The log in `directory`. OSErrors pass through; the owner of the log dir handles them."""

    def __init__(self, directory: Path, config: LogConfig, loaded: LoadedLog, now_ms: int) -> None:
        self.directory = directory
        self.config = config
        self.segments = loaded.segments
        self.log_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point
        self.producers = loaded.producers
        """State of the producers. `append_all` updates it; a caller of `append` has to."""
        self.has_dropped_producers = False
        """Whether `producers` may reflect batches that a truncation has dropped."""
        self.is_unsettled = loaded.is_cut
        """Whether a truncation has to be finished before the next append; see `Log`."""
        self._has_partial_producers = False
        self.deleted_files = DeletedFiles(loaded.discarded)
        self._active = loaded.segments.last
        self.has_aborted = any(each.transactions.size_bytes for each in loaded.segments)
        """Whether there may be an aborted transaction; false for most logs."""
        self.on_rolled: Callable[[], None] = lambda: None
        """Called when a segment has been closed, which is not on disk yet."""
        self._clock_ms = now_ms
        self._snapshot_offset = loaded.snapshot_offset
        self._saved_offset = loaded.log_end_offset if loaded.is_clean else None
        """The log's end up to which all of its files are on disk; None if some may not be.

        A flush, which raises the recovery point, does not write the end of the indexes.
        """
        self._empty_region: FileRegion | None = None
        self._swap: SegmentSwap | None = None
        # Guards the recovery point against a sync that began before a truncation.
        self._truncation_lock = Lock()
        self._truncation_count = 0

    @property
    def size_bytes(self) -> int:
        """Size of all batches."""
        return sum(segment.size_bytes for segment in self.segments)

    def append(
        self,
        batch: memoryview,
        base_offset: Offset,
        last_offset: Offset,
        timestamp_ms: int,
        now_ms: int,
    ) -> None:
        """Write one batch at the end, rolling to a new segment if needed."""
        segment = self._active
        if segment.must_roll(len(batch), last_offset, timestamp_ms, self.config, now_ms):
            segment = self.roll(base_offset, now_ms)
        segment.append(batch, base_offset, last_offset, timestamp_ms)
        self.log_end_offset = Offset(last_offset + 1)

    def append_all(self, data: memoryview, headers: list[BatchHeader], now_ms: int) -> None:
        """Write consecutive batches, with a single write if one segment has room for all."""
        last_offset = Offset(headers[-1].last_offset)
        latest_ms = max(header.max_timestamp_ms for header in headers)
        active = self._active
        if (
            active.size_bytes
            and active.index.has_room_for(len(headers))
            and not active.must_roll(len(data), last_offset, latest_ms, self.config, now_ms)
        ):
            active.append_all(data, headers)
            self.log_end_offset = Offset(last_offset + 1)
            self._note_producers(data, headers)
            return
        position = 0
        for header in headers:
            batch = data[position : position + header.size_bytes]
            base, last = Offset(header.base_offset), Offset(header.last_offset)
            self.append(batch, base, last, header.max_timestamp_ms, now_ms)
            self._note_producers(batch, [header])
            position += header.size_bytes

    def _note_producers(self, data: memoryview, headers: list[BatchHeader]) -> None:
        position = 0
        aborted: list[AbortedTransaction] = []
        for header in headers:
            if header.producer_id >= 0:
                is_control = header.is_control
                marker = producer_replay.read_marker(data[position:]) if is_control else None
                found = self.producers.replay(header, marker)
                if found is not None:
                    aborted.append(found)
            position += header.size_bytes
        if aborted:
            # After all producers have been updated, as this may fail.
            self.has_aborted = True
            self._active.transactions.append(aborted)

    def read(
        self, offset: Offset, max_bytes: int, end_offset: Offset, *, min_one_batch: bool
    ) -> FileRegion:
        """Return the complete batches in `offset`..`end_offset` (exclusive); maybe none."""
        if offset >= end_offset:
            return self._nothing()
        active = self._active
        segments = [active] if offset >= active.base_offset else self.segments.from_offset(offset)
        for segment in segments:
            if segment.base_offset >= end_offset:
                break
            segment_end = (
                self.log_end_offset if segment is active else self.segments.end_of(segment)
            )
            limit = None if end_offset >= segment_end else end_offset
            region = read_region(segment, offset, max_bytes, limit, min_one_batch=min_one_batch)
            if region is not None:
                return region
        return self._nothing()

    def aborted_in(
        self, region: FileRegion, offset: Offset, end_offset: Offset
    ) -> list[AbortedTransaction]:
        """Return the aborted transactions that may have records in `region`.

        `region` is the result of the last `read` with `offset` and `end_offset`. Transactions that
        end below `offset` are left out. Markers are searched up to the end of the log.
        """
        found: list[AbortedTransaction] = []
        if not region.size_bytes:
            return found
        segments = self.segments.from_offset(offset)
        # The region lies in one segment: transactions that begin in a later one do not matter.
        for segment, following in pairwise(segments):
            if segment.holds(region):
                end_offset = min(end_offset, segment.offset_behind(region, following.base_offset))
                break
        else:
            end_offset = min(end_offset, segments[-1].offset_behind(region, end_offset))
        for segment in segments:
            if segment.transactions.size_bytes and segment.transactions.find(
                offset, end_offset, found
            ):
                break
        return found

    def _nothing(self) -> FileRegion:
        if self._empty_region is None:
            self._empty_region = FileRegion(self._active.file, 0, 0)
        return self._empty_region

    def roll(self, base_offset: Offset, now_ms: int) -> Segment:
        """Close the active segment and begin one at `base_offset`."""
        closed = self._active
        closed.close()
        if len(self.segments) > 1:
            # Few reads go back that far, and the files of all segments would be too many.
            self.segments.at(-2).release()
        self._clock_ms = now_ms
        self._active = self._create_segment(base_offset)
        self.segments.add(self._active)
        # A follower may skip offsets that compaction has dropped. If writing the batch fails, the
        # next one may not begin below the new segment; a start would find the same end.
        self.log_end_offset = base_offset
        producer_snapshots.write_snapshot(self.directory, base_offset, self.producers)
        self._snapshot_offset = base_offset
        log.info(
            "segment.rolled",
            partition=self.directory.name,
            base_offset=base_offset,
            closed_base_offset=closed.base_offset,
            closed_size_bytes=closed.size_bytes,
        )
        self.on_rolled()
        return self._active

    def _create_segment(self, base_offset: Offset) -> Segment:
        self._empty_region = self._saved_offset = None
        return Segment.create(self.directory, base_offset, self.config, self._clock_ms)

    def begin_swap(self, base_offsets: Sequence[int], size_bytes: int) -> bool:
        """Prepare the replacement of closed segments by a cleaned one; see `SegmentSwap`.

        Returns False, and does nothing, if the segments are no longer neighbours in this log.
        Nothing is replaced before `finish_swap`, and the directory must be synced in between.
        """
        found = self._neighbours(base_offsets)
        if self._swap is not None or found is None:
            return False
        swap = SegmentSwap(self.directory, found, size_bytes)
        self._swap = swap if swap.begin() else None
        return self._swap is not None

    def _neighbours(self, base_offsets: Sequence[int]) -> list[Segment] | None:
        found = self.segments.from_offset(base_offsets[0])[: len(base_offsets)]
        is_same = [each.base_offset for each in found] == list(base_offsets)
        return found if is_same and found[-1] is not self._active else None

    def finish_swap(self, now_ms: int) -> bool:
        """Put the cleaned segment in place; return False if the swap has been cancelled."""
        swap = self._swap
        if swap is None:
            return False
        new, deleted = swap.finish(self.config, now_ms)
        self._swap = None
        self.segments.splice(swap.old, new)
        self.deleted_files.add(deleted)
        gone = [each.base_offset for each in swap.old[1:]]
        producer_snapshots.remove(self.directory, gone)
        log.info(
            "segment.cleaned",
            partition=self.directory.name,
            base_offset=swap.base_offset,
            replaced_count=len(swap.old),
            replaced_size_bytes=sum(each.size_bytes for each in swap.old),
            size_bytes=swap.size_bytes,
        )
        return True

    def cancel_swap(self) -> None:
        """Cancel a pending swap, because the log is about to differ from the cleaned one."""
        if self._swap is not None:
            # Cleared only after success: the next start would finish a swap that is left on disk.
            self._swap.cancel()
            self._swap = None

    def truncate_to(self, offset: Offset) -> None:
        """Drop all batches that hold `offset` or a later one, and lower `log_end_offset`."""
        self.cancel_swap()
        if offset < self.segments.first.base_offset:
            self.restart_at(offset)
            return
        # The newest first, so that a crash in between leaves no gap.
        self._delete_newest(self.segments.above(offset)[::-1])
        self._end_at(self._active.truncate_to(offset))
        self.reload_producers()

    def _delete_newest(self, segments: Sequence[Segment]) -> None:
        """Delete the newest segments, newest first; if one fails, the log ends behind it."""
        count = 0
        try:
            for segment in segments:
                self._delete(segment)
                count += 1
        finally:
            if count:
                self.segments.drop_newest(count)
                self._active = self.segments.last
                self._end_at(segments[count - 1].base_offset)

    def restart_at(self, offset: Offset) -> None:
        """Drop everything; the next batch begins at `offset` or above."""
        self.cancel_swap()
        # The oldest first: after a crash in between, no checkpoint lies beyond the log's end.
        self.delete_below(self._active.base_offset)
        self._replace_active(offset)
        self._end_at(offset)
        self.producers.clear()
        self._has_partial_producers = False
        self._snapshot_offset = Offset(0)
        offsets = producer_snapshots.snapshot_offsets(self.directory)
        producer_snapshots.remove(self.directory, offsets)
        self.has_dropped_producers = False

    def _replace_active(self, offset: Offset) -> None:
        """Delete the only segment, and begin one at `offset`; if that fails, the old one stays."""
        old = self._active
        # In this order: the old files may have the name of the new one, and a concurrent sync must
        # never find the list empty.
        deleted = old.files.mark_deleted()
        try:
            self._active = self._create_segment(offset)
        except OSError:
            # Otherwise the next batches would go to files that are about to be removed.
            rename_back({path.with_suffix(""): path for path in deleted})
            raise
        self.segments.replace(self._active)
        self._note_deleted(old, deleted)

    def reload_producers(self) -> None:
        """Discard the state of batches above the log end.

        A truncation does so. If that fails, it has to be repeated before the next append: otherwise
        the retry of a dropped batch would count as a duplicate, and be acknowledged.
        """
        offsets = producer_snapshots.snapshot_offsets(self.directory)
        behind = [offset for offset in offsets if offset > self.log_end_offset]
        producer_snapshots.remove(self.directory, behind)
        kept = offsets[: len(offsets) - len(behind)]
        self._snapshot_offset = max(kept, default=Offset(0))
        if self._has_partial_producers or not self.producers.truncate(self.log_end_offset):
            self._has_partial_producers = True
            producer_replay.rebuild(
                self.producers, self.directory, self.segments, kept, self.log_end_offset
            )
        self.has_dropped_producers = self._has_partial_producers = False

    def _end_at(self, offset: Offset) -> None:
        self._empty_region = self._saved_offset = None
        with self._truncation_lock:
            self._truncation_count += 1
            self.has_dropped_producers = self.is_unsettled = True
            self.log_end_offset = offset
            self.recovery_point = min(self.recovery_point, offset)

    def release_closed(self) -> None:
        """Close the files of closed segments; the next reader reopens them."""
        for segment in self.segments:
            if segment is not self._active:
                segment.release()

    def delete_below(self, offset: Offset) -> None:
        """Delete the segments that lie entirely below `offset`, never the active one."""
        below = self.segments.below(offset)
        if below:
            self.cancel_swap()
        count = 0
        try:
            for segment in below:
                self._delete(segment)
                count += 1
        finally:
            self.segments.drop_oldest(count)

    def delete_oldest(self, count: int, now_ms: int) -> Offset:
        """Delete the `count` oldest segments, perhaps the active one; return the new first offset.

        That is the base offset of the oldest segment that is left.
        """
        if count == len(self.segments):
            self.roll(self.log_end_offset, now_ms)
        end_offset = self.segments.at(count).base_offset
        self.delete_below(end_offset)
        return end_offset

    def _delete(self, segment: Segment) -> None:
        self._note_deleted(segment, segment.files.mark_deleted())

    def _note_deleted(self, segment: Segment, files: list[Path]) -> None:
        self.deleted_files.add(files)
        log.info(
            "segment.deleted",
            partition=self.directory.name,
            base_offset=segment.base_offset,
            size_bytes=segment.size_bytes,
        )

    @property
    def has_closed_since_sync(self) -> bool:
        """Whether a closed segment may not be on disk yet."""
        return self._active.base_offset > self.recovery_point

    def sync_goal(self, *, closed_only: bool = False) -> SyncGoal:
        """Return the goal of a sync of all batches that are appended by now; any thread may call.

        Other files that the recovery point covers are written after this and before `sync`, because
        batches may be appended meanwhile.
        """
        with self._truncation_lock:
            end_offset = self._active.base_offset if closed_only else self.log_end_offset
            return SyncGoal(self.recovery_point, end_offset, self._truncation_count)

    def sync(self, goal: SyncGoal) -> None:
        """Sync the batches below the goal, and raise the recovery point; any thread may call."""
        if goal.end_offset <= goal.recovery_point:
            return
        self._sync_segments(goal.recovery_point, goal.end_offset)
        if self._active.base_offset >= goal.recovery_point:
            sync_directory(self.directory)
        with self._truncation_lock:
            if goal.truncation_count == self._truncation_count:
                self.recovery_point = max(self.recovery_point, goal.end_offset)

    def _sync_segments(self, recovery_point: Offset, end_offset: Offset) -> None:
        """Sync the segments that may differ from their files on disk."""
        # From the segment that ends at the recovery point on: its indexes were closed after that.
        for segment in self.segments.from_offset(recovery_point - 1):
            if segment.base_offset < end_offset:
                segment.sync()

    def close(self) -> None:
        """Sync, and leave the files in the state for a start without recovery."""
        self.cancel_swap()
        if self.has_dropped_producers:
            # If this fails, the next start recovers the log. A clean one without a snapshot would
            # take it for a log without producers.
            self.reload_producers()
        self._active.close()
        self._write_last_snapshot()
        end_offset = self.log_end_offset
        if self._saved_offset != end_offset:
            # Even if all batches are flushed: the indexes and the snapshot were written just now.
            self._sync_segments(self.recovery_point, Offset(end_offset + 1))
            sync_directory(self.directory)
            self.recovery_point = self._saved_offset = end_offset
        for segment in self.segments:
            segment.release()
        self._empty_region = None

    def _write_last_snapshot(self) -> None:
        """Write a final producer snapshot; sync it unless it is empty."""
        end_offset = self.log_end_offset
        path = segment_file(self.directory, end_offset, PRODUCER_SNAPSHOT_SUFFIX)
        # The start has removed a damaged one.
        if end_offset > self._snapshot_offset or (end_offset and not path.exists()):
            producer_snapshots.write_snapshot(
                self.directory, end_offset, self.producers, is_durable=len(self.producers) > 0
            )
            self._snapshot_offset = end_offset
            self._saved_offset = None

"""One round of cleaning: map the dirty keys, then copy the kept records of all segments (edge).

The cleaner reads the live files and writes `.cleaned` files; the owner of the log swaps them in.
The decisions are in other modules. Source: kafka.log.Cleaner of Kafka 3.9.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kafkawire.compression import MAX_DECOMPRESSED_BYTES
from kafkawire.errors import CorruptBatchError
from kafkawire.ids import Offset
from kafkawire.native import BYTES_PER_SLOT, OffsetMap, index_keys
from kafkawire.records import BatchHeader
from kafkawire.records_read import record_section
from storage.compaction.batch_filter import FilterContext, filter_batch
from storage.compaction.batch_source import open_source, read_batches
from storage.compaction.grouping import MeasuredSegment, group_segments
from storage.compaction.job import (
    CleanerStats,
    CleaningDone,
    CleaningJob,
    GroupCleaned,
    SourceSegment,
)
from storage.compaction.transactions import CleanedTransactions, UnindexedAbortError
from storage.config.log_config import LogConfig
from storage.disk.layout import (
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file,
)
from storage.errors import CorruptLogError, StorageError
from storage.segment.cleaned_segment import CleanedSegment
from storage.segment.log_file import LogFile
from storage.segment.transaction_index import AbortedTransaction, overlapping, read_aborted

WINDOW_SECONDS: Final = 0.3
"""Window of the rate limit."""

_REBUILD_INDEX: Final = (
    "stop the broker and delete the .index of this segment, then the next start rebuilds both"
)


class Cleaner:
    """Execution of one `job`. Calls block, also to keep within the job's rate limit."""

    def __init__(
        self,
        job: CleaningJob,
        *,
        seed: bytes,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Prepare the round; `seed` is 16 unpredictable bytes for the hash of keys.

        Raises:
            StorageError: the memory that the job may use does not hold a single key.
        """
        slot_count = job.dedupe_buffer_bytes // BYTES_PER_SLOT
        self._map_limit = int(slot_count * job.load_factor)
        if self._map_limit < 1:
            raise StorageError(
                f"a map of {job.dedupe_buffer_bytes} bytes holds no key: raise "
                "log.cleaner.dedupe.buffer.size or lower log.cleaner.threads"
            )
        self.stats = CleanerStats(map_slot_count=slot_count)
        self._job = job
        self._offsets = OffsetMap(slot_count, seed)
        self._config = LogConfig(
            segment_bytes=job.segment_bytes,
            segment_index_bytes=job.segment_index_bytes,
            index_interval_bytes=job.index_interval_bytes,
        )
        self._throttle = Throttle(job.max_bytes_per_second, clock())
        self._clock = clock
        self._sleep = sleep
        self._transactions = [
            *self._read_transactions(job.segments),
            *self._read_transactions(job.tail),
        ]

    def clean(self) -> Iterator[GroupCleaned | CleaningDone]:
        """Write the new segments. Yield each once it is complete and on disk, then the end.

        Raises:
            CorruptLogError: a segment is damaged.
            StorageError: the log cannot be cleaned.
            OSError: a file cannot be read or written. A missing file was deleted concurrently.
        """
        job, started_s = self._job, self._clock()
        self._build_map()
        end_offset = self._offsets.latest_offset + 1
        self.stats.map_size = self._offsets.size
        self.stats.map_seconds = self._clock() - started_s
        context = FilterContext(
            offsets=self._offsets,
            transactions=CleanedTransactions(),
            last_records=job.last_records,
            end_offset=end_offset,
            now_ms=job.now_ms,
            delete_retention_ms=job.delete_retention_ms,
        )
        groups = group_segments(
            [self._measure(each) for each in job.segments if each.base_offset < end_offset],
            segment_bytes=job.segment_bytes,
            segment_index_bytes=job.segment_index_bytes,
        )
        for group in groups:
            yield self._clean_group([each.segment for each in group], context)
        self.stats.seconds = self._clock() - started_s
        yield CleaningDone(end_offset=end_offset, stats=self.stats)

    def _build_map(self) -> None:
        """Read the dirty part until the map is full, or to its end."""
        job = self._job
        transactions = CleanedTransactions()
        dirty = [each for each in job.segments if each.end_offset > job.first_dirty_offset]
        if dirty:
            transactions.add_aborted(
                overlapping(self._transactions, dirty[0].base_offset, job.first_uncleanable_offset)
            )
        self._add_segments(dirty, transactions)
        self._check_undecided(transactions)

    def _add_segments(
        self, dirty: Sequence[SourceSegment], transactions: CleanedTransactions
    ) -> None:
        job = self._job
        for segment in dirty:
            if not self._add_to_map(segment, transactions):
                return
            # No records lie between the last batch and the end of the range: it counts as clean.
            end_offset = min(segment.end_offset, job.first_uncleanable_offset)
            self._offsets.latest_offset = max(self._offsets.latest_offset, end_offset - 1)

    def _add_to_map(self, segment: SourceSegment, transactions: CleanedTransactions) -> bool:
        """Add the keys of a segment; return False once the map is full."""
        file = open_source(self._job.path, segment)
        with _damage_of(file.path):
            for header, batch in read_batches(file, self._job.io_buffer_bytes, self._on_map_read):
                self.stats.map_records_read += header.record_count
                if header.is_control:
                    transactions.on_control_batch(header, batch)
                elif not transactions.on_batch(header) and not self._add_keys(header, batch):
                    return False
                if header.last_offset >= self._job.first_dirty_offset:
                    self._offsets.latest_offset = header.last_offset
        return True

    def _check_undecided(self, transactions: CleanedTransactions) -> None:
        """Read on to the markers of the transactions that are open at the end of the map.

        Their records have superseded others of the same keys in the map, which is wrong if a marker
        aborts them.
        """
        undecided = transactions.undecided
        end_offset = self._offsets.latest_offset + 1
        if not undecided:
            return
        for segment in (*self._job.segments, *self._job.tail):
            if segment.end_offset <= end_offset:
                continue
            file = open_source(self._job.path, segment)
            with _damage_of(file.path):
                for header, batch in read_batches(
                    file, self._job.io_buffer_bytes, self._on_map_read
                ):
                    if header.base_offset < end_offset or header.producer_id not in undecided:
                        continue
                    if header.is_control:
                        transactions.on_control_batch(header, batch)
                        undecided.discard(header.producer_id)
                    if not undecided:
                        return

    def _add_keys(self, header: BatchHeader, batch: memoryview) -> bool:
        first_dirty = self._job.first_dirty_offset
        if header.last_offset < first_dirty or not header.record_count:
            return True
        return index_keys(
            record_section(batch, header, MAX_DECOMPRESSED_BYTES),
            header.record_count,
            header.base_offset,
            first_dirty,
            self._offsets,
            self._map_limit,
        )

    def _clean_group(self, group: list[SourceSegment], context: FilterContext) -> GroupCleaned:
        job = self._job
        base_offset = group[0].base_offset
        cleaned = CleanedSegment(
            job.path,
            base_offset,
            self._config,
            job.io_buffer_bytes,
            least_free_bytes=job.least_free_bytes,
        )
        modified_ns = 0
        context.transactions.kept_aborted = []
        for segment in group:
            file = open_source(job.path, segment)
            modified_ns = os.fstat(file.fileno()).st_mtime_ns
            context.transactions.add_aborted(
                overlapping(self._transactions, segment.base_offset, segment.end_offset)
            )
            self._copy(file, cleaned, context)
        cleaned.finish(context.transactions.kept_aborted, modified_ns)
        replaced = tuple(each.base_offset for each in group)
        return GroupCleaned(replaced=replaced, size_bytes=cleaned.size_bytes)

    def _measure(self, segment: SourceSegment) -> MeasuredSegment:
        sizes = [
            _size_bytes(segment_file(self._job.path, segment.base_offset, suffix))
            for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)
        ]
        return MeasuredSegment(segment, *sizes)

    def _copy(self, file: LogFile, cleaned: CleanedSegment, context: FilterContext) -> None:
        stats = self.stats
        with _damage_of(file.path):
            for header, batch in read_batches(file, self._job.io_buffer_bytes, self._on_read):
                filtered = filter_batch(batch, header, context)
                stats.records_read += header.record_count
                stats.records_written += filtered.record_count
                stats.records_without_key += filtered.without_key_count
                if filtered.batch is not None:
                    stats.bytes_written += len(filtered.batch)
                    self._wait(cleaned.append(filtered.batch))

    def _on_map_read(self, size_bytes: int) -> None:
        self.stats.map_bytes_read += size_bytes
        self._wait(size_bytes)

    def _on_read(self, size_bytes: int) -> None:
        self.stats.bytes_read += size_bytes
        self._wait(size_bytes)

    def _wait(self, size_bytes: int) -> None:
        wait_s = self._throttle.on_bytes(size_bytes, self._clock()) if size_bytes else 0.0
        if wait_s > 0:
            self._sleep(wait_s)

    def _read_transactions(self, segments: tuple[SourceSegment, ...]) -> list[AbortedTransaction]:
        found: list[AbortedTransaction] = []
        for segment in segments:
            found += _transactions_of(self._job.path, segment.base_offset)
        return found


@contextmanager
def _damage_of(log_path: Path) -> Iterator[None]:
    """Raise CorruptLogError for damage of the segment at `log_path` that the body meets."""
    try:
        yield
    except CorruptBatchError as error:
        raise CorruptLogError(log_path, 0, str(error)) from error
    except UnindexedAbortError as error:
        index = log_path.with_suffix(TRANSACTION_INDEX_SUFFIX)
        raise CorruptLogError(index, 0, f"{error}: {_REBUILD_INDEX}") from error


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        # Opening the segment rebuilds a missing index.
        return 0


def _transactions_of(directory: Path, base_offset: Offset) -> list[AbortedTransaction]:
    path = segment_file(directory, base_offset, TRANSACTION_INDEX_SUFFIX)
    try:
        return read_aborted(path.read_bytes())
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise CorruptLogError(path, 0, str(error)) from error


class Throttle:
    """The job's rate limit, which holds on average over each window.

    Time counts from the first byte of a window. Unused capacity of earlier windows is lost, so that
    a pause is not followed by a burst. Source: org.apache.kafka.server.util.Throttler.
    """

    def __init__(self, max_bytes_per_second: float, now_s: float) -> None:
        self._max_bytes_per_second = max_bytes_per_second
        self._window_start_s = now_s
        self._window_bytes = 0

    def on_bytes(self, size_bytes: int, now_s: float) -> float:
        """Count transferred bytes; return the number of seconds to wait."""
        self._window_bytes += size_bytes
        elapsed_s = now_s - self._window_start_s
        if elapsed_s < WINDOW_SECONDS:
            return 0.0
        wait_s = max(0.0, self._window_bytes / self._max_bytes_per_second - elapsed_s)
        self._window_start_s = now_s + wait_s
        self._window_bytes = 0
        return wait_s

"""One pass over a replica's log, which feeds all checks that observe batches (composition).

The caller provides the function that opens a file. Memory: one chunk of a file, 32 bytes of columns
for each batch so far, and the state of the checks.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Final

from kafkawire.columns_loops import SoundBatch
from kafkawire.errors import CorruptBatchError
from kafkawire.records import NO_PRODUCER_ID, read_records
from kafkawire.records_header import CONTROL_BIT, DELETE_HORIZON_BIT
from kafkawire.units import MIB
from logcheck.attribute_check import NOTABLE_BITS, TRANSACTION_BITS, check_attributes
from logcheck.batch_check import BatchCheck
from logcheck.batch_walk import MAX_RUN, Batch, Hole, Source, Walk
from logcheck.epoch_check import EpochCheck
from logcheck.finding import Report, unreadable
from logcheck.history import History, history_of
from logcheck.index_files import IndexFiles
from logcheck.log_view import Observer, ProducerObserver, RunObserver
from logcheck.marker import NOT_READ, check_marker
from logcheck.offset_check import MAX_RELATIVE_OFFSET, OffsetCheck
from logcheck.replica_files import ReplicaFiles, SegmentFiles
from logcheck.segment_columns import SegmentColumns

OpenSource = Callable[[str], AbstractContextManager[Source]]
"""A function that opens a file. It raises OSError if the file cannot be read."""
MAX_OPENED_BYTES: Final = 1 * MIB
"""Size of the decompressed batches in memory, apart from the last one."""


class LogScan:
    """A pass over the segments of one replica; afterwards a `LogView` for the checks."""

    def __init__(
        self,
        files: ReplicaFiles,
        report: Report,
        open_source: OpenSource,
        *,
        history: History | None = None,
        with_records: bool = True,
    ) -> None:
        """Judge missing records by the `history`; by the checkpoints alone if there is none.

        Without `with_records` batches are checked by their headers and checksums alone.
        """
        self.files = files
        self._report = report
        self._open_source = open_source
        self._with_records = with_records
        self.history = history_of(files) if history is None else history
        self.offsets = OffsetCheck(report, self.history)
        self.epochs = EpochCheck(report)
        self.segments: list[SegmentColumns] = []
        self.batch_count = 0
        self.record_count = 0
        self.forgotten_until = 0
        """The log start by another log, which may be newer than the checkpoint."""

    @property
    def first_offset(self) -> int:
        """The first offset of the log, by its files, its checkpoint, and another log."""
        return max(self.files.first_base_offset, self.files.log_start or 0, self.forgotten_until)

    @property
    def log_end_offset(self) -> int:
        """The offset after the last readable record (exclusive)."""
        return self.offsets.next_offset or 0

    def run(self, observers: Sequence[Observer], indexes: IndexFiles | None = None) -> None:
        """Read all segments, and check their `indexes`.

        An unreadable segment is a finding and counts as damaged.
        """
        for files in self.files.segments:
            is_last = files is self.files.segments[-1]
            data = None if indexes is None else indexes.read(files)
            try:
                with self._open(files) as source:
                    self._walk(source, files, observers, is_last=is_last)
            except OSError as error:
                self.segments[-1].damage_at(0)
                self.offsets.skip_damage()
                self._report(unreadable(files.log, error))
            if indexes is not None and data is not None:
                is_recovered = self.history.is_recovered(files.base_offset)
                columns = self.segments[-1]
                indexes.check(files, data, columns, is_active=is_last, is_recovered=is_recovered)
        self.offsets.finish()

    def _open(self, files: SegmentFiles) -> AbstractContextManager[Source]:
        """Open a segment and begin with it, even if it cannot be opened."""
        self.segments.append(SegmentColumns(files.base_offset, files.log))
        is_gone = False
        try:
            return self._open_source(files.log)
        except FileNotFoundError:
            is_gone = True
            raise
        finally:
            self.offsets.begin_segment(files.base_offset, files.log, is_gone=is_gone)

    def _walk(
        self,
        source: Source,
        files: SegmentFiles,
        observers: Sequence[Observer],
        *,
        is_last: bool,
    ) -> None:
        columns = self.segments[-1]
        check = BatchCheck(files.log, self._report)
        walk = Walk(source, files.log, self._report, is_tail_allowed=is_last)
        audience = _Audience(observers)
        items = walk.runs() if self._with_records else walk.items()
        for item in _in_runs(items, check.open if self._with_records else check.check_header):
            if isinstance(item, list):
                self._take(item, columns, audience)
            elif not (isinstance(item, Hole) and item.is_tail and is_last):
                self._skip(columns, item.position)
        columns.end_position = walk.end_position

    def _take(
        self, batches: Sequence[SoundBatch], columns: SegmentColumns, audience: "_Audience"
    ) -> None:
        """Check sound batches, and pass them to the `audience` if they continue the log."""
        start = 0
        if columns.positions and not self.offsets.is_behind_damage:
            start = self._take_usual(batches, 0, columns)
            if start:
                audience.observe(batches[:start])
        while start < len(batches):
            end = start + 1
            if self._take_one(batches[start], columns):
                end = self._take_usual(batches, end, columns)
                audience.observe(batches[start:end])
            start = end

    def _take_one(self, batch: SoundBatch, columns: SegmentColumns) -> bool:
        """Return whether a batch continues the log, after all checks of its header."""
        file, position, header, *_ = batch
        if not self.offsets.check(position, header):
            self._skip(columns, position)
            return False
        surplus = header.record_count - header.last_offset_delta - 1
        if surplus > 0:
            self.offsets.excuse_gap()
        if header.attributes & NOTABLE_BITS:
            check_attributes(file, position, header, self.history, self._report)
        if surplus or header.attributes & DELETE_HORIZON_BIT or batch.survey.without_key:
            self.offsets.on_unusual(batch)
        self.epochs.add(file, position, header)
        columns.add(position, header)
        self.batch_count += 1
        self.record_count += header.record_count
        return True

    def _take_usual(
        self, batches: Sequence[SoundBatch], start: int, columns: SegmentColumns
    ) -> int:
        """Take the usual batches from slot `start`, and return the slot after them.

        A usual batch passes all checks of `_take_one`: it begins where the batch before ends, in
        the same epoch, with all of its records, and needs no closer look. The calls of those checks
        would be a third of the audit of short transactions (`python -m benchmarks audit`).
        """
        offsets, epoch = self.offsets, self.epochs.runs[-1].epoch
        first_offset = next_offset = offsets.next_offset or 0
        end_offset = columns.base_offset + MAX_RELATIVE_OFFSET
        newest_ms = columns.newest_timestamp_ms
        needs_keys = offsets.needs_keys
        slot, rows = start, list[int]()
        for _, position, header, _, _, survey in islice(batches, start, None):
            (base_offset, _, leader_epoch, _, _, attributes, delta, _, max_ms,
             producer_id, producer_epoch, _, count) = header  # fmt: skip
            bits, last_offset = attributes & NOTABLE_BITS, base_offset + delta
            if (
                base_offset != next_offset
                or last_offset > end_offset
                or leader_epoch != epoch
                or count != delta + 1
                or (needs_keys and survey.without_key)
                or (bits and (bits not in TRANSACTION_BITS or producer_epoch < 0))
                or (bits and producer_id == NO_PRODUCER_ID)
            ):
                break
            next_offset = last_offset + 1
            if max_ms > newest_ms:
                newest_ms = max_ms
            rows += position, base_offset, last_offset, newest_ms
            slot += 1
        if slot > start:
            columns.extend(rows)
            offsets.continue_to(next_offset)
            self.epochs.continue_to(next_offset - 1)
            self.batch_count += slot - start
            self.record_count += next_offset - first_offset
        return slot

    def _skip(self, columns: SegmentColumns, position: int) -> None:
        """Record damage at `position`, and continue after it."""
        columns.damage_at(position)
        self.offsets.skip_damage()

    def is_damaged(self, offset: int) -> bool:
        """Whether `offset` may lie in a damaged part of the log."""
        return self.offsets.is_damaged(offset)

    def has_batch(self, offset: int) -> bool:
        """Whether a batch of the log includes `offset`, even if its record is missing."""
        return self.base_offset_of(offset) is not None

    def base_offset_of(self, offset: int) -> int | None:
        """Return the base offset of the batch that includes `offset`; None if there is none."""
        if not self.segments:
            return None
        segment = self._segment_with(offset)
        slot = segment.batch_with(offset)
        return None if slot is None else segment.base_offsets[slot]

    def place_of(self, offset: int) -> tuple[str, int]:
        """Return the file and position of the record at `offset`, or where it belongs."""
        if not self.segments:
            return self.files.directory, 0
        segment = self._segment_with(offset)
        slot = segment.first_behind(offset - 1)
        positions = segment.positions
        return segment.file, positions[slot] if slot < len(positions) else segment.end_position

    def read_record(self, offset: int) -> tuple[bytes, bytes | None] | None:
        """Return key and value of the record at `offset`; None if there is none with a key."""
        if not self.segments:
            return None
        segment = self._segment_with(offset)
        slot = segment.batch_with(offset)
        if slot is None:
            return None
        return read_record(self._open_source, segment.file, segment.positions[slot], offset)

    def _segment_with(self, offset: int) -> SegmentColumns:
        """Return the segment whose offsets include `offset`, by the names of the files."""
        slot = bisect_right(self.segments, offset, key=lambda each: each.base_offset)
        return self.segments[max(slot - 1, 0)]


def _in_runs(
    items: Iterable[list[SoundBatch] | Batch | Hole], opened: Callable[[Batch], SoundBatch | None]
) -> Iterator[list[SoundBatch] | Batch | Hole]:
    """Yield sound batches in lists, and the batches that cannot be `opened`, as they are.

    A list has at most `MAX_RUN` batches, and apart from its last batch `MAX_OPENED_BYTES`.
    """
    run, run_bytes = list[SoundBatch](), 0
    for item in items:
        batch = opened(item) if isinstance(item, Batch) else None
        if batch is not None:
            run.append(batch)
            run_bytes += len(batch.section)
            if len(run) < MAX_RUN and run_bytes < MAX_OPENED_BYTES:
                continue
        if run:
            yield run
            run, run_bytes = [], 0
        if batch is None:
            yield item
    if run:
        yield run


class _Audience:
    """The observers of a pass."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._runs = [each for each in observers if isinstance(each, RunObserver)]
        self._producers = [each for each in observers if isinstance(each, ProducerObserver)]
        grouped = RunObserver, ProducerObserver
        self._others = [each for each in observers if not isinstance(each, grouped)]

    def observe(self, batches: Sequence[SoundBatch]) -> None:
        """Pass on the next batches, in log order; each marker is read once."""
        for run_observer in self._runs:
            run_observer.on_run(batches)
        for observer in self._others:
            for batch in batches:
                observer.on_batch(batch)
        if not self._producers:
            return
        readings = [
            (batch, check_marker(batch) if batch.header.attributes & CONTROL_BIT else NOT_READ)
            for batch in batches
            if batch.header.producer_id != NO_PRODUCER_ID
        ]
        for each in self._producers:
            on_producer_batch = each.on_producer_batch
            for batch, reading in readings:
                on_producer_batch(batch, reading)


def read_record(
    open_source: OpenSource, file: str, position: int, offset: int
) -> tuple[bytes, bytes | None] | None:
    """Return key and value of a record in the batch at `position`; None if it is gone."""
    try:
        with open_source(file) as source:
            for item in Walk(source, file, lambda _: None).items(position, position + 1):
                if isinstance(item, Batch):
                    for record in read_records(item.data):
                        if record.offset == offset and record.key is not None:
                            return record.key, record.value
    except (OSError, CorruptBatchError):
        # The file changed after the walk, so that nothing can be confirmed.
        return None
    return None

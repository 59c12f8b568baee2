"""The cleanable range of a log, and the choice of the log to clean next (decision).

A log is clean up to its entry in `cleaner-offset-checkpoint` and dirty from there on. Cleaning
never touches the active segment, records that are not committed or belong to an undecided
transaction, and segments with a record younger than `min.compaction.lag.ms`.
Source: LogCleanerManager and LogToClean of Kafka 3.9.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafkawire.ids import Offset, TopicPartition


class SegmentFacts(NamedTuple):
    """The facts about a segment that the choice needs; None for a time that no config uses."""

    base_offset: Offset
    size_bytes: int
    first_timestamp_ms: int | None = None
    largest_timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """The facts about a compacted log that the choice needs."""

    partition: TopicPartition
    segments: Sequence[SegmentFacts]
    """Oldest first; the last one is active."""
    log_end_offset: Offset
    first_undecided_offset: Offset
    """The lower of high watermark and last stable offset: records below it are final."""
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_cleanable_dirty_ratio: float

    @property
    def active_base_offset(self) -> Offset:
        """Base offset of the active segment."""
        return self.segments[-1].base_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A log that could be cleaned: its dirty range, and the sizes of its clean and dirty parts."""

    partition: TopicPartition
    first_dirty_offset: Offset
    first_uncleanable_offset: Offset
    """The base offset of the first segment that must not be touched."""
    clean_bytes: int
    cleanable_bytes: int
    delay_ms: int
    """Time by which cleaning is overdue under `max.compaction.lag.ms`; 0 if it is not."""
    min_cleanable_dirty_ratio: float
    failed_ms: int = 0
    """Time of the last failed cleaning; 0 if none has failed recently."""

    @property
    def dirty_ratio(self) -> float:
        """Share of dirty bytes among all bytes that cleaning would read."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        """Whether the log is dirty enough, or its cleaning is overdue."""
        if not self.cleanable_bytes:
            return False
        return self.delay_ms > 0 or self.dirty_ratio > self.min_cleanable_dirty_ratio


def first_dirty_offset(log: LogFacts, checkpoint: Offset | None) -> Offset:
    """Return the start of the dirty part; a checkpoint outside the log is ignored.

    Unlike in Kafka, the dirty part may begin below the log start offset, within the first segment.
    A crash may bring back an older log start, and records above it must not count as clean then.
    """
    first = log.segments[0].base_offset
    if checkpoint is None or not first <= checkpoint <= log.log_end_offset:
        return first
    return checkpoint


def weigh(log: LogFacts, checkpoint: Offset | None, now_ms: int) -> Candidate:
    """Return the range and sizes of a cleaning of `log`."""
    first_dirty = first_dirty_offset(log, checkpoint)
    bound = max(first_dirty, _first_uncleanable_offset(log, first_dirty, now_ms))
    first_uncleanable = _segment_that_holds(log, bound)
    lowest = min(first_dirty, first_uncleanable)
    cleanable = _range(log, lowest, first_uncleanable)
    clean = _range(log, Offset(-1), first_dirty)
    return Candidate(
        partition=log.partition,
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=first_uncleanable,
        clean_bytes=sum(each.size_bytes for each in clean),
        cleanable_bytes=sum(each.size_bytes for each in cleanable),
        delay_ms=_delay_ms(log, first_dirty, now_ms),
        min_cleanable_dirty_ratio=log.min_cleanable_dirty_ratio,
    )


def filthiest(candidates: Iterable[Candidate]) -> Candidate | None:
    """Return the due candidate with the largest dirty ratio, or None if none is due.

    A log whose cleaning has failed comes after all others, so that it holds up none of them.
    """
    due = [each for each in candidates if each.is_due]
    return max(due, key=lambda each: (-each.failed_ms, each.dirty_ratio), default=None)


def _first_uncleanable_offset(log: LogFacts, first_dirty: Offset, now_ms: int) -> Offset:
    bound = min(log.first_undecided_offset, log.active_base_offset)
    if log.min_compaction_lag_ms > 0:
        youngest_ms = now_ms - log.min_compaction_lag_ms
        for segment in _closed_from(log, first_dirty):
            if (segment.largest_timestamp_ms or 0) > youngest_ms:
                return min(bound, segment.base_offset)
    return bound


def _segment_that_holds(log: LogFacts, offset: Offset) -> Offset:
    """Return the base offset of the segment that holds `offset`: cleaning takes whole segments."""
    closed = _closed_from(log, offset)
    return closed[0].base_offset if closed else log.active_base_offset


def _closed_from(log: LogFacts, offset: Offset) -> Sequence[SegmentFacts]:
    """Return the closed segments, beginning with the one that holds `offset`."""
    return _range(log, offset, log.active_base_offset)


def _range(log: LogFacts, start: Offset, end: Offset) -> Sequence[SegmentFacts]:
    """Return the segments that hold offsets in `start`..`end` (exclusive)."""
    if start >= end:
        return ()
    below = [each for each in log.segments if each.base_offset < end]
    first = max((slot for slot, each in enumerate(below) if each.base_offset <= start), default=0)
    return below[first:]


def _delay_ms(log: LogFacts, first_dirty: Offset, now_ms: int) -> int:
    times = [each.first_timestamp_ms for each in _closed_from(log, first_dirty)]
    known = [time_ms for time_ms in times if time_ms is not None and time_ms > 0]
    clean_until_ms = now_ms - log.max_compaction_lag_ms
    return max(0, clean_until_ms - min(known)) if known else 0

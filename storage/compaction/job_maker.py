"""Construction of cleaning jobs from logs (edge)."""

from dataclasses import dataclass

from kafkawire.ids import Offset
from storage.compaction.cleanable import Candidate, LogFacts, SegmentFacts
from storage.compaction.job import CleaningJob, SourceSegment
from storage.config.config_key import LONG_MAX
from storage.log.log import Log
from storage.segment.segment import Segment
from storage.segment.segment_lookup import newest_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """Limits of one cleaner by the broker's configuration; its share where cleaners share one."""

    dedupe_buffer_bytes: int
    load_factor: float
    io_buffer_bytes: int
    max_bytes_per_second: float
    least_free_bytes: int = 0


def cleaning_job(
    local: Log, candidate: Candidate, settings: CleanerSettings, now_ms: int
) -> CleaningJob:
    """Return the job of cleaning the range of a log that `candidate` names."""
    sources = _sources(local)
    bound = candidate.first_uncleanable_offset
    config = local.config
    return CleaningJob(
        directory=str(local.directory),
        segments=tuple(each for each in sources if each.base_offset < bound),
        tail=tuple(each for each in sources if each.base_offset >= bound),
        last_records=local.producers.last_records(),
        first_dirty_offset=candidate.first_dirty_offset,
        first_uncleanable_offset=bound,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        dedupe_buffer_bytes=settings.dedupe_buffer_bytes,
        load_factor=settings.load_factor,
        io_buffer_bytes=settings.io_buffer_bytes,
        max_bytes_per_second=settings.max_bytes_per_second,
        least_free_bytes=settings.least_free_bytes,
    )


def log_facts(local: Log, undecided: Offset) -> LogFacts:
    """Return the facts about a log that the choice of a candidate needs.

    Raises:
        CorruptLogError: the times of a segment are damaged.
        OSError: a file cannot be opened or read.
    """
    config = local.config
    has_min_lag = config.min_compaction_lag_ms > 0
    has_max_lag = config.max_compaction_lag_ms < LONG_MAX
    return LogFacts(
        partition=local.topic_partition,
        segments=[_segment_facts(each, has_min_lag, has_max_lag) for each in local.segments],
        log_end_offset=local.log_end_offset,
        first_undecided_offset=undecided,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        max_compaction_lag_ms=config.max_compaction_lag_ms,
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
    )


def _segment_facts(segment: Segment, has_min_lag: bool, has_max_lag: bool) -> SegmentFacts:
    """Return the facts about a segment; times are read only if a config uses them."""
    size_bytes = segment.size_bytes
    return SegmentFacts(
        segment.base_offset,
        size_bytes,
        segment.first_timestamp_ms if has_max_lag and size_bytes else None,
        newest_ms(segment) if has_min_lag and size_bytes else None,
    )


def _sources(local: Log) -> list[SourceSegment]:
    segments = local.segments
    ends = [*(each.base_offset for each in segments[1:]), local.log_end_offset]
    return [
        SourceSegment(each.base_offset, end, each.size_bytes)
        for each, end in zip(segments, ends, strict=True)
    ]

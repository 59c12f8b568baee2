"""Deletion of a log's expired segments (edge over `retention`)."""

import structlog

from kafkawire.ids import Offset
from storage.disk.directory_health import offline_on_failure
from storage.log.log import Log
from storage.log.retention import LogBounds, find_breaches
from storage.segment.segment_lookup import newest_ms

log = structlog.get_logger(__name__)


def delete_expired(each: Log, high_watermark: Offset, now_ms: int, max_segments: int) -> int:
    """Delete up to `max_segments` expired segments and return their number; the owner calls this.

    If the result equals `max_segments`, more may have expired. The files are only renamed:
    `LogUpkeep.remove_deleted_files` frees the space. Readers in the middle of a segment can finish.

    Raises:
        LogDirOfflineError: the disk failed.
    """
    bounds = LogBounds(
        log_start_offset=each.log_start_offset,
        high_watermark=high_watermark,
        log_end_offset=each.log_end_offset,
    )
    # This reads the index of each closed segment once.
    with offline_on_failure(each.health):
        breaches = list(
            find_breaches(
                each.segments,
                bounds,
                each.config,
                now_ms=now_ms,
                newest_ms=newest_ms,
                max_segments=max_segments,
            )
        )
    count = sum(breach.segment_count for breach in breaches)
    if count:
        each.delete_oldest(count, now_ms)
        log.info(
            "log.expired",
            partition=str(each.topic_partition),
            segment_count=count,
            log_start_offset=each.log_start_offset,
            reasons=[breach.reason.value for breach in breaches if breach.segment_count],
        )
    return count

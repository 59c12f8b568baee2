"""Deleting from a log what retention does not keep (edge over `retention`)."""

import structlog

from kafkawire.ids import Offset
from storage.directory_health import offline_on_failure
from storage.log import Log
from storage.lookup import newest_ms
from storage.retention import LogBounds, find_breaches

log = structlog.get_logger()


def delete_expired(each: Log, high_watermark: Offset, now_ms: int, max_segments: int) -> int:
    """Delete up to `max_segments` segments, by the owner of the log; return how many went.

    If it is as many, there may be more. Only renames happen here: `Log.remove_deleted_files` frees
    the space, and readers that are in the middle of a segment finish.

    Raises:
        LogDirOfflineError: the disk failed.
    """
    bounds = LogBounds(
        log_start_offset=each.log_start_offset,
        high_watermark=high_watermark,
        log_end_offset=each.log_end_offset,
    )
    # What is read here are indexes of closed segments, once each.
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

"""S15: no sealed segment outlives its retention by more than one run of the task (decision).

Retention deletes no segment with an offset at or above the high watermark.
"""

from logcheck.finding import Check, Damage, Finder, Report
from logcheck.log_view import LogView
from logcheck.replica_files import ReplicaFiles
from logcheck.rule import Rules


def check_retention(files: ReplicaFiles, log: LogView, rules: Rules, report: Report) -> None:
    """Report the oldest segments that retention by time or by size should have deleted."""
    sizes = [segment.size_bytes for segment in files.segments]
    # The file of the active segment may be preallocated.
    total = sum([*sizes[:-1], *(active.end_position for active in log.segments[-1:])])
    sealed = list(zip(files.segments, log.segments, sizes, strict=True))[:-1]
    committed = files.committed_end(log.log_end_offset)

    find = Finder(Check.RETENTION, report).find

    is_oldest = True
    for (segment, columns, size), following in zip(sealed, files.segments[1:], strict=True):
        if following.base_offset > committed:
            return
        age_ms = rules.now_ms - columns.newest_timestamp_ms
        if rules.retention_ms is not None:
            # Kafka deletes from the oldest segment, and stops at the first that must stay. The time
            # of a segment without timestamps, such as an emptied one, is that of its file.
            is_dated = columns.newest_timestamp_ms >= 0
            is_oldest = is_oldest and is_dated and age_ms > rules.retention_ms
            if is_oldest and age_ms > rules.retention_ms + rules.retention_slack_ms:
                expected = f"nothing older than {rules.retention_ms} ms"
                found = f"newest record {age_ms} ms old"
                find(Damage.KEPT_TOO_LONG, segment.log, 0, segment.base_offset, expected, found)
        # Kafka deletes the oldest segment while the others have at least `retention_bytes`.
        if rules.retention_bytes is not None and total - size >= rules.retention_bytes:
            expected = f"at most {rules.retention_bytes} bytes and one segment"
            found = f"{total} bytes in this and later segments"
            find(Damage.KEPT_TOO_MUCH, segment.log, 0, segment.base_offset, expected, found)
        total -= size

"""Decision: the figures of one replica that every audit returns, for the verdict and the charts."""

from typing import Any

from analytics.task import AuditTask
from logcheck.log_scan import LogScan
from logcheck.replica_files import ReplicaFiles


def summarize(task: AuditTask, replica: ReplicaFiles, scan: LogScan) -> dict[str, Any]:
    """Return the amounts of data read, the offsets, and the time range of each segment."""
    return {
        "topic": replica.topic,
        "partition": replica.partition,
        "replica": replica.replica,
        "shard": task.shard,
        "shard_count": task.shard_count,
        "segments": len(scan.segments),
        "batches": scan.batch_count,
        "records": scan.record_count,
        "bytes": replica.size_bytes,
        "first_offset": scan.first_offset,
        "log_end_offset": scan.log_end_offset,
        "cleaner_point": replica.cleaner_point,
        "timeline": [
            {
                "base_offset": files.base_offset,
                "bytes": files.size_bytes,
                "oldest_ms": columns.newest_so_far[0] if columns.newest_so_far else -1,
                "newest_ms": columns.newest_timestamp_ms,
            }
            for files, columns in zip(replica.segments, scan.segments, strict=True)
        ],
    }

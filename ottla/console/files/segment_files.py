"""Reads the segments of a partition from a local log directory (edge).

It reads names, sizes and one header per segment, and may run while a broker owns the directory.
"""

from pathlib import Path
from typing import Final

from kafkawire.errors import CorruptBatchError
from kafkawire.ids import TopicPartition
from kafkawire.records_header import BATCH_HEADER_BYTES, read_header
from logcheck.file_name import parse_offset_file, parse_partition_directory
from logcheck.local_file import FileSource, list_directory
from ottla.console.files.segment import Segment

LOG_SUFFIX: Final = "log"
MAX_SEGMENTS: Final = 2_000
"""Number of the newest segments that are read."""
_NANOSECONDS_PER_MS: Final = 1_000_000


def read_segments(log_dir: Path, partition: TopicPartition) -> list[Segment]:
    """Return the segments in `log_dir`, in the order of their offsets.

    The list is empty if the partition has no directory there.

    Raises:
        OSError: the directory cannot be read.
    """
    name = f"{partition.topic}-{partition.partition}"
    if parse_partition_directory(name) != partition:
        return []
    try:
        entries = list_directory(log_dir / name)
    except FileNotFoundError:
        return []
    files = [
        (parsed.base_offset, entry)
        for entry in entries
        if (parsed := parse_offset_file(entry.name)) is not None and parsed.suffix == LOG_SUFFIX
    ][-MAX_SEGMENTS:]
    segments = []
    for position, (base_offset, entry) in enumerate(files):
        following = files[position + 1][0] if position + 1 < len(files) else None
        try:
            first_ms, written_ms = _first_ms(entry.path), Path(entry.path).stat().st_mtime_ns
        except FileNotFoundError:
            # Retention or compaction has just removed it.
            continue
        segments.append(
            Segment(
                base_offset=base_offset,
                next_base_offset=following,
                size_bytes=entry.size_bytes,
                first_ms=first_ms,
                written_ms=written_ms // _NANOSECONDS_PER_MS,
            )
        )
    return segments


def _first_ms(file: str) -> int | None:
    with FileSource(file) as source:
        data = source.read_at(0, BATCH_HEADER_BYTES)
    try:
        timestamp_ms = read_header(data).base_timestamp_ms
    except CorruptBatchError:
        # Empty, or damaged: the audits find out.
        return None
    return timestamp_ms if timestamp_ms >= 0 else None

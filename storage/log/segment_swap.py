"""Crash-safe replacement of segments by the cleaned segment made from them (edge).

1. `begin` renames the new files from `.cleaned` to `.swap`. Any thread must then sync the
   directory, so that step 2 cannot reach the disk before step 1.
2. `finish` renames the old files to `.deleted`, oldest segment first, then the new files from
   `.swap` to their live names. Any thread should then sync the directory again.

After a crash before step 1, the next start finds `.cleaned` files and removes them. After a crash
before the end of step 2 it finds `.swap` files, which replace the rest of the old segments
(storage/log/leftover.py). `cancel` undoes step 1. Source: LocalLog.replaceSegments of Kafka 3.9.
"""

from collections.abc import Sequence
from pathlib import Path

from kafkawire.ids import Offset
from storage.config.log_config import LogConfig
from storage.disk.checkpoint import sync_directory
from storage.disk.layout import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    segment_file,
)
from storage.errors import CorruptLogError
from storage.segment.cleaned_segment import remove_cleaned
from storage.segment.segment import Segment
from storage.segment.segment_files import SegmentFiles, rename_back


class SegmentSwap:
    """The swap of `old`, adjacent segments, for the cleaned segment at their first base offset."""

    def __init__(self, directory: Path, old: Sequence[Segment], size_bytes: int) -> None:
        self.old = tuple(old)
        self.base_offset = Offset(self.old[0].base_offset)
        self.size_bytes = size_bytes
        self._directory = directory
        self._files = SegmentFiles(directory, self.base_offset)

    def begin(self) -> bool:
        """Rename the new files to `.swap`; return False if they differ from the cleaner's."""
        path = segment_file(self._directory, self.base_offset, LOG_SUFFIX + CLEANED_SUFFIX)
        try:
            if path.stat().st_size != self.size_bytes:
                return False
        except FileNotFoundError:
            return False
        self._files.change_state(CLEANED_SUFFIX, SWAP_SUFFIX)
        return True

    def finish(self, config: LogConfig, now_ms: int) -> tuple[Segment, list[Path]]:
        """Put the new segment in place; return it, and the files that are now obsolete.

        Raises:
            OSError, CorruptLogError: the swap failed; the old segments are in place.
        """
        new = Segment(self._directory, self.base_offset, self.size_bytes, config, now_ms)
        deleted: list[Path] = []
        live: list[Path] = []
        try:
            for segment in self.old:
                deleted += segment.files.change_state("", DELETED_SUFFIX)
            live = self._files.change_state(SWAP_SUFFIX, "")
            new.transactions.open()
        except (OSError, CorruptLogError):
            rename_back({path.with_name(path.name + SWAP_SUFFIX): path for path in live})
            rename_back({path.with_suffix(""): path for path in deleted})
            raise
        return new, deleted

    def cancel(self) -> None:
        """Discard the new segment; this is durable on return."""
        self._files.change_state(SWAP_SUFFIX, CLEANED_SUFFIX)
        remove_cleaned(self._directory, self.base_offset)
        sync_directory(self._directory)

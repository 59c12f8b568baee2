"""A cleaned segment takes the place of those that it was made from, crash or no crash (edge).

1. `begin`: its files are renamed from `.cleaned` to `.swap`. The directory must be synced then,
   in any thread: what follows must not be on disk without it.
2. `finish`: the old files are renamed to `.deleted`, oldest segment first, then the new ones from
   `.swap` to their live names. The directory should be synced again, in any thread.

A start after a crash finds: `.cleaned` (before 1), nothing has happened; `.swap` (before the end
of 2), it takes the place of whatever is left of the old ones (storage/leftover.py). `cancel` goes
back between 1 and 2. Source: LocalLog.replaceSegments of Kafka 3.9.
"""

from collections.abc import Sequence
from pathlib import Path

from kafkawire.ids import Offset
from storage.checkpoint import sync_directory
from storage.compaction.cleaned_segment import remove_cleaned
from storage.config import LogConfig
from storage.errors import CorruptLogError
from storage.layout import CLEANED_SUFFIX, DELETED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, segment_file
from storage.segment import Segment
from storage.segment_files import SegmentFiles, rename_back


class SegmentSwap:
    """The swap of `old`, neighbours without a gap, for the cleaned segment at their head."""

    def __init__(self, directory: Path, old: Sequence[Segment], size_bytes: int) -> None:
        self.old = tuple(old)
        self.base_offset = Offset(self.old[0].base_offset)
        self.size_bytes = size_bytes
        self._directory = directory
        self._files = SegmentFiles(directory, self.base_offset)

    def begin(self) -> bool:
        """Rename the new files to `.swap`; False if they are not what the cleaner wrote."""
        path = segment_file(self._directory, self.base_offset, LOG_SUFFIX + CLEANED_SUFFIX)
        try:
            if path.stat().st_size != self.size_bytes:
                return False
        except FileNotFoundError:
            return False
        self._files.change_state(CLEANED_SUFFIX, SWAP_SUFFIX)
        return True

    def finish(self, config: LogConfig, now_ms: int) -> tuple[Segment, list[Path]]:
        """Put the new segment in place; return it, and the files that are out of use now.

        Raises:
            OSError, CorruptLogError: the old segments are in place.
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
        """Give the new segment up; that holds across a power loss when this returns."""
        self._files.change_state(SWAP_SUFFIX, CLEANED_SUFFIX)
        remove_cleaned(self._directory, self.base_offset)
        sync_directory(self._directory)

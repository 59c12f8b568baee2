"""Maintenance of a partition's log (edge over `local_log`).

This covers flushing, rolling, retention, swaps of cleaned segments, and closing. None of it changes
a readable record or the log end offset.
"""

from collections.abc import Sequence
from pathlib import Path

import structlog

from kafkawire.ids import Offset
from storage.disk.checkpoint import sync_directory
from storage.disk.directory_health import PASSING_ERRORS
from storage.disk.layout import DirectoryState, set_aside_directory
from storage.log.leader_epochs import UNDEFINED_EPOCH
from storage.log.log_reader import LogReader

log = structlog.get_logger()


class LogUpkeep(LogReader):
    """The log of a partition, for retention, flushing and compaction."""

    def roll(self, now_ms: int) -> None:
        """Close the active segment and start a new one, unless it is empty."""
        if self._local.segments.last.size_bytes:
            with self._io():
                self._local.roll(self.log_end_offset, now_ms)

    def flush(self) -> None:
        """Bring all appended batches to disk; any thread may call this.

        Raises:
            LogDirOfflineError: the disk failed; the batches may or may not be on it.
        """
        with self._io():
            self._store_epochs()
            self._local.sync()

    def flush_if_due(self, now_ms: int) -> None:
        """Flush if `flush.ms` have passed since the last flush; any thread may call this."""
        if self.log_end_offset > self.recovery_point:
            if now_ms - self._last_flush_ms < self.config.flush_ms:
                return
            self.flush()
        self._last_flush_ms = now_ms

    def flush_closed(self) -> None:
        """Bring the closed segments to disk; any thread may call this.

        This limits the amount that the start after a crash has to recover.
        """
        if self._local.has_closed_since_sync:
            with self._io():
                self._store_epochs()
                self._local.sync(closed_only=True)

    def _store_epochs(self) -> None:
        """Store the leader epochs of the batches below a recovery point before it is raised.

        A crash recovers the epochs of later batches from the log, so no append waits for this.
        """
        self._epoch_checkpoint.store(self.directory, self.leader_epochs)

    def _store_new_epoch(self) -> None:
        """Store the beginning of a leadership before its first batch, without a sync.

        If there is no space or descriptor for the file, the next flush writes it. That is refused
        if the file holds epochs that are wrong by now.
        """
        try:
            self._epoch_checkpoint.store(self.directory, self.leader_epochs, is_durable=False)
        except OSError as error:
            is_wrong = self._epoch_checkpoint.holds_more_than(self.leader_epochs)
            if is_wrong or error.errno not in PASSING_ERRORS:
                raise
        self._noted_epoch = self.leader_epochs.latest

    def _drop_stored_epochs(self) -> None:
        """Remove epochs from the file that are no longer in the log, before the next append.

        The next batch may belong to an older leadership. After a crash, the stale entries would
        hide that.
        """
        self._noted_epoch = UNDEFINED_EPOCH
        if self._epoch_checkpoint.holds_more_than(self.leader_epochs):
            with self._io():
                self._store_epochs()

    def release_closed(self) -> None:
        """Close the files of all closed segments until the next read there."""
        self._local.release_closed()

    def advance_log_start(self, offset: Offset) -> bool:
        """Raise the log start offset to `offset`; return whether it moved.

        Segments that lie entirely below it are deleted.

        Raises:
            OffsetOutOfRangeError: the log ends below `offset`.
        """
        self._check_range(offset, Offset(0))
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.leader_epochs.truncate_from_start(offset)
        with self._io():
            self._local.delete_below(offset)
        log.info("log_start.advanced", partition=str(self.topic_partition), offset=offset)
        return True

    def delete_oldest(self, segment_count: int, now_ms: int) -> None:
        """Delete the oldest segments, which must be committed, and raise the log start offset.

        They may include the active segment, unless it is empty. A new one then replaces it.
        """
        with self._io():
            end_offset = self._local.delete_oldest(segment_count, now_ms)
        if end_offset > self.log_start_offset:
            self.log_start_offset = end_offset
            self.leader_epochs.truncate_from_start(end_offset)

    def begin_swap(self, base_offsets: Sequence[int], size_bytes: int) -> bool:
        """Prepare the replacement of the segments at `base_offsets` by a cleaned one.

        Returns False, and does nothing, if the log no longer matches the cleaned one. If it changes
        later, the swap is cancelled. `sync_names` must return before `finish_swap` is called.
        """
        with self._io():
            return not self.is_closed and self._local.begin_swap(base_offsets, size_bytes)

    def finish_swap(self, now_ms: int) -> bool:
        """Put the cleaned segment in place; return False if the swap has been cancelled.

        Readers that hold a region of a replaced segment can finish.
        """
        with self._io():
            return self._local.finish_swap(now_ms)

    def cancel_swap(self) -> None:
        """Cancel the pending swap, if there is one."""
        with self._io():
            self._local.cancel_swap()

    def sync_names(self) -> None:
        """Make the file names of the log durable; any thread may call this."""
        with self._io():
            sync_directory(self.directory)

    def remove_deleted_files(self, clock_ms: int) -> None:
        """Remove files that became obsolete `file.delete.delay.ms` ago; all of them if full."""
        delay_ms = 0 if self.health.is_full else self.config.file_delete_delay_ms
        with self._io():
            self._local.deleted_files.remove_due(clock_ms, delay_ms)

    def close(self) -> None:
        """Flush, and leave the files in the state for a start without recovery."""
        if self.is_closed:
            return
        with self._io():
            self._local.close()
            self._epoch_checkpoint.store(self.directory, self.leader_epochs)
        self.is_closed = True

    def set_aside(self, state: DirectoryState) -> Path:
        """Stop serving the log and rename its directory; return the new path.

        Readers that hold a region can finish. The new name is durable once the log dir is synced.
        """
        with self._io():
            self._local.cancel_swap()
            name = set_aside_directory(self.topic_partition, state)
            was_closed = self.is_closed
            # Set before the rename: a concurrent flush may find the directory gone from here on.
            self.is_closed = True
            try:
                self._local.directory = self.directory.rename(self.directory.with_name(name))
            except OSError as error:
                if not isinstance(error, FileNotFoundError):
                    self.is_closed = was_closed
                raise
        return self.directory

"""What is done to a partition's log from time to time (edge over `local_log`).

Flushing, rolling, retention, cleaned segments that take the place of others, closing. None of it
changes a record that may be read, or where the log ends.
"""

from collections.abc import Sequence
from pathlib import Path

import structlog

from kafkawire.ids import Offset
from storage.checkpoint import sync_directory
from storage.directory_health import PASSING_ERRORS
from storage.layout import DirectoryState, set_aside_directory
from storage.leader_epochs import UNDEFINED_EPOCH
from storage.log_reader import LogReader

log = structlog.get_logger()


class LogUpkeep(LogReader):
    """The log of a partition, for retention, flushing and compaction."""

    def roll(self, now_ms: int) -> None:
        """Close the active segment and begin a new one, unless it is empty."""
        if self._local.segments.last.size_bytes:
            with self._io():
                self._local.roll(self.log_end_offset, now_ms)

    def flush(self) -> None:
        """Bring everything that has been appended to disk; any thread may call this.

        Raises:
            LogDirOfflineError: the disk failed; nothing is known about what is on it.
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
        """Bring the segments that are closed to disk; any thread may call this.

        It bounds how much a start after a crash has to recover.
        """
        if self._local.has_closed_since_sync:
            with self._io():
                self._store_epochs()
                self._local.sync(closed_only=True)

    def _store_epochs(self) -> None:
        """Write down what batches below the recovery point tell, before it is raised.

        Those above tell it again after a crash, so no append waits for this.
        """
        self._epoch_checkpoint.store(self.directory, self.leader_epochs)

    def _note_epochs(self) -> None:
        """Write down that a leadership begins, before its first batch; not synced.

        Without space, or a descriptor, the file follows with the next flush, unless it tells what
        is not so.
        """
        try:
            self._epoch_checkpoint.store(self.directory, self.leader_epochs, is_durable=False)
        except OSError as error:
            is_wrong = self._epoch_checkpoint.holds_more_than(self.leader_epochs)
            if is_wrong or error.errno not in PASSING_ERRORS:
                raise
        self._noted_epoch = self.leader_epochs.latest

    def _unstore_epochs(self) -> None:
        """Take back what a truncation or a start has found untrue, before anything is appended.

        What comes next may be of an older leadership, which would not show after a crash.
        """
        self._noted_epoch = UNDEFINED_EPOCH
        if self._epoch_checkpoint.holds_more_than(self.leader_epochs):
            with self._io():
                self._store_epochs()

    def release_closed(self) -> None:
        """Close the files of all but the active segment, until somebody reads there."""
        self._local.release_closed()

    def advance_log_start(self, offset: Offset) -> bool:
        """Make `offset` the first one there is; return whether that was news.

        Segments that lie below it as a whole are deleted.

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
        """Delete the oldest segments, which must be committed; the log starts behind them then.

        The active one may be among them, unless it is empty: a new one takes its place.
        """
        with self._io():
            end_offset = self._local.delete_oldest(segment_count, now_ms)
        if end_offset > self.log_start_offset:
            self.log_start_offset = end_offset
            self.leader_epochs.truncate_from_start(end_offset)

    def begin_swap(self, base_offsets: Sequence[int], size_bytes: int) -> bool:
        """Announce that a cleaned segment takes the place of those that begin at these offsets.

        Returns False, and does nothing, if the log is not what was cleaned. If it becomes so
        later, the swap is given up. `sync_names` must return before `finish_swap` is called.
        """
        with self._io():
            return not self.is_closed and self._local.begin_swap(base_offsets, size_bytes)

    def finish_swap(self, now_ms: int) -> bool:
        """Put the cleaned segment in place; False if that was given up meanwhile.

        Readers that hold a region of a replaced segment finish.
        """
        with self._io():
            return self._local.finish_swap(now_ms)

    def cancel_swap(self) -> None:
        """Give up a swap that has begun, if there is one."""
        with self._io():
            self._local.cancel_swap()

    def sync_names(self) -> None:
        """Make the names of the files durable; any thread may call this."""
        with self._io():
            sync_directory(self.directory)

    def remove_deleted_files(self, clock_ms: int) -> None:
        """Remove files that have been out of use for `file.delete.delay.ms`, or at once if full."""
        delay_ms = 0 if self.health.is_full else self.config.file_delete_delay_ms
        with self._io():
            self._local.deleted_files.remove_due(clock_ms, delay_ms)

    def close(self) -> None:
        """Flush, and leave the files as a start without recovery needs them."""
        if self.is_closed:
            return
        with self._io():
            self._local.close()
            self._epoch_checkpoint.store(self.directory, self.leader_epochs)
        self.is_closed = True

    def set_aside(self, state: DirectoryState) -> Path:
        """Stop serving the log and rename its directory; return the new path.

        Readers that hold a region finish. Durable when the log dir has been synced.
        """
        with self._io():
            self._local.cancel_swap()
            name = set_aside_directory(self.topic_partition, state)
            was_closed = self.is_closed
            # First, as a flush in another thread may find the directory gone from here on.
            self.is_closed = True
            try:
                self._local.directory = self.directory.rename(self.directory.with_name(name))
            except OSError as error:
                if not isinstance(error, FileNotFoundError):
                    self.is_closed = was_closed
                raise
        return self.directory

"""Maintenance of a partition's log, off the path of appends and reads (edge over `local_log`).

This covers flushing, rolling, swaps of cleaned segments, and closing. None of it changes a readable
record, the log start or the log end offset.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from kafkawire.ids import TopicPartition
from storage.disk.checkpoint import sync_directory
from storage.disk.directory_health import DirectoryHealth, offline_on_failure
from storage.disk.layout import DirectoryState, set_aside_directory
from storage.errors import CorruptLogError
from storage.log.epoch_checkpoint import StoredEpochs
from storage.log.local_log import LocalLog
from storage.log.recovery import disown_copy


class LogUpkeep:
    """The part of a log for the tasks that flush, clean, move and close it."""

    def __init__(
        self,
        local: LocalLog,
        epochs: StoredEpochs,
        topic_partition: TopicPartition,
        health: DirectoryHealth,
    ) -> None:
        self.is_closed = False
        self.is_flush_late = False
        """Whether the last flush that `flush.messages` demanded has failed."""
        self._local = local
        self._epochs = epochs
        self._topic_partition = topic_partition
        self._health = health
        self._last_flush_ms: int | None = None

    def roll(self, now_ms: int) -> None:
        """Close the active segment and start a new one, unless it is empty."""
        if self._local.segments.last.size_bytes:
            with self.io():
                self._local.roll(self._local.log_end_offset, now_ms)

    def on_rolled(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever a segment has been closed; `flush_closed` is due then."""
        self._local.on_rolled = callback

    def flush(self) -> None:
        """Bring all appended batches to disk; any thread may call this.

        Raises:
            LogDirOfflineError: the disk failed; the batches may or may not be on it.
        """
        with self.io():
            self._flush(closed_only=False)

    def flush_appended(self) -> None:
        """Flush if `flush.messages` records have been appended since the last flush.

        Raises:
            StorageError: as `flush`; the next call repeats it.
        """
        local = self._local
        unflushed_count = local.log_end_offset - local.recovery_point
        self.is_flush_late = unflushed_count >= local.config.flush_messages
        if self.is_flush_late:
            self.flush()
            self.is_flush_late = False

    def flush_if_due(self, clock_ms: int) -> None:
        """Flush if `flush.ms` have passed since the last flush, or since the first call.

        `clock_ms` comes from a monotonic clock: a wall clock that steps back would put flushes off.
        Any thread may call this.
        """
        if self._last_flush_ms is None:
            self._last_flush_ms = clock_ms
        if self._local.log_end_offset > self._local.recovery_point:
            if clock_ms - self._last_flush_ms < self._local.config.flush_ms:
                return
            self.flush()
        self._last_flush_ms = clock_ms

    def flush_closed(self) -> None:
        """Bring the closed segments to disk; any thread may call this.

        This limits the amount that the start after a crash has to recover.
        """
        if self._local.has_closed_since_sync:
            with self.io():
                self._flush(closed_only=True)

    def _flush(self, *, closed_only: bool) -> None:
        # First the goal: the epochs of all batches below it are in the history by then. The start
        # after a crash does not look for the others below the recovery point.
        goal = self._local.sync_goal(closed_only=closed_only)
        self._epochs.store(self._local.directory)
        self._local.sync(goal)

    def release_closed(self) -> None:
        """Close the files of all closed segments until the next read there."""
        self._local.release_closed()

    def prepare_cleaning(self) -> None:
        """Bring the files to the state that a cleaner, which reads nothing else, relies on.

        A copy of this log in a log dir that is offline is of no use from then on.

        Raises:
            StorageError: aborted records could count as the last ones of their keys.
        """
        with self.io():
            # The swap of an earlier cleaning may have failed without being cancelled.
            self._local.cancel_swap()
            # Only the active segment can have entries for which there was no space or descriptor.
            self._local.segments.last.transactions.write_pending()
            # Durable before the first swap, which `sync_names` precedes.
            self.disown_copy()

    def disown_copy(self) -> None:
        """Have no later start continue a copy of this log: its records may be gone here."""
        disown_copy(self._local.directory)

    def begin_swap(self, base_offsets: Sequence[int], size_bytes: int) -> bool:
        """Prepare the replacement of the segments at `base_offsets` by a cleaned one.

        Returns False, and does nothing, if the log no longer matches the cleaned one. If it changes
        later, the swap is cancelled. `sync_names` must return before `finish_swap` is called.
        """
        with self.io():
            return not self.is_closed and self._local.begin_swap(base_offsets, size_bytes)

    def finish_swap(self, now_ms: int) -> bool:
        """Put the cleaned segment in place; return False if the swap has been cancelled.

        Readers that hold a region of a replaced segment can finish.
        """
        with self.io():
            return self._local.finish_swap(now_ms)

    def cancel_swap(self) -> None:
        """Cancel the pending swap, if there is one."""
        with self.io():
            self._local.cancel_swap()

    def sync_names(self) -> None:
        """Make the file names of the log durable; any thread may call this."""
        with self.io():
            sync_directory(self._local.directory)

    def remove_deleted_files(self, clock_ms: int) -> None:
        """Remove files that became obsolete `file.delete.delay.ms` ago; all of them if full."""
        delay_ms = 0 if self._health.is_full else self._local.config.file_delete_delay_ms
        with self.io():
            self._local.deleted_files.remove_due(clock_ms, delay_ms)

    def close(self) -> None:
        """Flush, and leave the files in the state for a start without recovery."""
        if self.is_closed:
            return
        with self.io():
            # Before the log, whose recovery point rises, even if this fails.
            self._epochs.store(self._local.directory)
            self._local.close()
        self.is_closed = True

    def set_aside(self, state: DirectoryState) -> Path:
        """Stop serving the log and rename its directory; return the new path.

        Readers that hold a region can finish. The new name is durable once the log dir is synced.
        """
        with self.io():
            if state is not DirectoryState.DELETED:
                # No start finishes the swap of a deleted log. Its deletion must not need the
                # descriptor that cancels it.
                self._local.cancel_swap()
            if state is DirectoryState.STRAY:
                # For tools that read the files. The log is recovered when it is taken back.
                with suppress(OSError):
                    self._epochs.store(self._local.directory, is_durable=False)
            name = set_aside_directory(self._topic_partition, state)
            was_closed = self.is_closed
            # Set before the rename: a concurrent flush may find the directory gone from here on.
            self.is_closed = True
            try:
                directory = self._local.directory
                self._local.directory = directory.rename(directory.with_name(name))
            except OSError as error:
                if not isinstance(error, FileNotFoundError):
                    self.is_closed = was_closed
                raise
        return self._local.directory

    @contextmanager
    def io(self) -> Iterator[None]:
        """Take the log dir offline on an OSError of the body, unless the log is gone."""
        with offline_on_failure(self._health):
            try:
                yield
            except FileNotFoundError:
                if not self.is_closed:
                    raise
            except CorruptLogError as error:
                self._health.note_damage(error)
                raise

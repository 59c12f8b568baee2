"""`leader-epoch-checkpoint`: the leadership history of one partition on disk (edge).

Bytes on disk: a checkpoint (see `checkpoint`) whose entries are `<epoch> <start offset>`.
"""

from collections.abc import Iterable
from pathlib import Path
from threading import Lock

import structlog

from kafkawire.ids import LeaderEpoch, Offset
from storage.disk.checkpoint import (
    may_overwrite,
    overwrite_entries,
    read_entries,
    write_entries,
)
from storage.disk.directory_health import PASSING_ERRORS
from storage.disk.layout import LEADER_EPOCH_CHECKPOINT
from storage.errors import CorruptCheckpointError
from storage.log.leader_epochs import UNDEFINED_EPOCH, EpochEntry, LeaderEpochs

log = structlog.get_logger(__name__)


class StoredEpochs:
    """The history of a log, with the file that is rewritten when it differs from the history.

    The file is written when a leadership begins, for tools that read the files of a running broker.
    It is synced only when durability matters. Otherwise another epoch is added in place, because a
    failover may do so for thousands of partitions at once. After a crash of the process, the
    `stored` epochs may not be durable.
    """

    def __init__(
        self, history: LeaderEpochs, stored: tuple[EpochEntry, ...], *, is_durable: bool
    ) -> None:
        self.history = history
        self.begun = UNDEFINED_EPOCH
        """The newest epoch that was stored when it began; every append compares with it."""
        self._stored = stored
        # A log without epochs needs no file.
        self._is_durable = is_durable or not stored
        # Whether leaderships have been dropped that the file on disk may still hold.
        self._is_drop_due = False
        # Whether the file may hold a part of a failed overwrite.
        self._is_torn = False
        # The owner of the log may store the epochs, and so may a thread that flushes the log.
        self._lock = Lock()

    @property
    def is_stale(self) -> bool:
        """Whether the file holds leaderships that are no longer in the log."""
        with self._lock:
            return not set(self._stored) <= set(self.history.entries)

    def begin(self, directory: Path, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Assign an epoch before its first batch, and store it without a sync."""
        self.history.assign(epoch, start_offset)
        self.store_begun(directory)

    def store_begun(self, directory: Path) -> None:
        """Store the beginning of the latest leadership before its first batch, without a sync.

        If there is no space or descriptor for the file, the next flush writes it. That is refused
        if the file holds epochs that are wrong by now.
        """
        try:
            self.store(directory, is_durable=False)
        except OSError as error:
            if self.is_stale or error.errno not in PASSING_ERRORS:
                raise
        self.begun = self.history.latest

    def forget_beyond(self, log_end_offset: Offset) -> None:
        """Drop the leaderships that begin at the log end or above."""
        self.history.truncate_from_end(log_end_offset)
        # The next append writes the file, or is refused.
        self.begun = UNDEFINED_EPOCH

    def note_dropped(self) -> bool:
        """Note that the log was truncated; return whether `store` is due before the next append."""
        self.begun = UNDEFINED_EPOCH
        if self.is_stale:
            self._is_drop_due = True
        return self._is_drop_due

    def store(self, directory: Path, *, is_durable: bool = True) -> None:
        """Update the file if needed; with `is_durable`, it is on disk on return.

        A recovery point is raised only after this: a crash recovers the epochs of later batches
        from the log, so no append waits for the file.
        """
        with self._lock:
            entries = self.history.entries
            is_durable = is_durable or self._is_drop_due
            if entries != self._stored or (is_durable and not self._is_durable):
                self._write(directory, entries, is_durable=is_durable)
                self._stored, self._is_durable = entries, is_durable
                self._is_drop_due = False

    def _write(self, directory: Path, entries: tuple[EpochEntry, ...], *, is_durable: bool) -> None:
        self._is_durable = False
        lines, count = _lines(entries), len(self._stored)
        # A failover adds one entry each to many files: the others are not formatted twice.
        stored = lines[:count] if entries[:count] == self._stored else _lines(self._stored)
        if is_durable or self._is_torn or not may_overwrite(stored, lines):
            write_entries(directory / LEADER_EPOCH_CHECKPOINT, lines, is_durable=is_durable)
        else:
            self._is_torn = True
            # Joining paths by `/` would take as long as the write itself.
            overwrite_entries(f"{directory}/{LEADER_EPOCH_CHECKPOINT}", lines)
        self._is_torn = False


def write_epochs(path: Path, entries: Iterable[EpochEntry]) -> None:
    """Replace the checkpoint; it is on disk on return."""
    write_entries(path, _lines(entries))


def _lines(entries: Iterable[EpochEntry]) -> list[str]:
    return [f"{epoch} {start_offset}" for epoch, start_offset in entries]


def read_epochs(path: Path) -> LeaderEpochs:
    """Return the history on disk; it is empty if the file is missing or unreadable.

    The batches must then be read, from the first one on.
    """
    try:
        return LeaderEpochs(_entry(path, words) for words in read_entries(path))
    except FileNotFoundError:
        return LeaderEpochs()
    except CorruptCheckpointError as error:
        log.warning("checkpoint.ignored", path=str(path), error=str(error))
        return LeaderEpochs()


def _entry(path: Path, words: list[str]) -> EpochEntry:
    try:
        epoch, start_offset = (int(word) for word in words)
    except ValueError:
        raise CorruptCheckpointError(f"{path}: no epoch, start offset: {words}") from None
    if epoch < 0 or start_offset < 0:
        raise CorruptCheckpointError(f"{path}: negative epoch or offset: {words}")
    return EpochEntry(LeaderEpoch(epoch), Offset(start_offset))

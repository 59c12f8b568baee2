"""`leader-epoch-checkpoint`: the leadership history of one partition on disk (edge).

Bytes on disk: a checkpoint (see `checkpoint`) whose entries are `<epoch> <start offset>`.
"""

from collections.abc import Iterable
from pathlib import Path
from threading import Lock

import structlog

from kafkawire.ids import LeaderEpoch, Offset
from storage.disk.checkpoint import read_entries, write_entries
from storage.disk.layout import LEADER_EPOCH_CHECKPOINT
from storage.errors import CorruptCheckpointError
from storage.log.leader_epochs import EpochEntry, LeaderEpochs

log = structlog.get_logger()


class EpochCheckpoint:
    """The file of one partition, rewritten when the history differs from its content.

    It is written when a leadership begins, for tools that read the files of a running broker. It is
    synced only when durability matters: an fsync for each of thousands of partitions would make a
    failover slow.
    """

    def __init__(self, stored: tuple[EpochEntry, ...]) -> None:
        self._stored = stored
        self._is_durable = True
        # The owner of the log may store the epochs, and so may a thread that flushes the log.
        self._lock = Lock()

    def holds_more_than(self, epochs: LeaderEpochs) -> bool:
        """Whether the file holds leaderships that are no longer in the log."""
        return not set(self._stored) <= set(epochs.entries)

    def store(self, directory: Path, epochs: LeaderEpochs, *, is_durable: bool = True) -> None:
        """Update the file if needed; with `is_durable`, it is on disk on return."""
        with self._lock:
            entries = epochs.entries
            if entries != self._stored or (is_durable and not self._is_durable):
                path = directory / LEADER_EPOCH_CHECKPOINT
                write_epochs(path, entries, is_durable=is_durable)
                self._stored, self._is_durable = entries, is_durable


def write_epochs(path: Path, entries: Iterable[EpochEntry], *, is_durable: bool = True) -> None:
    """Replace the checkpoint; with `is_durable`, it is on disk on return."""
    lines = (f"{entry.epoch} {entry.start_offset}" for entry in entries)
    write_entries(path, lines, is_durable=is_durable)


def read_epochs(path: Path) -> LeaderEpochs:
    """Return the history on disk; it is empty if the file is missing or unreadable."""
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

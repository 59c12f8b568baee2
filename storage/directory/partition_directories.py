"""The partitions' directories of one log dir: their states, renames and removal (edge).

A log that is open renames its directory itself (`LogUpkeep.set_aside`) and reports it here. An
OSError takes the log dir offline.
"""

import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import structlog

from kafkawire.ids import TopicId, TopicPartition
from storage.disk.checkpoint import sync_directory, write_atomically
from storage.disk.deleted_files import DeletedFiles
from storage.disk.directory_health import DirectoryHealth, offline_on_failure
from storage.disk.layout import (
    FOREIGN_DIRECTORIES,
    MOVED_HERE,
    PARTITION_METADATA,
    DirectoryState,
    PartitionDirectory,
    parse_partition_directory,
    partition_directory,
    set_aside_directory,
)
from storage.errors import CorruptCheckpointError, StorageError
from storage.log import leftover
from storage.log.partition_metadata import read_topic_id

log = structlog.get_logger(__name__)


class PartitionDirectories:
    """The directories in the log dir at `path`: live, future, stray, or waiting for removal."""

    def __init__(self, path: Path, health: DirectoryHealth) -> None:
        self._path = path
        self._health = health
        self._deleted = DeletedFiles()
        self._strays: dict[TopicPartition, list[Path]] = {}

    def find_logs(self) -> dict[str, PartitionDirectory]:
        """Return the directories of logs by name; schedule obsolete directories for removal."""
        found = {}
        with offline_on_failure(self._health):
            paths = sorted(path for path in self._path.iterdir() if path.is_dir())
        for path in paths:
            parsed = parse_partition_directory(path.name)
            match None if parsed is None else parsed.state:
                case DirectoryState.LIVE | DirectoryState.FUTURE:
                    assert parsed is not None
                    found[path.name] = parsed
                case DirectoryState.DELETED:
                    self.remove_later(path)
                case DirectoryState.STRAY:
                    assert parsed is not None
                    self.note_stray(parsed.topic_partition, path)
                    log.warning("directory.ignored", path=str(path))
                case _ if path.name in FOREIGN_DIRECTORIES:
                    pass
                case _:
                    log.warning("directory.ignored", path=str(path))
        return found

    def holds(self, partition: TopicPartition) -> bool:
        """Whether there is a directory of that live partition; its log need not be open."""
        return (self._path / partition_directory(partition)).exists()

    def delete_unopened(self, partitions: Iterable[TopicPartition]) -> None:
        """Delete partitions whose log is not open here; `sync` makes the deletion durable."""
        with offline_on_failure(self._health):
            for partition in filter(self.holds, partitions):
                self.remove_later(self.rename_unopened(partition, DirectoryState.DELETED))

    def rename_unopened(self, partition: TopicPartition, state: DirectoryState) -> Path:
        """Set aside the directory of a partition whose log is not open; return its new path."""
        directory = self._path / partition_directory(partition)
        renamed = directory.rename(self._path / set_aside_directory(partition, state))
        if state is DirectoryState.STRAY:
            self.note_stray(partition, renamed)
        log.warning("log.set_aside", partition=str(partition), path=str(renamed))
        return renamed

    def discard(self, partition: TopicPartition, directory: Path) -> None:
        """Have the directory of a copy removed whose creation failed; it may not exist.

        The next start would resume the copy, although it was refused. A log dir that is offline
        stays untouched.
        """
        if self._health.failure is not None:
            return
        with suppress(OSError):
            name = set_aside_directory(partition, DirectoryState.DELETED)
            self.remove_later(directory.rename(self._path / name))

    def remove_later(self, directory: Path) -> None:
        """Schedule a renamed partition directory for removal by `remove_due`."""
        self._deleted.add([directory])

    def remove_due(self, clock_ms: int, delay_ms: int) -> None:
        """Remove directories that have waited for `delay_ms` since their first call.

        Any thread may call this, but only one at a time. A directory in which a file appears or
        vanishes meanwhile is left to the next call.

        Raises:
            StorageError: a directory could not be removed; the next call retries.
        """
        with offline_on_failure(self._health):
            self._deleted.remove_due(clock_ms, delay_ms, _remove_directory)

    def sync(self) -> None:
        """Make the names of partitions' directories durable."""
        with offline_on_failure(self._health):
            sync_directory(self._path)

    def take_back(self, partition: TopicPartition, topic_id: TopicId | None) -> bool:
        """Rename the stray of this topic, if there is one, to a live partition again.

        It was set aside by mistake, on incomplete knowledge.
        """
        stray = self.stray_of(partition, topic_id)
        if stray is None:
            return False
        stray.rename(self._path / partition_directory(partition))
        self._strays[partition].remove(stray)
        log.warning("log.taken_back", partition=str(partition), path=str(stray))
        return True

    def note_stray(self, partition: TopicPartition, path: Path) -> None:
        """Remember the directory of a partition that was set aside."""
        self._strays.setdefault(partition, []).append(path)

    def stray_of(self, partition: TopicPartition, topic_id: TopicId | None) -> Path | None:
        """Return the last directory to which the partition of this topic was set aside, if any."""
        paths = [path for path in self._strays.get(partition, ()) if path.is_dir()]
        mine = [path for path in paths if topic_id is not None and _is_of(path, topic_id)]
        return max(mine, key=lambda path: path.stat().st_ctime_ns, default=None)

    def make_way(self, partition: TopicPartition, topic_id: TopicId | None) -> None:
        """Keep records in an existing directory of the partition's name out of a new log.

        The remains of a creation that failed halfway are reused.
        """
        directory = self._path / partition_directory(partition)
        if not directory.exists():
            return
        found = read_topic_id(directory / PARTITION_METADATA)
        if found is not None and topic_id is not None and found != topic_id:
            self.rename_unopened(partition, DirectoryState.STRAY)
        elif leftover.holds_segments(directory):
            raise StorageError(
                f"{directory} holds a log that could not be opened: repair it or move it away"
            )

    def has_moved_here(self, partition: TopicPartition) -> bool:
        """Whether the partition's directory here has replaced one in another log dir."""
        return (self._path / partition_directory(partition) / MOVED_HERE).exists()

    def moved_ms(self, partition: TopicPartition) -> int:
        """Return the time of the move that has replaced a directory elsewhere; 0 without one."""
        return moved_ms(self._path / partition_directory(partition))

    def forget_move(self, partition: TopicPartition) -> None:
        """Remove the marker of a move, as the stale directory is gone."""
        with offline_on_failure(self._health):
            (self._path / partition_directory(partition) / MOVED_HERE).unlink(missing_ok=True)


def mark_moved(directory: Path, at_ms: int) -> None:
    """Mark a directory that will replace one in another log dir; the mark is durable on return."""
    write_atomically(directory / MOVED_HERE, str(at_ms))


def moved_ms(directory: Path) -> int:
    """Return the time in the mark of a move; 0 without a mark."""
    try:
        return int((directory / MOVED_HERE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return 0
    except (OSError, ValueError):
        # Unreadable, or of an earlier release, whose marks were empty.
        return 1


def _is_of(directory: Path, topic_id: TopicId) -> bool:
    try:
        return read_topic_id(directory / PARTITION_METADATA) == topic_id
    except (CorruptCheckpointError, OSError):
        return False


def _remove_directory(path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)
        log.info("directory.removed", path=str(path))

"""The logs of a broker, each with its log dir (edge over `log_directory`).

Invariant: a partition has at most one log, in exactly one log dir. Besides, it may have one future
log in another log dir (`future_logs`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from kafkawire.ids import TopicPartition
from storage.directory.log_directory import LogDirectory
from storage.disk.directory_health import for_each
from storage.disk.layout import DirectoryState
from storage.errors import LogDirOfflineError, StorageError
from storage.log.log import Log


class LogTable:
    """The logs in `directories`; `offline` lists the log dirs that could not be opened."""

    def __init__(self, directories: Sequence[LogDirectory], offline: Iterable[Path] = ()) -> None:
        self.directories = tuple(directories)
        """All log dirs that could be opened, even if they have failed since."""
        self._failed_to_open = list(offline)
        self._logs: dict[TopicPartition, Log] = {}
        self._homes: dict[TopicPartition, LogDirectory] = {}
        self.on_rolled: Callable[[TopicPartition], None] = lambda _partition: None
        """Called when a log has closed a segment, in the thread that owns the log."""
        self.logs: Mapping[TopicPartition, Log] = self._logs
        """The logs that are served; if a log dir has failed, every use of its logs raises."""
        self.homes: Mapping[TopicPartition, LogDirectory] = self._homes
        """The log dir of every log, and of every log that is about to be created."""

    def check_any_online(self) -> None:
        """Check that a log dir works.

        Raises:
            LogDirOfflineError: none does.
        """
        if not self.online_directories:
            paths = [*self._failed_to_open, *(each.path for each in self.directories)]
            raise LogDirOfflineError(paths[0], "no log dir of this broker can be used")

    @property
    def online_directories(self) -> tuple[LogDirectory, ...]:
        """The log dirs that work."""
        return tuple(each for each in self.directories if each.health.failure is None)

    @property
    def offline_paths(self) -> tuple[Path, ...]:
        """The log dirs that do not work."""
        failed = [each.path for each in self.directories if each.health.failure is not None]
        return (*self._failed_to_open, *failed)

    def __iter__(self) -> Iterator[Log]:
        return iter(list(self._logs.values()))

    def __len__(self) -> int:
        return len(self._logs)

    def directory_of(self, partition: TopicPartition) -> LogDirectory | None:
        """Return the log dir that holds `partition`."""
        return self._homes.get(partition)

    def in_directory(self, path: Path) -> list[Log]:
        """Return the logs in the log dir at `path`."""
        return [each for each in self if self._homes[each.topic_partition].path == path]

    @property
    def damage_count(self) -> int:
        """Number of segments with known damage."""
        return sum(len(each.health.damage) for each in self.directories)

    @property
    def full_paths(self) -> tuple[Path, ...]:
        """The log dirs that refuse appends because they are full."""
        return tuple(each.path for each in self.directories if each.health.is_full)

    def add(self, new: Log, directory: LogDirectory) -> None:
        """Add a log that was found in `directory`; of two copies, keep the one that moved last.

        Raises:
            StorageError: another directory holds the partition, and neither has moved later.
        """
        partition = new.topic_partition
        other = self._homes.get(partition)
        if other is not None:
            older = self._logs[partition]
            moved_ms = directory.partitions.moved_ms(partition)
            other_moved_ms = other.partitions.moved_ms(partition)
            if moved_ms == other_moved_ms:
                raise StorageError(
                    f"{partition} lies in {older.directory} and in {new.directory}: "
                    "remove the outdated copy"
                )
            if other_moved_ms > moved_ms:
                directory.partitions.remove_later(new.upkeep.set_aside(DirectoryState.DELETED))
                return
            other.partitions.remove_later(older.upkeep.set_aside(DirectoryState.DELETED))
        self.put(new, directory)

    def reserve(self, partition: TopicPartition, directory: LogDirectory) -> None:
        """Make `directory` the home of a log that is about to be created there."""
        assert partition not in self._homes, "a log is created once"
        self._homes[partition] = directory

    def release(self, partition: TopicPartition) -> None:
        """Undo `reserve` for a log that was not created."""
        self._homes.pop(partition, None)

    def put(self, new: Log, directory: LogDirectory) -> None:
        """Serve `new` in `directory`, in place of an earlier log of the partition."""
        partition = new.topic_partition
        # Without a reference to the log, whose files are closed when nobody refers to it.
        new.upkeep.on_rolled(lambda: self.on_rolled(partition))
        self._logs[partition] = new
        self._homes[partition] = directory

    def remove(self, partition: TopicPartition) -> None:
        """Stop serving the log of `partition`."""
        del self._logs[partition], self._homes[partition]

    def for_each_directory(self, work: Callable[[LogDirectory], None]) -> None:
        """Call `work` for each working log dir, and raise the first failure after all calls."""
        for_each(self.online_directories, work)

"""The logs of a broker, each with its log dir (edge over `log_directory`).

Invariant: a partition has at most one log, in exactly one log dir. Besides, it may have one future
log in another log dir.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from kafkawire.ids import TopicPartition
from storage.directory.future_logs import FutureLogs
from storage.directory.log_directory import LogDirectory
from storage.disk.directory_health import for_each
from storage.disk.layout import DirectoryState
from storage.errors import LogDirOfflineError, StorageError
from storage.log.log import Log


class LogTable:
    """The logs in `directories`; `offline` lists the log dirs that could not be opened."""

    def __init__(self, directories: Sequence[LogDirectory], offline: Iterable[Path] = ()) -> None:
        self._directories = list(directories)
        self._failed_to_open = list(offline)
        self._logs: dict[TopicPartition, Log] = {}
        self._home: dict[TopicPartition, LogDirectory] = {}
        # Partitions that are being set aside: still served, but no longer in a checkpoint.
        self._leaving: set[TopicPartition] = set()
        self.futures = FutureLogs()
        """Copies of logs in other log dirs; methods of `Logs` start and end them."""

    def _check_any_online(self) -> None:
        if not self.online_directories:
            paths = [*self._failed_to_open, *(each.path for each in self._directories)]
            raise LogDirOfflineError(paths[0], "no log dir of this broker can be used")

    @property
    def directories(self) -> tuple[LogDirectory, ...]:
        """All log dirs that could be opened, even if they have failed since."""
        return tuple(self._directories)

    @property
    def online_directories(self) -> tuple[LogDirectory, ...]:
        """The log dirs that work."""
        return tuple(each for each in self._directories if each.health.failure is None)

    @property
    def offline_paths(self) -> tuple[Path, ...]:
        """The log dirs that do not work."""
        failed = [each.path for each in self._directories if each.health.failure is not None]
        return (*self._failed_to_open, *failed)

    def __iter__(self) -> Iterator[Log]:
        return iter(list(self._logs.values()))

    def __len__(self) -> int:
        return len(self._logs)

    def get(self, partition: TopicPartition) -> Log | None:
        """Return the log of `partition`; if its log dir has failed, every use of it raises."""
        return self._logs.get(partition)

    def directory_of(self, partition: TopicPartition) -> LogDirectory | None:
        """Return the log dir that holds `partition`."""
        return self._home.get(partition)

    def in_directory(self, path: Path) -> list[Log]:
        """Return the logs in the log dir at `path`."""
        return [each for each in self if self._home[each.topic_partition].path == path]

    @property
    def damage_count(self) -> int:
        """Number of segments with known damage."""
        return sum(len(each.health.damage) for each in self._directories)

    @property
    def full_paths(self) -> tuple[Path, ...]:
        """The log dirs that refuse appends because they are full."""
        return tuple(each.path for each in self._directories if each.health.is_full)

    def _add(self, new: Log, directory: LogDirectory) -> None:
        partition = new.topic_partition
        other = self._home.get(partition)
        if other is not None:
            if directory.has_moved_here(partition) == other.has_moved_here(partition):
                raise StorageError(
                    f"{partition} lies in {other.path} and in {directory.path}: "
                    "remove the outdated copy"
                )
            if other.has_moved_here(partition):
                directory.remove_later(new.upkeep.set_aside(DirectoryState.DELETED))
                return
            other.remove_later(self._logs[partition].upkeep.set_aside(DirectoryState.DELETED))
        self._logs[partition] = new
        self._home[partition] = directory

    def _count(self, directory: LogDirectory) -> int:
        return sum(1 for home in self._home.values() if home is directory)

    def _logs_in(self, directory: LogDirectory) -> Iterator[Log]:
        """Iterate over the logs and the future logs in `directory`.

        A checkpoint draws from this iterator under its lock. A list made earlier could bring back a
        log that has left the checkpoint since.
        """
        for each in self:
            partition = each.topic_partition
            if self._home.get(partition) is directory and partition not in self._leaving:
                yield each
        for each in self.futures:
            if each.directory.parent == directory.path:
                yield each

    def _for_each_directory(self, work: Callable[[LogDirectory], None]) -> None:
        for_each(self.online_directories, work)

"""Future logs: copies in another log dir that will replace the originals (edge).

A copy lies in `<topic>-<partition>.<32 hex digits>-future`. When it has caught up with the
original, it gets the original's name, and the original waits for deletion. A crash between these
two renames leaves the partition in two log dirs; the file `moved-here` marks the newer log. It
holds the time of the move in ms, because an earlier mark stays if the name of the log before it may
not be gone from disk. When a move fails, the original gets a later mark than its copy.
Source: KIP-113; the file is an addition of Ottla.
"""

from collections.abc import Iterator
from contextlib import suppress

import structlog

from kafkawire.ids import TopicPartition
from storage.directory.log_directory import LogDirectory
from storage.directory.partition_directories import mark_moved, moved_ms
from storage.disk.directory_health import offline_on_failure
from storage.disk.layout import DirectoryState
from storage.errors import StorageError
from storage.log.log import Log
from storage.log.log_copying import name_copy

log = structlog.get_logger(__name__)


class FutureLogs:
    """At most one copy per partition; the owner of the logs owns the copies too.

    While another thread writes to a copy, the only thing the owner may do to it is drop it.
    """

    def __init__(self) -> None:
        self._copies: dict[TopicPartition, tuple[Log, LogDirectory]] = {}

    def __iter__(self) -> Iterator[Log]:
        """Iterate over the copies; any thread may do this."""
        # The list is made at once: meanwhile the owner of the logs may begin or end a move.
        return iter([copy for copy, _ in list(self._copies.values())])

    def get(self, partition: TopicPartition) -> Log | None:
        """Return the copy of a partition's log."""
        found = self._copies.get(partition)
        return None if found is None else found[0]

    def directory_of(self, partition: TopicPartition) -> LogDirectory | None:
        """Return the log dir that holds the copy."""
        found = self._copies.get(partition)
        return None if found is None else found[1]

    def add(self, copy: Log, directory: LogDirectory) -> None:
        """Add a copy; the partition must have none yet."""
        assert copy.topic_partition not in self._copies, "one move at a time"
        self._copies[copy.topic_partition] = (copy, directory)

    def create(self, original: Log, directory: LogDirectory, now_ms: int) -> Log:
        """Begin an empty copy of `original` in `directory`."""
        partition = original.topic_partition
        copy = directory.create_log(
            partition, original.config, original.topic_id, now_ms, DirectoryState.FUTURE
        )
        self.add(copy, directory)
        try:
            copy.truncate_fully_and_start_at(original.log_start_offset)
        except StorageError:
            # The move is refused; a copy that stays would make the next request seem fulfilled.
            with suppress(StorageError):
                self.drop(partition)
            raise
        name_copy(copy, original)
        log.info("move.began", partition=str(partition), path=str(directory.path))
        return copy

    def drop(self, partition: TopicPartition) -> None:
        """Drop the copy of a partition, if there is one; its files are removed later.

        Raises:
            StorageError: the directory could not be renamed, so the copy still exists.
        """
        found = self._copies.get(partition)
        if found is not None and found[1].health.failure is None:
            copy, directory = found
            directory.partitions.remove_later(copy.upkeep.set_aside(DirectoryState.DELETED))
            log.info("move.dropped", partition=str(partition), path=str(directory.path))
        self._copies.pop(partition, None)

    def promote(self, original: Log, now_ms: int) -> tuple[Log, LogDirectory]:
        """Make a copy that has caught up the log of its partition; return it, opened.

        The caller must set the original aside next, and then forget the move.

        Raises:
            StorageError: the copy's disk failed. The copy is dropped, the original stays in use.
        """
        partition = original.topic_partition
        copy, directory = self._copies[partition]
        # The original may have the mark of an earlier move.
        mark_ms = max(now_ms, moved_ms(original.directory) + 1)
        try:
            copy.update_config(original.config)
            copy.upkeep.close()
            moved = directory.adopt(copy, now_ms, mark_ms)
        except StorageError:
            _keep(original, mark_ms + 1)
            # The copy may be closed already; the next move creates another one.
            with suppress(StorageError):
                self.drop(partition)
            raise
        del self._copies[partition]
        moved.take_over_from(original)
        return moved, directory


def _keep(original: Log, mark_ms: int) -> None:
    """Mark the log in use as newer than its copy, which may have its new name on a failed disk."""
    try:
        with offline_on_failure(original.health):
            mark_moved(original.directory, mark_ms)
    except StorageError as error:
        log.error("move.not_undone", partition=str(original.topic_partition), error=str(error))

"""Logs on their way to another log dir: copies that will take the place of the originals (edge).

A copy lies in `<topic>-<partition>.<32 hex digits>-future`. When it holds what the original holds,
it gets the original's name, and the original waits for deletion. A crash between these two renames
leaves the partition in two log dirs; the file `moved-here` tells which is the newer one. Source:
KIP-113; that file is ours.
"""

from collections.abc import Iterator
from contextlib import suppress

import structlog

from kafkawire.ids import TopicPartition
from storage.errors import StorageError
from storage.layout import DirectoryState
from storage.log import Log
from storage.log_directory import LogDirectory

log = structlog.get_logger()


class FutureLogs:
    """At most one copy per partition; the owner of the logs owns these, too.

    While another thread writes to a copy, its owner leaves it alone but for dropping it.
    """

    def __init__(self) -> None:
        self._copies: dict[TopicPartition, tuple[Log, LogDirectory]] = {}

    def __iter__(self) -> Iterator[Log]:
        return iter([copy for copy, _ in self._copies.values()])

    def get(self, partition: TopicPartition) -> Log | None:
        """Return the copy of a partition's log."""
        found = self._copies.get(partition)
        return None if found is None else found[0]

    def directory_of(self, partition: TopicPartition) -> LogDirectory | None:
        """Return the log dir where the copy lies."""
        found = self._copies.get(partition)
        return None if found is None else found[1]

    def add(self, copy: Log, directory: LogDirectory) -> None:
        """Take in a copy; there must be none of that partition."""
        assert copy.topic_partition not in self._copies, "one move at a time"
        self._copies[copy.topic_partition] = (copy, directory)

    def create(self, original: Log, directory: LogDirectory, now_ms: int) -> Log:
        """Begin an empty copy of `original` in `directory`."""
        partition = original.topic_partition
        copy = directory.create_log(
            partition, original.config, original.topic_id, now_ms, DirectoryState.FUTURE
        )
        self.add(copy, directory)
        copy.truncate_fully_and_start_at(original.log_start_offset)
        log.info("move.began", partition=str(partition), path=str(directory.path))
        return copy

    def drop(self, partition: TopicPartition) -> None:
        """Give up a copy, if there is one; its files go later.

        Raises:
            StorageError: its directory could not be renamed, and the copy is still there.
        """
        found = self._copies.get(partition)
        if found is not None and found[1].health.failure is None:
            copy, directory = found
            directory.remove_later(copy.set_aside(DirectoryState.DELETED))
            log.info("move.dropped", partition=str(partition), path=str(directory.path))
        self._copies.pop(partition, None)

    def promote(self, original: Log, now_ms: int) -> tuple[Log, LogDirectory]:
        """Make a copy that holds all of `original` the log of its partition; return it, opened.

        The original has to be set aside next, and the move to be forgotten.

        Raises:
            StorageError: the copy's disk failed; the copy is given up, and the original goes on.
        """
        partition = original.topic_partition
        copy, directory = self._copies[partition]
        try:
            copy.update_config(original.config)
            copy.close()
            moved = directory.adopt(copy, now_ms)
        except StorageError:
            # It may be closed. The next move makes another one.
            with suppress(StorageError):
                self.drop(partition)
            raise
        del self._copies[partition]
        moved.take_over_from(original)
        return moved, directory

"""All logs of a broker, over its log dirs (edge over `log_directory`).

Invariant: a partition has at most one log on this broker, in exactly one log dir. A failing log dir
takes down only its own logs.

One thread owns a `Logs` object. Other threads may call only the methods that say so.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import structlog

from kafkawire.ids import Offset, TopicId, TopicPartition
from storage.config.log_config import LogConfig
from storage.directory.future_logs import FutureLogs
from storage.directory.log_checkpoints import LogCheckpoints, or_later
from storage.directory.log_directory import LogDirectory
from storage.directory.log_placement import LogPlacement
from storage.directory.log_table import LogTable
from storage.directory.opening import load_directories, open_directories
from storage.disk.directory_health import for_each
from storage.disk.layout import DirectoryState
from storage.errors import LogDirFullError, LogDirOfflineError, OutOfFilesError, StorageError
from storage.log.log import Log

__all__ = ["LogDirectory", "Logs"]

log = structlog.get_logger(__name__)


class Cleaning(Protocol):
    """Control over the compaction of single partitions; `storage.compaction.manager` has it."""

    def pause(self, partition: TopicPartition) -> None:
        """Abort the cleaning of a partition and start none until `resume`."""

    def resume(self, partition: TopicPartition) -> None:
        """Undo one `pause`."""


class NoCleaning:
    """A stand-in for brokers and tests without compaction."""

    def pause(self, partition: TopicPartition) -> None:
        """Do nothing."""

    def resume(self, partition: TopicPartition) -> None:
        """Do nothing."""


class Logs:
    """The logs in `directories`, created by `open`."""

    def __init__(self, directories: Sequence[LogDirectory], offline: Iterable[Path] = ()) -> None:
        self.table = LogTable(directories, offline)
        """The logs that are served, and the state of the log dirs."""
        self.futures = FutureLogs()
        """Copies of logs in other log dirs; `placement` starts and ends them."""
        self.checkpoints = LogCheckpoints(self.table, self.futures)
        """The offset checkpoints of all log dirs."""
        self.placement = LogPlacement(self.table, self.futures, self.checkpoints)
        """The choice of log dirs, and moves between them."""
        self.cleaning: Cleaning = NoCleaning()
        """The compaction, which must be paused while segments of a log are cut or moved."""

    @classmethod
    def open(
        cls,
        paths: Sequence[Path],
        *,
        config_of: Callable[[str], LogConfig],
        now_ms: int,
        on_offline: Callable[[Path], None] = lambda _path: None,
        recovery_threads: int = 1,
        reserve_bytes: int = 0,
        locked: Collection[Path] = (),
        boot_id: str | None = None,
    ) -> "Logs":
        """Lock the log dirs at `paths` and open all their logs, with recovery where needed.

        All log dirs are loaded in parallel, each by `recovery_threads` threads. `config_of` returns
        the config of a topic; any of these threads may call it. `on_offline` is called with the
        path of a log dir that fails, now or later, in the thread that met the failure. Each log dir
        keeps `reserve_bytes` in reserve for the time when its disk is full. The caller holds the
        locks of the paths in `locked`, and releases them after `close`. With the
        machine's `boot_id`, log dirs are detected that may have lost records when it restarted.

        Raises:
            LogDirLockedError: another process uses one of the log dirs.
            LogDirOfflineError: no log dir is usable.
            StorageError: two paths name the same log dir, or two log dirs hold the same partition.
        """
        if len({path.resolve() for path in paths}) < len(paths):
            raise StorageError(f"a log dir is named twice: {', '.join(map(str, paths))}")
        directories, offline = open_directories(paths, on_offline, reserve_bytes, locked, boot_id)
        logs = cls(directories, offline)
        try:
            for directory, found in load_directories(
                directories, config_of, now_ms, recovery_threads
            ):
                for each in found:
                    logs.table.add(each, directory)
            logs.placement.resume_moves(now_ms)
            logs.table.check_any_online()
        except BaseException:
            for directory in directories:
                directory.unlock()
            raise
        return logs

    def __iter__(self) -> Iterator[Log]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)

    def get(self, partition: TopicPartition) -> Log | None:
        """Return the log of `partition`; if its log dir has failed, every use of it raises."""
        return self.table.logs.get(partition)

    def claim(self, broker_id: int, cluster_id: str) -> None:
        """Mark all log dirs as property of this broker; one that cannot be marked goes offline.

        Raises:
            InconsistentMetadataError: a log dir belongs to another broker or cluster.
            LogDirOfflineError: no log dir is left.
        """
        for directory in self.table.online_directories:
            try:
                directory.claim(broker_id, cluster_id)
            except LogDirOfflineError:
                # The failure has been reported already; the other log dirs continue.
                continue
            except (LogDirFullError, OutOfFilesError) as error:
                directory.health.give_up(str(error))
        self.table.check_any_online()

    @property
    def doubtful_paths(self) -> list[Path]:
        """The log dirs that may lack records, or are new."""
        return [each.path for each in self.table.online_directories if each.is_doubtful]

    def is_complete(self, partition: TopicPartition) -> bool:
        """Whether there is a log of `partition` that has all records ever written to it."""
        return partition in self.table.logs and not self.table.homes[partition].is_doubtful

    def cut_at_gaps(self, partitions: Iterable[TopicPartition]) -> None:
        """Truncate the doubtful logs of `partitions` where a loss of power may have left a gap.

        Only for partitions whose records other brokers have: a cleaning leaves such gaps, too. The
        gaps lie above the recovery points on disk, so these need not be lowered at once. Copies for
        a move are truncated in any case, because their originals have the records. A log dir whose
        disk fails goes offline.

        Raises:
            LogDirFullError: a log was not cut for lack of space. All others are cut.
            OutOfFilesError: likewise, for lack of file descriptors.
        """
        failure: StorageError | None = None
        for found in [*map(self.table.logs.get, partitions), *self.futures]:
            if found is None or found.gap_offset is None:
                continue
            try:
                is_copy = self.table.logs.get(found.topic_partition) is not found
                if is_copy:
                    found.truncate_to(found.gap_offset)
                else:
                    self.truncate_to({found.topic_partition: found.gap_offset})
            except LogDirOfflineError:
                continue
            except (LogDirFullError, OutOfFilesError) as error:
                if found.gap_offset is not None:
                    failure = failure or error
        if failure is not None:
            raise failure

    def accept(self) -> None:
        """Take the logs as they are; a log dir that fails goes offline."""
        with suppress(LogDirOfflineError):
            self.table.for_each_directory(LogDirectory.accept)

    def create(
        self,
        partition: TopicPartition,
        config: LogConfig,
        topic_id: TopicId | None,
        *,
        now_ms: int,
        is_new: bool = True,
    ) -> Log:
        """Return the log of `partition`; create a missing one in the least filled log dir.

        `is_new` false means that the partition has existed on this broker. Its log is then not
        created while a log dir is offline that may hold it. "Least filled" counts partitions.

        Raises:
            InconsistentTopicIdError: the existing log belongs to another topic of that name.
            LogDirOfflineError: an offline log dir may hold the log (see `is_new`), or no log dir
                works.
            LogDirFullError: no log dir has space.
        """
        existing = self.table.logs.get(partition)
        if existing is not None:
            existing.health.check()
            if topic_id is not None:
                existing.assign_topic_id(topic_id)
            return existing
        directory = self.reserve(partition, topic_id, is_new=is_new)
        try:
            new = directory.create_log(
                partition,
                config,
                topic_id,
                now_ms,
                replaces_offline=bool(self.table.offline_paths),
            )
        except BaseException:
            self.release(partition)
            raise
        self.adopt(new)
        return new

    def reserve(
        self, partition: TopicPartition, topic_id: TopicId | None, *, is_new: bool
    ) -> LogDirectory:
        """Reserve a log dir for the log of `partition`, which any thread may then create there.

        The caller must call either `adopt` or `release` afterwards.

        Raises:
            LogDirOfflineError, LogDirFullError: see `create`.
        """
        if not is_new and self.table.offline_paths:
            raise LogDirOfflineError(self.table.offline_paths[0], f"it may hold {partition}")
        self.table.check_any_online()
        # A copy is of a log in a log dir that is offline. No log with a copy is cleaned.
        self.futures.drop(partition)
        directory = self.placement.choose_directory(partition, topic_id)
        self.checkpoints.forget_gone(directory, partition)
        self.table.reserve(partition, directory)
        return directory

    def adopt(self, new: Log) -> None:
        """Serve a log that was created in its reserved log dir."""
        partition = new.topic_partition
        directory = self.table.homes[partition]
        self.table.put(new, directory)
        log.info("log.created", partition=str(partition), path=str(directory.path))

    def release(self, partition: TopicPartition) -> None:
        """Cancel the reservation of a log that was not created."""
        self.table.release(partition)

    def delete(self, *partitions: TopicPartition) -> None:
        """Stop serving logs; a later `remove_deleted` removes their files.

        A partition without a log is skipped, unless it has a directory that could not be opened.
        Readers that hold a region can finish. Making the deletion durable costs the same for any
        number of logs. If there is no space or no descriptor for that, it is done later.

        Raises:
            StorageError: some logs are still served and can be deleted later; the others are gone.
        """
        unknown = [each for each in partitions if each not in self.table.homes]
        try:
            self._set_aside(partitions, DirectoryState.DELETED)
        finally:
            if unknown:
                self.table.for_each_directory(lambda home: self._delete_unopened(home, unknown))

    def _delete_unopened(self, home: LogDirectory, partitions: Sequence[TopicPartition]) -> None:
        home.partitions.delete_unopened(partitions)
        with or_later(home):
            home.partitions.sync()

    def set_aside_as_stray(self, partition: TopicPartition) -> Path | None:
        """Stop serving the log of `partition`, keep its files, and return their new directory.

        Raises:
            StorageError: the log is still served.
        """
        paths = self._set_aside([partition], DirectoryState.STRAY)
        return paths[0] if paths else None

    def _set_aside(self, partitions: Sequence[TopicPartition], state: DirectoryState) -> list[Path]:
        """Rename the directories of logs; return the new paths.

        A log leaves the tables only after its directory has been renamed. Otherwise a directory
        that could not be renamed might be mistaken for the log of the next topic of that name.
        """
        # A copy without its original is useless: if it cannot be dropped, the next start does so.
        with suppress(StorageError):
            for_each(partitions, self.futures.drop)
        found = [partition for partition in partitions if partition in self.table.logs]
        for partition in found:
            self.abort_cleaning(partition)
        leaving: dict[LogDirectory, list[TopicPartition]] = {}
        for partition in found:
            leaving.setdefault(self.table.homes[partition], []).append(partition)
        renamed: list[Path] = []
        for_each(leaving, lambda home: renamed.extend(self._rename(home, leaving[home], state)))
        return renamed

    def _rename(
        self, home: LogDirectory, partitions: Sequence[TopicPartition], state: DirectoryState
    ) -> list[Path]:
        """Rename the directories of logs in one log dir; return the new paths."""
        self.checkpoints.leaving.update(partitions)
        renamed: list[Path] = []
        try:
            with or_later(home):
                # First, because the checkpoints must not name a log that is gone.
                self.checkpoints.write_bounds_in(home)
                if not home.checkpoints.high_watermarks.keys().isdisjoint(partitions):
                    self.checkpoints.write_high_watermarks_in(home, {})
                if not home.checkpoints.cleaner_offsets.keys().isdisjoint(partitions):
                    self.checkpoints.write_cleaner_offsets_in(home)
            for partition in partitions:
                renamed.append(self.table.logs[partition].upkeep.set_aside(state))
                self._forget(partition)
                if state is DirectoryState.DELETED:
                    home.partitions.remove_later(renamed[-1])
                    log.info("log.deleted", path=str(renamed[-1]))
                else:
                    home.partitions.note_stray(partition, renamed[-1])
                    log.warning("log.set_aside", partition=str(partition), path=str(renamed[-1]))
            with or_later(home):
                home.partitions.sync()
        except StorageError:
            self.checkpoints.leaving.difference_update(partitions)
            with suppress(StorageError):
                # Add the remaining logs again. If this fails too, the next periodic write does it.
                self.checkpoints.write_bounds_in(home)
            raise
        finally:
            self.checkpoints.leaving.difference_update(partitions)
        return renamed

    def _forget(self, partition: TopicPartition) -> None:
        home = self.table.homes[partition]
        self.table.remove(partition)
        home.checkpoints.cleaner_offsets.pop(partition, None)
        home.checkpoints.high_watermarks.pop(partition, None)

    def truncate_to(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Truncate logs, and lower their checkpoints on disk before the next append.

        Raises:
            StorageError: a log, or a checkpoint, may be unchanged; all others are truncated.
        """
        touched: dict[LogDirectory, list[Log]] = {}

        def truncate(partition: TopicPartition) -> None:
            has_effect, local = True, self.table.logs[partition]
            try:
                has_effect = self._truncate(local, offsets[partition])
            finally:
                # Also after a failure, which may have left a shorter log.
                if has_effect:
                    touched.setdefault(self.table.homes[partition], []).append(local)

        try:
            for_each([each for each in offsets if each in self.table.logs], truncate)
        finally:
            for_each(touched, lambda home: self._lower_checkpoints(home, touched[home]))

    def _lower_checkpoints(self, home: LogDirectory, truncated: Iterable[Log]) -> None:
        self.checkpoints.write_bounds_in(home)
        for local in truncated:
            local.note_lowered()

    def _truncate(self, local: Log, offset: Offset) -> bool:
        if offset >= local.log_end_offset:
            return local.truncate_to(offset)
        # Also in the active segment, in which a cleaner looks for the ends of transactions.
        with self._uncleaned(local.topic_partition, offset):
            return local.truncate_to(offset)

    def truncate_fully_and_start_at(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Empty logs, and lower their checkpoints on disk before the next append.

        Raises:
            StorageError: a log, or a checkpoint, may be unchanged; all others are emptied.
        """
        touched: dict[LogDirectory, list[Log]] = {}

        def restart(partition: TopicPartition) -> None:
            local = self.table.logs[partition]
            # Also after a failure, which may have left another log.
            touched.setdefault(self.table.homes[partition], []).append(local)
            with self._uncleaned(partition, Offset(0)):
                local.truncate_fully_and_start_at(offsets[partition])

        try:
            for_each([each for each in offsets if each in self.table.logs], restart)
        finally:
            for_each(touched, lambda home: self._lower_checkpoints(home, touched[home]))

    def begin_move(self, partition: TopicPartition, directory: LogDirectory, now_ms: int) -> bool:
        """Start a copy of a log in `directory`; see `LogPlacement.begin_move`.

        A cleaning of the log is aborted, and none starts until the move ends.
        """
        has_begun = self.placement.begin_move(partition, directory, now_ms)
        if has_begun:
            self.abort_cleaning(partition)
        return has_begun

    def end_move(self, partition: TopicPartition, now_ms: int) -> Log:
        """Replace a log by its copy, which has caught up; return the copy.

        Raises:
            StorageError: the copy's disk failed. The copy is dropped, the log stays in use.
        """
        self.abort_cleaning(partition)
        return self.placement.end_move(partition, now_ms)

    def abort_cleaning(self, partition: TopicPartition) -> None:
        """Abort a cleaning of a partition, if one runs: its result would arrive too late."""
        self.cleaning.pause(partition)
        self.cleaning.resume(partition)

    @contextmanager
    def _uncleaned(self, partition: TopicPartition, end_offset: Offset) -> Iterator[None]:
        """Limit the cleaner offset of a log, and pause its cleaning while the body truncates it.

        The cleaner offset is at most `end_offset` before, because the body may fail halfway, and
        records that are appended later must not count as clean.
        Source: LogManager.truncateTo and maybeTruncateCheckpoint of Kafka 3.9.
        """
        self.cleaning.pause(partition)
        try:
            directory = self.table.homes[partition]
            if directory.checkpoints.cleaner_offsets.get(partition, Offset(0)) > end_offset:
                directory.checkpoints.cleaner_offsets[partition] = end_offset
                self.checkpoints.write_cleaner_offsets_in(directory)
            yield
        finally:
            self.cleaning.resume(partition)

    def flush_due(self, clock_ms: int) -> None:
        """Flush the logs whose `flush.ms` has passed, by a monotonic clock; any thread may."""
        for_each(_working(self), lambda each: each.upkeep.flush_if_due(clock_ms))

    def remove_deleted(self, clock_ms: int, delay_ms: int) -> None:
        """Remove files that became obsolete `delay_ms` ago, also of copies.

        On a full disk they are removed at once. `clock_ms` comes from a monotonic clock. Any thread
        may call this, but only one at a time.
        """

        def remove(directory: LogDirectory) -> None:
            directory.partitions.remove_due(clock_ms, 0 if directory.health.is_full else delay_ms)

        try:
            self.table.for_each_directory(remove)
        finally:
            for_each(
                _working([*self, *self.futures]),
                lambda each: each.upkeep.remove_deleted_files(clock_ms),
            )

    def check_space(self) -> None:
        """Update the full state of all log dirs; any thread may call this, one at a time."""
        self.table.for_each_directory(LogDirectory.check_space)

    def close(self, broker_epoch: int = -1) -> None:
        """Close all logs. A log dir that closes without an error needs no recovery on restart."""
        for directory in self.table.directories:
            try:
                directory.close(self.checkpoints.logs_in(directory), broker_epoch)
            except StorageError as error:
                log.error("log_dir.not_closed", path=str(directory.path), error=str(error))


def _working(logs: Iterable[Log]) -> Iterator[Log]:
    return (each for each in logs if each.health.failure is None and not each.is_closed)

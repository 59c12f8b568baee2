"""One log dir: its owner, its shutdown state and its partitions' directories (edge).

Bytes on disk: `.lock`, `meta.properties`, `.kafka_cleanshutdown`, `.ottla-boot-id`, the checkpoints
of `directory_checkpoints`, and a directory per partition.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import structlog

from kafkawire.ids import Offset, TopicId, TopicPartition
from storage.config.log_config import LogConfig
from storage.directory.boot_id import may_lack_records, read_boot_id, write_boot_id
from storage.directory.clean_shutdown import take_marker, write_marker
from storage.directory.directory_checkpoints import DirectoryCheckpoints
from storage.directory.directory_lock import lock_directory
from storage.directory.load_progress import LoadProgress
from storage.directory.meta_properties import (
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from storage.directory.partition_directories import PartitionDirectories, mark_moved
from storage.disk.checkpoint import sync_directory
from storage.disk.directory_health import (
    PASSING_ERRORS,
    DirectoryHealth,
    for_each,
    offline_on_failure,
)
from storage.disk.layout import (
    BOOT_ID,
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    PARTITION_METADATA,
    DirectoryState,
    partition_directory,
    set_aside_directory,
)
from storage.disk.space_reserve import SpaceReserve
from storage.errors import CorruptCheckpointError, CorruptLogError, StorageError
from storage.log import recovery
from storage.log.log import Log
from storage.log.partition_metadata import write_topic_id

log = structlog.get_logger(__name__)


class LogDirectory:
    """The log dir at `path`, locked by this object, or by its creator if `is_locked`.

    With the machine's `boot_id`, it detects that its logs may lack records.

    Raises:
        LogDirLockedError: another process uses it.
        LogDirOfflineError: it is unusable; other log dirs may still be usable.
    """

    def __init__(
        self,
        path: Path,
        on_offline: Callable[[Path], None] = lambda _path: None,
        reserve_bytes: int = 0,
        *,
        is_locked: bool = False,
        boot_id: str | None = None,
    ) -> None:
        self._reserve = SpaceReserve(path, reserve_bytes)
        self.path = path
        self.health = DirectoryHealth(path, on_offline, self._reserve.release, self._forget_boot_id)
        self.checkpoints = DirectoryCheckpoints(path, self.health)
        self.is_loaded = False
        """Whether all its logs have been opened, so that `close` may mark a clean shutdown."""
        self.is_doubtful = False
        """Whether its logs may lack records; then `close` marks no clean shutdown."""
        self._may_have_broken = False
        """Whether its disk may have failed since the boot, so that the page cache may differ."""
        self._boot_id = boot_id
        self.write_bounds: Callable[[], None] = lambda: None
        """Writes the recovery points and log start offsets of the logs in this log dir."""
        self.loaded_futures: list[Log] = []
        """Future logs in this log dir that were incomplete when the broker stopped."""
        self.partitions = PartitionDirectories(path, self.health)
        with offline_on_failure(self.health):
            self._lock = None if is_locked else lock_directory(path)
        try:
            with offline_on_failure(self.health):
                if not self._reserve.hold():
                    # Recovery may need the space.
                    self._reserve.release()
                self.meta = read_meta_properties(path / META_PROPERTIES)
                self._judge_last_run()
                self.last_shutdown = take_marker(path / CLEAN_SHUTDOWN)
                self.checkpoints.read()
        except BaseException:
            self.unlock()
            raise

    def _judge_last_run(self) -> None:
        if self._boot_id is None:
            return
        stored = read_boot_id(self.path / BOOT_ID)
        was_clean = (self.path / CLEAN_SHUTDOWN).exists()
        self.is_doubtful = may_lack_records(stored, self._boot_id, was_clean=was_clean)
        self._may_have_broken = self.is_doubtful and stored is None
        if not self.is_doubtful and stored != self._boot_id:
            # Before the marker is removed, so that a crash in between is not taken for a loss.
            self._store_boot_id(self._boot_id)

    @property
    def _may_have_lost_power(self) -> bool:
        return self.is_doubtful or self._boot_id is None

    def accept(self) -> None:
        """Take the logs as they are: other brokers no longer rely on the lost records.

        Must be called before the first append to a doubtful log dir.

        Raises:
            LogDirOfflineError: the disk failed.
        """
        if self.is_doubtful and self._boot_id is not None:
            with offline_on_failure(self.health):
                self._store_boot_id(self._boot_id)
            self.is_doubtful = False

    def _store_boot_id(self, boot_id: str) -> None:
        try:
            write_boot_id(self.path / BOOT_ID, boot_id)
        except OSError as error:
            if error.errno not in PASSING_ERRORS:
                raise
            # After the next crash the logs count as doubtful, although they may be complete.
            log.warning("boot_id.not_stored", path=str(self.path), error=str(error))

    def _forget_boot_id(self) -> None:
        """Have the next start count the logs as doubtful, although it may be of the same boot.

        Only that boot matters, so the removal need not be durable.
        """
        try:
            (self.path / BOOT_ID).unlink(missing_ok=True)
        except OSError as error:
            # The next start of this boot trusts the logs, unless an operator removes the file.
            log.error("boot_id.not_removed", path=str(self.path), error=str(error))

    def claim(self, broker_id: int, cluster_id: str) -> None:
        """Mark the log dir as property of this broker; durable on return.

        Raises:
            InconsistentMetadataError: it belongs to another broker or cluster.
            LogDirOfflineError, LogDirFullError, OutOfFilesError: the mark could not be written.
        """
        self.meta.check(self.path, broker_id, cluster_id)
        if self.meta.broker_id is None or self.meta.cluster_id is None:
            self.meta = MetaProperties(
                broker_id=broker_id, cluster_id=cluster_id, directory_id=self.meta.directory_id
            )
            with offline_on_failure(self.health):
                write_meta_properties(self.path / META_PROPERTIES, self.meta)

    def load_logs(
        self, config_of: Callable[[TopicPartition], LogConfig], now_ms: int, thread_count: int = 1
    ) -> list[Log]:
        """Open every log in the directory, with recovery unless the last shutdown was clean.

        A log that is too damaged to open is left alone and reported.

        Raises:
            LogDirOfflineError: the disk failed.
        """
        found = self.partitions.find_logs()
        progress = LoadProgress(self.path, len(found), was_clean=self.last_shutdown.was_clean)

        def load(name: str) -> Log | None:
            partition = found[name].topic_partition
            loaded = self._load_log(partition, name, config_of(partition), now_ms)
            progress.on_loaded()
            return loaded

        with ThreadPoolExecutor(thread_count, "log-recovery-") as threads:
            logs = dict(zip(found, threads.map(load, found), strict=True))
        progress.on_end()
        self.is_loaded = None not in logs.values()
        live = DirectoryState.LIVE
        self.loaded_futures = [
            each for name, each in logs.items() if each and found[name].state is not live
        ]
        return [each for name, each in logs.items() if each and found[name].state is live]

    def _load_log(
        self, partition: TopicPartition, name: str, config: LogConfig, now_ms: int
    ) -> Log | None:
        recovery_point = self.checkpoints.recovery_points.get(partition, Offset(0))
        if self.is_doubtful:
            # Records may be gone from the end of a segment, where recovery finds nothing to cut.
            with offline_on_failure(self.health):
                recovery.disown_copy(self.path / name)
        if self._may_have_broken:
            with offline_on_failure(self.health):
                recovery.drop_cached(self.path / name, recovery_point)
        try:
            opened = self._open_log(
                partition,
                name,
                config,
                now_ms,
                recovery_point=recovery_point,
                log_start_offset=self.checkpoints.log_starts.get(partition, Offset(0)),
                high_watermark=self.checkpoints.high_watermarks.get(partition),
                is_gapless=self._may_have_lost_power
                and not config.is_compacted
                and self.checkpoints.is_uncleaned(partition),
                was_clean=self.last_shutdown.was_clean,
            )
        except (CorruptCheckpointError, CorruptLogError) as error:
            log.error("log.not_loaded", partition=str(partition), error=str(error))
            return None
        self.checkpoints.limit_cleaner_offset(opened)
        return opened

    def check_space(self) -> None:
        """Update the full state: accept appends if there is space again, refuse them if not.

        Any thread may call this periodically, but only one at a time.
        """
        with offline_on_failure(self.health):
            if self._reserve.hold():
                self.health.note_space()
            elif not self._reserve.is_held:
                self.health.note_full("the free space is smaller than the reserve for recovery")

    def create_log(
        self,
        partition: TopicPartition,
        config: LogConfig,
        topic_id: TopicId | None,
        now_ms: int,
        state: DirectoryState = DirectoryState.LIVE,
        *,
        replaces_offline: bool = False,
    ) -> Log:
        """Create an empty log, or take back the one of this topic that was set aside as a stray.

        Any thread may call this. The directory and the topic id are durable on return. The
        directory has the name of a live partition, or of one in another `state`. With
        `replaces_offline`, a log of the partition in a log dir that is offline is stale from then
        on.

        Raises:
            LogDirOfflineError, LogDirFullError: the disk failed, or is full.
            StorageError: the log dir has a log of this topic that could not be opened; it is left
                alone.
        """
        self.health.check_writable()
        name = partition_directory(partition)
        if state is not DirectoryState.LIVE:
            name = set_aside_directory(partition, state)
        directory = self.path / name
        marked_ms = now_ms if replaces_offline else None
        try:
            is_taken_back = self._prepare(partition, directory, topic_id, marked_ms)
            return self._open_log(
                partition,
                name,
                config,
                now_ms,
                recovery_point=Offset(0),
                log_start_offset=Offset(0),
                was_clean=not is_taken_back,
            )
        except StorageError:
            if state is not DirectoryState.LIVE:
                self.partitions.discard(partition, directory)
            raise

    def _prepare(
        self,
        partition: TopicPartition,
        directory: Path,
        topic_id: TopicId | None,
        marked_ms: int | None,
    ) -> bool:
        """Create the directory of a log; return whether a stray was taken back instead.

        With `marked_ms`, mark it as newer than any in a log dir that is offline.
        """
        is_taken_back = False
        with offline_on_failure(self.health):
            if directory.name == partition_directory(partition):
                self.partitions.make_way(partition, topic_id)
                if not directory.exists():
                    is_taken_back = self.partitions.take_back(partition, topic_id)
            directory.mkdir(exist_ok=True)
            if marked_ms is not None:
                mark_moved(directory, marked_ms)
            sync_directory(self.path)
            if topic_id is not None:
                write_topic_id(directory / PARTITION_METADATA, topic_id)
        return is_taken_back

    def adopt(self, closed: Log, now_ms: int, moved_ms: int) -> Log:
        """Rename the directory of `closed`, a log in this log dir, to its partition, and open it.

        A directory of the same name in another log dir is stale from then on, unless it has the
        mark of a move at `moved_ms` or later.

        Raises:
            StorageError: the directory waits for its deletion; if the disk failed, it may have its
                new name, and the mark.
        """
        partition = closed.topic_partition
        name = partition_directory(partition)
        with offline_on_failure(self.health):
            mark_moved(closed.directory, moved_ms)
            closed.directory.rename(self.path / name)
        try:
            self.partitions.sync()
            return self._open_log(
                partition,
                name,
                closed.config,
                now_ms,
                recovery_point=closed.recovery_point,
                log_start_offset=closed.log_start_offset,
                was_clean=True,
            )
        except StorageError:
            # Otherwise the next start would take it for the newer log, and drop the one in use.
            with suppress(OSError):
                stale = self.partitions.rename_unopened(partition, DirectoryState.DELETED)
                self.partitions.remove_later(stale)
                # Although the log dir may count as offline by now.
                sync_directory(self.path)
            raise

    def _open_log(
        self,
        partition: TopicPartition,
        name: str,
        config: LogConfig,
        now_ms: int,
        *,
        recovery_point: Offset,
        log_start_offset: Offset,
        was_clean: bool,
        high_watermark: Offset | None = None,
        is_gapless: bool = False,
    ) -> Log:
        opened = Log.open(
            self.path / name,
            config,
            topic_partition=partition,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            high_watermark=high_watermark,
            is_gapless=is_gapless,
            was_clean=was_clean,
            now_ms=now_ms,
            health=self.health,
        )
        opened.lower_checkpoints = lambda: self.write_bounds()
        return opened

    def close(self, logs: Iterable[Log], broker_epoch: int) -> None:
        """Close the logs, and mark a clean shutdown if all have been opened and closed.

        While the log dir is doubtful and a log has a gap, the recovery points on disk are not
        raised, so that the next start finds the gap. The lock is released in any case, if this
        object holds it.

        Raises:
            StorageError: a log could not be closed; the others were.
        """
        logs = list(logs)
        try:
            try:
                for_each(logs, lambda each: each.upkeep.close())
            finally:
                if not (self.is_doubtful and any(each.gap_offset is not None for each in logs)):
                    self.checkpoints.write_recovery_points(logs)
                self.checkpoints.write_log_starts(logs)
            if self.is_loaded and not self.is_doubtful:
                with offline_on_failure(self.health):
                    write_marker(self.path / CLEAN_SHUTDOWN, broker_epoch)
        finally:
            self.unlock()

    def unlock(self) -> None:
        """Release the lock of the directory, unless the creator of this object holds it."""
        if self._lock is not None:
            self._lock.release()

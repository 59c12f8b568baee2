"""Start, abort and completion of cleanings (edge).

The manager belongs to the thread that owns the logs. Invariants: a partition has at most one
cleaning at a time; the results of an aborted cleaning are discarded, also if the log is no longer
compacted; a log that moves to another log dir is not cleaned; a log in which a cleaning met damage
is not cleaned again until it is recreated, while all other logs are.
Source: LogCleanerManager of Kafka 3.9.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import structlog

from kafkawire.ids import Offset, TopicPartition
from storage.compaction.cleanable import Candidate, weigh
from storage.compaction.cleaning_state import IDLE, CleaningStates, Event, Phase
from storage.compaction.job import CleaningDone, CleaningFailed, CleaningJob
from storage.compaction.job_maker import CleanerSettings, cleaning_job, log_facts
from storage.directory.logs import Logs
from storage.disk.directory_health import offline_on_failure
from storage.errors import StorageError
from storage.log.log import Log

FAILURE_MEMORY_MS: Final = 60 * 60 * 1000
"""Time for which a log whose cleaning has failed comes after the others."""

log = structlog.get_logger(__name__)


class Cleaning:
    """A running cleaning of one log."""

    def __init__(self, local: Log, job: CleaningJob) -> None:
        self.log = local
        self.job = job
        self.on_abort: Callable[[], None] = lambda: None
        self._is_aborted = False

    @property
    def partition(self) -> TopicPartition:
        """Partition of the log."""
        return self.log.topic_partition

    @property
    def is_aborted(self) -> bool:
        """Whether the result is no longer wanted; the runner of the job should stop it."""
        return self._is_aborted or not self.log.config.is_compacted

    @property
    def has_lost_segments(self) -> bool:
        """Whether retention or DeleteRecords has deleted segments that the job names."""
        return self.log.segments[0].base_offset > self.job.segments[0].base_offset

    def abort(self) -> None:
        """Discard the result, and call `on_abort` the first time."""
        if not self._is_aborted:
            self._is_aborted = True
            self.on_abort()


class CleanerManager:
    """The cleanings of `logs`; the caller runs the jobs. `logs.cleaning` should be this object."""

    def __init__(
        self,
        logs: Logs,
        settings: CleanerSettings,
        first_undecided_offset: Callable[[TopicPartition], Offset | None],
    ) -> None:
        """`first_undecided_offset` returns the lower of high watermark and last stable offset.

        It returns None for a partition that this broker does not serve; such a log is not cleaned.
        """
        self._logs = logs
        self._settings = settings
        self._first_undecided_offset = first_undecided_offset
        self._states = CleaningStates()
        self._running: dict[TopicPartition, Cleaning] = {}
        self._uncleanable: dict[TopicPartition, Log] = {}
        # By partition: the time of the last failure, unless a cleaning has succeeded since.
        self._failed_ms: dict[TopicPartition, int] = {}

    def reconfigure(self, settings: CleanerSettings) -> None:
        """Use `settings` for all later jobs."""
        self._settings = settings

    @property
    def uncleanable(self) -> list[TopicPartition]:
        """Partitions with damage in the range that cleaning reads."""
        for partition, local in list(self._uncleanable.items()):
            if self._logs.get(partition) is not local:
                del self._uncleanable[partition]
        return list(self._uncleanable)

    def candidate(self, local: Log, now_ms: int) -> Candidate | None:
        """Return the range and sizes of a cleaning of a log, or None if it must not be cleaned now.

        Raises:
            StorageError: the times of a segment cannot be read.
        """
        partition = local.topic_partition
        undecided = self._first_undecided_offset(partition)
        if (
            not local.config.is_compacted
            or local.is_closed
            # The log dir is offline; or it is full, and cleaning must not use the little space.
            or local.health.refusal is not None
            or undecided is None
            or self._is_moving(partition)
            or self._states[partition] != IDLE
            or partition in self.uncleanable
        ):
            return None
        with offline_on_failure(local.health):
            facts = log_facts(local, undecided)
        found = weigh(facts, self._logs.checkpoints.cleaner_offset(partition), now_ms)
        failed_ms = self._failed_ms.get(partition, 0)
        is_recent = now_ms - failed_ms < FAILURE_MEMORY_MS
        return replace(found, failed_ms=failed_ms) if is_recent else found

    def start(self, chosen: Candidate, now_ms: int) -> Cleaning | None:
        """Start a cleaning; return None if the log has gone or become busy since the choice."""
        partition = chosen.partition
        local = self._logs.get(partition)
        if local is None:
            return None
        try:
            # The log may have been truncated or cleaned, or may have grown, since the choice.
            candidate = self.candidate(local, now_ms)
            if candidate is None or not candidate.is_due:
                return None
            local.upkeep.prepare_cleaning()
        except StorageError as error:
            log.warning("cleaning.failed", partition=str(partition), error=str(error))
            self.note_failure(partition, now_ms)
            return None
        self._states.on(Event.START, partition)
        cleaning = Cleaning(local, cleaning_job(local, candidate, self._settings, now_ms))
        self._running[partition] = cleaning
        log.info(
            "cleaning.started",
            partition=str(partition),
            first_dirty_offset=candidate.first_dirty_offset,
            first_uncleanable_offset=candidate.first_uncleanable_offset,
            dirty_ratio=round(candidate.dirty_ratio, 3),
        )
        return cleaning

    def _is_moving(self, partition: TopicPartition) -> bool:
        # The copy may have a record, and not yet the tombstone or the marker that ends it. It would
        # never get one that a cleaning drops from the original.
        return self._logs.futures.get(partition) is not None

    def finish(self, cleaning: Cleaning, end: CleaningDone | CleaningFailed) -> bool:
        """Record the end of a cleaning; return whether the caller must write the checkpoints."""
        partition = cleaning.partition
        self._states.on(Event.DONE, partition)
        del self._running[partition]
        if cleaning.is_aborted:
            log.info("cleaning.aborted", partition=str(partition))
            return False
        match end:
            case CleaningDone():
                self._failed_ms.pop(partition, None)
                self._logs.checkpoints.note_cleaner_offset(partition, Offset(end.end_offset))
                return True
            case CleaningFailed(is_damage=True):
                self.mark_uncleanable(cleaning.log, end.error)
            case CleaningFailed():
                log.warning("cleaning.failed", partition=str(partition), error=end.error)
        return False

    def note_failure(self, partition: TopicPartition, now_ms: int) -> None:
        """Prefer other logs for a while, because a cleaning of this one has failed."""
        recent = {
            each: failed_ms
            for each, failed_ms in self._failed_ms.items()
            if now_ms - failed_ms < FAILURE_MEMORY_MS
        }
        self._failed_ms = recent | {partition: now_ms}

    def mark_uncleanable(self, local: Log, error: str) -> None:
        """Exclude a damaged log from cleaning until it is recreated."""
        self._uncleanable[local.topic_partition] = local
        log.error("partition.uncleanable", partition=str(local.topic_partition), error=error)

    def pause(self, partition: TopicPartition) -> None:
        """Abort the cleaning of a partition and start none until `resume`."""
        state = self._states.on(Event.PAUSE, partition)
        if state.phase is Phase.ABORTED:
            self._running[partition].abort()

    def resume(self, partition: TopicPartition) -> None:
        """Undo one `pause`."""
        self._states.on(Event.RESUME, partition)

"""The histories that a healthy log may have, and the certainty that they leave (decision).

Records are missing from healthy logs because retention or DeleteRecords removed them, or because a
cleaner did: the replica's own, up to its checkpoint and, if the broker stopped before it wrote the
checkpoint, up to the active segment; or the cleaner of another replica, from which this one copied
the batches, at any offset. Only a rule that the topic is not compacted excludes cleaners.

A process that is killed leaves a truncation unfinished, and the indexes of the segments that it
recovered unfinished. The next start mends both.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from kafkawire.columns_loops import SoundBatch
from logcheck.finding import Damage, Finding, Report, Severity
from logcheck.replica_files import ReplicaFiles

METADATA_TOPIC: Final = "__cluster_metadata"
COMPACT: Final = "compact"
DELETE: Final = "delete"
POLICIES: Final = frozenset({COMPACT, DELETE})


class Zone(Enum):
    """The reasons for which a healthy log may lack a record."""

    GONE = "below the log start offset"
    CLEANED = "below the replica's own cleaner point"
    PERHAPS_CLEANED = "not known to be cleaned, and not known to be whole"
    UNCLEANED = "never cleaned, by a rule"


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The offsets and the rule that bound the healthy histories of one replica."""

    log_start: int = 0
    has_log_start: bool = False
    """Whether the checkpoint of log start offsets has an entry for the partition."""
    cleaner_point: int | None = None
    """The checkpoint of the replica's own cleaner; None if it has no entry for the partition."""
    cleanup_policy: str | None = None
    """The topic's policy by a rule, such as `compact,delete`; None without a rule."""
    was_stopped: bool = False
    """Whether the broker has stopped cleanly, so that nothing is unfinished."""
    was_cut: bool = False
    """Whether segments from before the log start still wait for their deletion."""
    recovery_point: int = 0
    """The offset up to which the log is on disk; a start after a crash reads the batches beyond."""
    recovered_from: int = 0
    """Base offset of the first segment that such a start reads, and indexes again."""
    first_base_offset: int = 0
    """The base offset of the first segment."""
    first_segment_end: int | None = None
    """The base offset of the second segment, if there is one."""
    active_base_offset: int = 0
    """The base offset of the last segment."""
    is_point_at_segment: bool = True
    """Whether a segment begins at the cleaner's point, where a cleaner usually ends."""
    committed_end: int = 0
    """The offset up to which records were committed, or deleted after that."""
    is_quorum_log: bool = False
    """Whether this is the metadata log of KRaft, with control records of its quorum."""

    @property
    def cleaned_until(self) -> int:
        """The offset from which a missing record needs an explanation."""
        return max(self.log_start, self.cleaner_point or 0)

    @property
    def may_be_cleaned(self) -> bool:
        """Whether a cleaner may have removed any record of this log."""
        # An entry of the cleaner contradicts the rule: the policy has changed since.
        return self.cleaner_point is not None or self._is_compacted is not False

    @property
    def _is_compacted(self) -> bool | None:
        return None if self.cleanup_policy is None else COMPACT in self.cleanup_policy

    @property
    def replayed_from(self) -> int:
        """The offset from which each producer's state follows from the batches.

        The snapshot at the first segment may be the replay of a cleaned log, which lacks batches.
        """
        return max(self.log_start, self.first_base_offset if self.may_be_cleaned else 0)

    def zone(self, offset: int) -> Zone:
        """Return why the record at `offset` may be missing."""
        if offset < self.log_start:
            return Zone.GONE
        if offset < (self.cleaner_point or 0):
            return Zone.CLEANED
        return Zone.PERHAPS_CLEANED if self.may_be_cleaned else Zone.UNCLEANED

    def missing(self, offset: int, *, is_compaction_unlikely: bool = False) -> Severity | None:
        """Return the certainty that the record at `offset` must not be missing.

        `is_compaction_unlikely` if the log has a record without a key below the offset, which a
        compacted topic does not accept, and no trace of a cleaner. None if nothing is wrong.
        """
        zone = self.zone(offset)
        if zone in (Zone.GONE, Zone.CLEANED):
            return None
        if zone is Zone.UNCLEANED:
            return Severity.ERROR
        has_changed = is_compaction_unlikely or self._is_compacted is False
        return Severity.WARNING if has_changed else Severity.NOTE

    def is_cleaned(self, offset: int, last_gap: int) -> Severity | None:
        """Return the certainty that the replica's cleaner has judged the record at `offset`.

        `last_gap` is the end of the last missing offsets below the cleaner's point. The cleaner of
        Kafka also raises its point to the log start, with no work done, and the log start itself
        may be stored later. None if it is not expected.
        """
        if not self.log_start <= offset < (self.cleaner_point or 0):
            return None
        if self.was_stopped or self.cleanup_policy == COMPACT or offset < last_gap:
            return Severity.ERROR
        return Severity.WARNING if self.is_point_at_segment else Severity.NOTE

    def begins_later(self, first_base_offset: int) -> Severity:
        """Return the certainty that this log must not begin after another replica of it.

        Retention and DeleteRecords move the log start; compaction alone does not.
        """
        if self.cleanup_policy != COMPACT or self.log_start > first_base_offset:
            return Severity.NOTE
        is_lost = self.has_log_start and self.log_start < first_base_offset
        return Severity.ERROR if is_lost else Severity.WARNING

    def begun_at(self, first_epoch_start: int | None) -> "History":
        """Return the history of a log whose first leader epoch begins at `first_epoch_start`.

        Retention and DeleteRecords cut the epochs at the new log start at once, and store the log
        start later. Below it, Kafka's cleaner may remove markers and entries before their records.
        """
        start = first_epoch_start or 0
        is_stored = self.was_stopped or self.cleanup_policy == COMPACT
        if is_stored or start <= max(self.first_base_offset, self.log_start):
            return self
        return replace(self, log_start=start)

    def is_recovered(self, base_offset: int) -> bool:
        """Whether a start after a crash indexes the segment at `base_offset` again."""
        return not self.was_stopped and base_offset >= self.recovered_from

    def is_flushed(self, offset: int) -> bool:
        """Whether the record at `offset` and all that belongs to it are certainly on disk."""
        return self.was_stopped or offset < self.recovery_point

    def epochs_from(self, offset: int) -> Severity | None:
        """Return the certainty that the leader epochs must not begin as late as `offset`.

        DeleteRecords cuts them at the new log start, whose own checkpoint is written later. The
        segments below are deleted in between: by Ottla at once, by Kafka after minutes. A death
        before that moves the log start back, and not the epochs.
        """
        if self.cleanup_policy == COMPACT:
            return Severity.WARNING
        is_in_first = self.first_segment_end is None or offset <= self.first_segment_end
        return None if is_in_first else Severity.NOTE

    def no_epochs(self, log_end_offset: int) -> Severity:
        """Return the certainty that a log to `log_end_offset` must have a leader epoch.

        It has none after a truncation to its log start, which is stored later than the epochs. The
        segments below are deleted in between, by Ottla at once and by Kafka after minutes. The last
        segment remains, which is empty if it begins there.
        """
        if self.was_stopped or self.cleanup_policy == COMPACT:
            return Severity.ERROR
        is_last = self.first_segment_end is None or log_end_offset <= self.active_base_offset
        return Severity.NOTE if is_last else Severity.WARNING

    def beyond(self, log_end_offset: int) -> Severity:
        """Return the certainty that no checkpoint may name an offset beyond the log's end.

        A truncation of records that were not committed may be unfinished. Committed records vanish
        with the power, above the recovery point, and while a follower empties its log because its
        leader has deleted all of it.
        """
        if log_end_offset < self.committed_end:
            return Severity.WARNING
        return Severity.ERROR if self.was_stopped else Severity.NOTE


def history_of(files: ReplicaFiles, cleanup_policy: str | None = None) -> History:
    """Return the history of a replica by its checkpoints and the rule for its topic."""
    return History(
        log_start=files.log_start or 0,
        has_log_start=files.log_start is not None,
        cleaner_point=files.cleaner_point,
        cleanup_policy=cleanup_policy,
        was_stopped=files.was_stopped,
        was_cut=files.was_cut,
        recovery_point=files.recovery_point or 0,
        recovered_from=files.recovered_from,
        first_base_offset=files.first_base_offset,
        first_segment_end=files.segments[1].base_offset if len(files.segments) > 1 else None,
        active_base_offset=files.active_base_offset,
        is_point_at_segment=files.cleaner_point in {each.base_offset for each in files.segments},
        committed_end=max(files.high_watermark or 0, files.log_start or 0),
        is_quorum_log=files.topic == METADATA_TOPIC,
    )


class MissingRecords:
    """The missing offsets and records of one log, judged by its history.

    Errors are reported at once. Notes and warnings are reported in the end, when all traces of
    cleaners are known, as one finding of each kind and severity with their number.
    """

    def __init__(self, history: History, report: Report) -> None:
        self._history = history
        self._report = report
        self.has_traces = False
        """Whether batches prove that a cleaner has run."""
        self._first_without_key: int | None = None
        self._counts: dict[tuple[Damage, bool], int] = {}
        self._firsts: dict[tuple[Damage, bool], Finding] = {}

    def on_batch(self, batch: SoundBatch) -> None:
        """Look for traces of a cleaner, and for a record without a key."""
        header = batch.header
        if header.record_count == 0 or header.delete_horizon_ms is not None:
            self.has_traces = True
        if self._first_without_key is None and batch.survey.without_key and not header.is_control:
            self._first_without_key = header.base_offset

    def add(self, finding: Finding, missing_offset: int) -> None:
        """Take the `finding` of records that are missing from `missing_offset`, or just there."""
        severity = self._history.missing(missing_offset)
        if severity is None:
            self.has_traces = True
        elif severity is Severity.ERROR:
            self._report(finding)
        else:
            kind = finding.damage, self.has_record_without_key(missing_offset)
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._firsts.setdefault(kind, finding)

    def has_record_without_key(self, end_offset: int) -> bool:
        """Whether a record below `end_offset` has no key; a compacted topic accepts none."""
        return self._first_without_key is not None and self._first_without_key < end_offset

    def conclude(self) -> None:
        """Report the records whose absence a cleaner may explain."""
        for kind, finding in self._firsts.items():
            is_unlikely = kind[1] and not self.has_traces
            severity = self._history.missing(
                self._history.cleaned_until, is_compaction_unlikely=is_unlikely
            )
            assert severity is not None
            counted = finding.counted(self._counts[kind] - 1)
            self._report(replace(counted, severity=severity))

"""Loading of a partition's directory into a log that can be served (edge).

After a clean shutdown only the end of the last segment is read. After a crash the segments from the
recovery point on are recovered. Source: Kafka's LogLoader.
"""

from collections.abc import Container
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import structlog

from kafkawire.ids import Offset
from storage.config.log_config import LogConfig
from storage.disk.layout import LEADER_EPOCH_CHECKPOINT
from storage.errors import CorruptLogError
from storage.log import epoch_checkpoint, leftover, recovery
from storage.log.leader_epochs import EpochEntry, LeaderEpochs
from storage.log.leftover import Found
from storage.log.segment_list import SegmentList
from storage.log.segment_split import split_overflowed
from storage.producers import producer_replay, producer_snapshots
from storage.producers.producer_state import ProducerState
from storage.segment.segment import Segment

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLog:
    """Content of a partition's directory."""

    segments: SegmentList
    epochs: LeaderEpochs
    stored_epochs: tuple[EpochEntry, ...]
    """Leader epochs in the checkpoint on disk."""
    producers: ProducerState
    snapshot_offset: Offset
    """Offset of the newest producer snapshot."""
    discarded: list[Path]
    """Obsolete files, which may be removed."""
    damage: list[CorruptLogError]
    """Damage that is not repaired."""
    log_start_offset: Offset
    log_end_offset: Offset
    recovery_point: Offset
    is_cut: bool
    """Whether the log ends below its recovery point, as a truncation or a damaged disk leave it."""
    is_clean: bool
    """Whether the files were left by a clean shutdown."""
    gap_offset: Offset | None
    """Where records are missing between two segments above the recovery point, if anywhere.

    Either a cleaning has dropped them, here or on the leader, or a loss of power.
    """


def load_log(
    directory: Path,
    config: LogConfig,
    *,
    recovery_point: Offset,
    log_start_offset: Offset,
    high_watermark: Offset | None = None,
    is_gapless: bool = False,
    was_clean: bool,
    now_ms: int,
) -> LoadedLog:
    """Load the log in `directory`; an empty directory becomes an empty log.

    With `is_gapless`, records that are missing between two segments above the recovery point were
    lost: recovery ends the log there. Otherwise it only notes the first such gap.

    Transactions that ended above `high_watermark`, if that is known, count as not yet committed.

    Raises:
        OSError: the disk failed.
        CorruptLogError: required bytes below the recovery point are damaged.
    """
    found = leftover.tidy(directory)
    if split_overflowed(directory, found.segments, config):
        found = leftover.tidy(directory)
    load = _Load(directory, config, found, recovery_point, now_ms)
    damage = load.check_indexes(was_clean=was_clean)
    load.open_transactions()
    is_whole = was_clean and load.resume_last()
    if not is_whole:
        load.recover(is_gapless=is_gapless)
    load.discard_below(log_start_offset)
    start, end = load.set_bounds(log_start_offset, config, now_ms)
    load.fit_epochs(start, end)
    producers = load.rebuild_producers(end, high_watermark, is_whole=is_whole)
    return LoadedLog(
        segments=SegmentList(load.segments),
        epochs=load.epochs,
        stored_epochs=load.stored_epochs,
        producers=producers,
        snapshot_offset=max(load.snapshots, default=Offset(0)),
        discarded=load.discarded,
        damage=damage,
        log_start_offset=start,
        log_end_offset=end,
        recovery_point=end if is_whole else Offset(min(recovery_point, end)),
        is_cut=end < recovery_point,
        is_clean=is_whole,
        gap_offset=load.gap_offset,
    )


class _Load:
    """The steps of one load, in the order of their calls."""

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        found: Found,
        recovery_point: Offset,
        now_ms: int,
    ) -> None:
        self.segments = [
            Segment(directory, each.base_offset, each.size_bytes, config, now_ms)
            for each in found.segments
        ]
        self.snapshots = found.snapshot_offsets
        self.epochs = epoch_checkpoint.read_epochs(directory / LEADER_EPOCH_CHECKPOINT)
        self.stored_epochs = self.epochs.entries
        self.discarded: list[Path] = []
        self.gap_offset: Offset | None = None
        self._directory = directory
        self._found = found.segments
        self._recovery_point = recovery_point
        # Base offsets of the segments whose transaction indexes are rebuilt: with the others, as in
        # Kafka, since a missing one may have had entries.
        self._reindexed = {each.base_offset for each in self._found if not each.has_indexes}

    def check_indexes(self, *, was_clean: bool) -> list[CorruptLogError]:
        """Rebuild missing indexes and, after a crash, wrong ones; return the damage found."""
        first = len(self.segments) if was_clean else self._first_to_recover()
        doubtful = None if was_clean else self._last_flushed()
        damage: list[CorruptLogError] = []
        for segment, each in zip(self.segments[:first], self._found, strict=False):
            if segment is doubtful or not each.has_indexes:
                damage += _check_indexes(segment, sample=segment is doubtful)
        return damage

    def open_transactions(self) -> None:
        """Open the transaction indexes; damaged ones are rebuilt later."""
        for segment, each in zip(self.segments, self._found, strict=True):
            try:
                if each.has_aborted:
                    segment.transactions.open()
            except CorruptLogError as error:
                self._reindexed.add(segment.base_offset)
                log.warning("index.damaged", path=str(error.path), error=str(error))

    def resume_last(self) -> bool:
        """Find the end of the log; return False if it does not look like after a clean shutdown."""
        try:
            if self.segments:
                self.segments[-1].resume()
        except CorruptLogError as error:
            # Recovery truncates the log there.
            log.error("log.damaged", path=str(error.path), error=str(error))
            return False
        return True

    def recover(self, *, is_gapless: bool) -> None:
        """Recover the segments from the recovery point on."""
        first = self._first_to_recover()
        trusted = self.segments[first].base_offset if self.segments else Offset(0)
        # Later snapshots are rebuilt: a truncation or their removal may not be on disk.
        self._keep_snapshots(trusted)
        self.snapshots = producer_snapshots.remove_damaged(self._directory, self.snapshots)
        self._reindexed |= {each.base_offset for each in self.segments[first:]}
        self.discarded += _recover(self.segments, self.epochs, first)
        slot = _first_gap(self.segments, first, self._recovery_point)
        if slot is not None:
            self.gap_offset = self.segments[slot].next_offset
        if slot is not None and is_gapless:
            _warn_of_cut(self.segments[slot], cut_bytes=0)
            reason = f"follows a gap at {self.gap_offset}"
            self.discarded += _discard(self.segments, slot + 1, reason)
            self.gap_offset = None

    def discard_below(self, log_start_offset: Offset) -> None:
        """Discard all segments if the log ends below its start."""
        if not self.segments or self.segments[-1].next_offset >= log_start_offset:
            return
        reason = f"ends below the log start offset {log_start_offset}"
        self.discarded += _discard(self.segments, 0, reason)
        self.epochs.clear()
        self.gap_offset = None
        # The producers' batches are gone, and a snapshot may have the name of the new segment.
        producer_snapshots.remove(self._directory, self.snapshots)
        self.snapshots = []

    def set_bounds(
        self, log_start_offset: Offset, config: LogConfig, now_ms: int
    ) -> tuple[Offset, Offset]:
        """Return the start and the end of the log; drop the snapshots outside."""
        if not self.segments:
            new = Segment.create(self._directory, log_start_offset, config, now_ms)
            self.segments.append(new)
        bases = [segment.base_offset for segment in self.segments]
        start, end = Offset(max(log_start_offset, bases[0])), self.segments[-1].next_offset
        self.snapshots = producer_snapshots.remove_stray(
            self._directory, self.snapshots, bases, end
        )
        self._reindexed &= set(bases)
        return start, end

    def fit_epochs(self, start: Offset, end: Offset) -> None:
        """Drop epochs outside the log, and rebuild those missing at its start from the batches.

        They are missing if the checkpoint is lost, or began at a log start offset that was not
        stored before a crash. A leader without them would overlook a follower's divergence there.
        """
        self.epochs.truncate_from_end(end)
        known = self.epochs.entries
        first_known = known[0].start_offset if known else end
        if start < first_known:
            segments = SegmentList(self.segments).from_offset(start)
            self.epochs = recovery.read_epochs(segments, first_known)
            for entry in known:
                self.epochs.assign(*entry)
        self.epochs.truncate_from_start(start)

    def rebuild_producers(
        self, end: Offset, high_watermark: Offset | None, *, is_whole: bool
    ) -> ProducerState:
        """Return the producers' state, from the newest usable snapshot and the batches behind it.

        Transactions that ended above `high_watermark`, if that is known, count as open.
        """
        producers = ProducerState()
        newest = max(self.snapshots, default=Offset(0))
        below = {each for each in self._reindexed if each < newest}
        if below:
            usable = self._usable_snapshots(min(below))
            producer_replay.reindex(self._directory, self.segments, usable, below)
        # A clean shutdown leaves a snapshot. Without one, no producer with state has written.
        if self.snapshots or self._reindexed or not is_whole:
            self._replay(producers, end, end, self._reindexed - below)
        if (
            high_watermark is not None
            and any(not entry.has_only_batches for entry in producers)
            and producer_replay.has_markers(
                SegmentList(self.segments).from_offset(high_watermark), high_watermark
            )
        ):
            self._replay(producers, high_watermark, end)
        return producers

    def _first_to_recover(self) -> int:
        """Return the slot of the segment that holds the recovery point."""
        left = SegmentList(self.segments).from_offset(self._recovery_point)
        return len(self.segments) - len(left)

    def _last_flushed(self) -> Segment | None:
        """Return the segment whose indexes may not be on disk, although all its batches are.

        When the log rolls after a flush, it closes the indexes of the segment that it has flushed.
        Its transaction index has not changed since.
        """
        first = self._first_to_recover()
        if not first or self.segments[first].base_offset != self._recovery_point:
            return None
        return self.segments[first - 1]

    def _keep_snapshots(self, last: Offset) -> None:
        producer_snapshots.remove(self._directory, (each for each in self.snapshots if each > last))
        self.snapshots = [each for each in self.snapshots if each <= last]

    def _replay(
        self, producers: ProducerState, last: Offset, end: Offset, reindexed: Container[Offset] = ()
    ) -> None:
        """Rebuild `producers` up to `end` from a snapshot at `last` or before."""
        usable = self._usable_snapshots(last)
        producer_replay.rebuild(producers, self._directory, self.segments, usable, end, reindexed)

    def _usable_snapshots(self, last: Offset) -> list[Offset]:
        """Return the offsets of the snapshots at `last` or before.

        The one at the log's first segment is usable always: only it has the producers below.
        """
        limit = max(last, self.segments[0].base_offset)
        return [each for each in self.snapshots if each <= limit]


def _check_indexes(segment: Segment, *, sample: bool) -> list[CorruptLogError]:
    """Rebuild indexes that are missing or, with `sample`, inconsistent with their log.

    Returns the damage that was found. Damage in the middle of a log is not repaired; the readable
    batches around it are served.
    """
    try:
        # Opening the file rebuilds indexes that are missing or end at the wrong position.
        _ = segment.file
        if sample and not recovery.are_indexes_right(segment):
            segment.mend_index()
    except CorruptLogError as error:
        return [error]
    finally:
        segment.release()
    return []


def _recover(segments: list[Segment], epochs: LeaderEpochs, first: int) -> list[Path]:
    """Recover the segments from slot `first` on; discard the ones behind the first bad byte."""
    for slot in range(first, len(segments)):
        segment = segments[slot]
        is_last = slot == len(segments) - 1
        limit = None if is_last else segments[slot + 1].base_offset
        cut_bytes = recovery.recover_segment(segment, epochs, limit)
        log.info(
            "segment.recovered",
            partition=segment.files.directory.name,
            base_offset=segment.base_offset,
            size_bytes=segment.size_bytes,
            segments_left=len(segments) - 1 - slot,
        )
        if cut_bytes:
            _warn_of_cut(segment, cut_bytes)
            return _discard(segments, slot + 1, f"follows a cut at {segment.next_offset}")
    return []


def _first_gap(segments: list[Segment], first: int, recovery_point: Offset) -> int | None:
    """Return the slot of the first segment from `first` on that the next one does not continue.

    A loss of power may end a segment between two batches, and keep the next one. A gap below the
    recovery point was there when the segments were synced.
    """
    for slot, (segment, following) in enumerate(pairwise(segments[first:]), first):
        if segment.next_offset < following.base_offset > recovery_point:
            return slot
    return None


def _warn_of_cut(segment: Segment, cut_bytes: int) -> None:
    log.warning(
        "log.cut",
        partition=segment.files.directory.name,
        base_offset=segment.base_offset,
        end_offset=segment.next_offset,
        cut_bytes=cut_bytes,
    )


def _discard(segments: list[Segment], first: int, reason: str) -> list[Path]:
    """Discard the segments from slot `first` on; return their files."""
    files: list[Path] = []
    if first < len(segments):
        recovery.disown_copy(segments[first].files.directory)
    for segment in segments[first:]:
        log.warning(
            "segment.discarded",
            partition=segment.files.directory.name,
            base_offset=segment.base_offset,
            size_bytes=segment.size_bytes,
            reason=reason,
        )
        files += segment.files.mark_deleted()
    del segments[first:]
    return files

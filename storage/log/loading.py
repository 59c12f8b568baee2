"""Loading of a partition's directory into a log that can be served (edge).

After a clean shutdown only the end of the last segment is read. After a crash the segments from the
recovery point on are recovered. Source: Kafka's LogLoader.
"""

from dataclasses import dataclass
from pathlib import Path

import structlog

from kafkawire.ids import Offset
from storage.config.log_config import LogConfig
from storage.disk.layout import LEADER_EPOCH_CHECKPOINT
from storage.errors import CorruptLogError
from storage.log import epoch_checkpoint, leftover, recovery
from storage.log.leader_epochs import EpochEntry, LeaderEpochs
from storage.log.leftover import FoundSegment
from storage.log.segment_list import SegmentList
from storage.log.segment_split import split_overflowed
from storage.producers import producer_replay, producer_snapshots
from storage.producers.producer_state import ProducerState
from storage.segment.segment import Segment

log = structlog.get_logger()


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


def load_log(
    directory: Path,
    config: LogConfig,
    *,
    recovery_point: Offset,
    log_start_offset: Offset,
    high_watermark: Offset | None = None,
    was_clean: bool,
    now_ms: int,
) -> LoadedLog:
    """Load the log in `directory`; an empty directory becomes an empty log.

    Transactions that ended above `high_watermark`, if that is known, count as not yet committed.

    Raises:
        OSError: the disk failed.
        CorruptLogError: required bytes below the recovery point are damaged.
    """
    found = leftover.tidy(directory)
    if split_overflowed(directory, found.segments, config):
        found = leftover.tidy(directory)
    segments = [
        Segment(directory, each.base_offset, each.size_bytes, config, now_ms)
        for each in found.segments
    ]
    if was_clean:
        damage = _check_indexes(
            [segments[n] for n, each in enumerate(found.segments) if not each.has_indexes]
        )
    else:
        below = segments[: _first_to_recover(segments, recovery_point)]
        damage = _check_indexes(below, sample=True)
    epochs = epoch_checkpoint.read_epochs(directory / LEADER_EPOCH_CHECKPOINT)
    stored_epochs = epochs.entries
    discarded: list[Path] = []
    # The transaction index is rebuilt with the others, as in Kafka: a missing one may have had
    # entries.
    reindexed = {each.base_offset for each in found.segments if not each.has_indexes}
    reindexed |= _open_transactions(segments, found.segments)
    is_whole = was_clean and _resume_last(segments)
    snapshots = found.snapshot_offsets
    if not is_whole:
        # Later snapshots are rebuilt: a truncation or their removal may not be on disk.
        trusted = (
            segments[_first_to_recover(segments, recovery_point)].base_offset if segments else 0
        )
        producer_snapshots.remove(directory, (each for each in snapshots if each > trusted))
        snapshots = [each for each in snapshots if each <= trusted]
        reindexed |= {each.base_offset for each in segments if each.base_offset >= trusted}
        discarded += _recover(segments, epochs, recovery_point)
    if segments and segments[-1].next_offset < log_start_offset:
        discarded += _discard(segments, 0, f"ends below the log start offset {log_start_offset}")
        epochs.clear()
        # The producers' batches are gone, and a snapshot may have the name of the new segment.
        producer_snapshots.remove(directory, snapshots)
        snapshots = []
    if not stored_epochs and recovery.have_epochs(segments):
        # The recovery above has added only the epochs above the recovery point.
        epochs = recovery.read_epochs(segments)
    if not segments:
        segments.append(Segment.create(directory, log_start_offset, config, now_ms))
    start = Offset(max(log_start_offset, segments[0].base_offset))
    end = segments[-1].next_offset
    epochs.truncate_from_end(end)
    epochs.truncate_from_start(start)
    bases = [segment.base_offset for segment in segments]
    snapshots = producer_snapshots.remove_stray(directory, snapshots, bases, end)
    reindexed &= set(bases)
    producers = ProducerState()
    # A clean shutdown leaves a snapshot. Without one, no producer with state has written.
    if snapshots or reindexed or not is_whole:
        usable = [each for each in snapshots if each <= min(reindexed, default=end)]
        producer_replay.rebuild(producers, directory, segments, usable, end, reindexed)
    if (
        high_watermark is not None
        and any(not entry.has_only_batches for entry in producers)
        and producer_replay.has_markers(
            SegmentList(segments).from_offset(high_watermark), high_watermark
        )
    ):
        usable = [each for each in snapshots if each <= high_watermark]
        producer_replay.rebuild(producers, directory, segments, usable, end)
    return LoadedLog(
        segments=SegmentList(segments),
        epochs=epochs,
        stored_epochs=stored_epochs,
        producers=producers,
        snapshot_offset=max(snapshots, default=Offset(0)),
        discarded=discarded,
        damage=damage,
        log_start_offset=start,
        log_end_offset=end,
        recovery_point=end if is_whole else Offset(min(recovery_point, end)),
    )


def _first_to_recover(segments: list[Segment], recovery_point: Offset) -> int:
    """Return the slot of the segment that holds the last offset below the recovery point.

    That segment counts even if the next one begins exactly at the recovery point: when the log
    rolls after a flush, it closes the indexes of the older segment, which may not be on disk yet.
    """
    slots = [slot for slot, each in enumerate(segments) if each.base_offset < recovery_point]
    return slots[-1] if slots else 0


def _open_transactions(segments: list[Segment], found: list[FoundSegment]) -> set[Offset]:
    """Open the transaction indexes; return the base offsets of segments with a damaged index."""
    damaged = set()
    for segment, each in zip(segments, found, strict=True):
        try:
            if each.has_aborted:
                segment.transactions.open()
        except CorruptLogError as error:
            damaged.add(segment.base_offset)
            log.warning("index.damaged", path=str(error.path), error=str(error))
    return damaged


def _check_indexes(segments: list[Segment], *, sample: bool = False) -> list[CorruptLogError]:
    """Rebuild indexes that are missing or, with `sample`, inconsistent with their log.

    Returns the damage that was found. Damage in the middle of a log is not repaired; the readable
    batches around it are served.
    """
    damage = []
    for segment in segments:
        try:
            # Opening the file rebuilds indexes that are missing or end at the wrong position.
            _ = segment.file
            if sample and not recovery.are_indexes_right(segment):
                segment.mend_index()
        except CorruptLogError as error:
            damage.append(error)
        segment.release()
    return damage


def _resume_last(segments: list[Segment]) -> bool:
    """Find the end of the log; return False if it does not look like after a clean shutdown."""
    try:
        if segments:
            segments[-1].resume()
    except CorruptLogError as error:
        # Recovery truncates the log there.
        log.error("log.damaged", path=str(error.path), error=str(error))
        return False
    return True


def _recover(segments: list[Segment], epochs: LeaderEpochs, recovery_point: Offset) -> list[Path]:
    """Recover the log above the recovery point; drop the segments behind the first bad byte."""
    for slot in range(_first_to_recover(segments, recovery_point), len(segments)):
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
            log.warning(
                "log.cut",
                partition=segment.files.directory.name,
                base_offset=segment.base_offset,
                end_offset=segment.next_offset,
                cut_bytes=cut_bytes,
            )
            return _discard(segments, slot + 1, f"follows a cut at {segment.next_offset}")
    return []


def _discard(segments: list[Segment], first: int, reason: str) -> list[Path]:
    """Discard the segments from slot `first` on; return their files."""
    files: list[Path] = []
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

"""The offsets of a log that a consumer may see, and its aborted transactions (edge).

A consumer sees records up to the high watermark; with `read_committed`, up to the last stable
offset, and none of an aborted transaction. A broker writes its high watermarks to a checkpoint
every few seconds and when it stops: the newest records of a running broker become visible here that
much later. Records above the checkpoint may still be replaced by another leader's.

The last stable offset is computed as a broker does after a start: from the newest producer snapshot
and the batches after it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from analytics.discovery import find_replicas, group_by_partition
from analytics.errors import DataLossError, RecordsUsageError
from analytics.file_store import OpenFile, read_bytes, states_in
from analytics.records.log_reader import MAX_LISTINGS, LogReader, list_log, seek
from analytics.records.offset_choice import Isolation
from kafkawire.errors import CorruptBatchError
from kafkawire.ids import TopicPartition
from kafkawire.records import read_control_batch
from logcheck.batch_walk import Batch, Walk
from logcheck.finding import Damage, Finding
from logcheck.producer_files import read_aborted
from logcheck.producer_snapshot_bytes import read_producer_snapshot
from logcheck.replica_files import ReplicaFiles, SegmentFiles
from logcheck.topic_id import read_topic_id
from logcheck.transaction_ranges import TransactionRanges

_MAX_OFFSET: Final = 2**63 - 1
_INDEX_SUFFIX: Final = ".txnindex"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLog:
    """The replica of a partition to read, and the offsets that are visible in it."""

    topic: str
    partition: int
    replica: ReplicaFiles
    start: int
    end: int
    """Exclusive."""
    log_end: int
    """The end of the files; records from `end` on are not visible yet."""
    sound_end: int
    """The end of the last sound batch: `log_end`, unless committed records beyond are damaged."""
    topic_id: str | None = None
    doubt: str | None = None
    """Why the end of a transaction is uncertain, if it is."""

    @property
    def directory(self) -> str:
        """The directory of the partition."""
        return self.replica.directory


def find_logs(
    places: Sequence[str],
    isolation: Isolation,
    accepts: Callable[[TopicPartition], bool] = lambda _: True,
    *,
    to_log_end: bool = False,
    may_lose_data: bool = False,
) -> dict[TopicPartition, PartitionLog]:
    """Return the log to read of each accepted partition in the log directories `places`.

    Raises:
        RecordsUsageError: a place cannot be listed, or a partition is not the same in all places.
        DataLossError: the files of a log change too often, or a marker may be damaged.
        OSError: a file cannot be read.
    """
    return {
        partition: choose_log(
            candidates, isolation, to_log_end=to_log_end, may_lose_data=may_lose_data
        )
        for partition, candidates in find_candidates(places, accepts).items()
    }


def find_candidates(
    places: Sequence[str], accepts: Callable[[TopicPartition], bool]
) -> dict[TopicPartition, list[ReplicaFiles]]:
    """Return the replicas of each accepted partition, in the order of the places.

    Raises:
        RecordsUsageError: a place cannot be listed.
    """
    replicas: list[ReplicaFiles] = []
    for place in places:
        try:
            replicas += find_replicas(place, lambda _: None)
        except OSError as error:
            raise RecordsUsageError(
                f"{place} cannot be listed: {error.strerror or error}; name a log directory"
            ) from error
    return {
        partition: candidates
        for partition, candidates in group_by_partition(replicas).items()
        if accepts(partition)
    }


def choose_log(
    candidates: Sequence[ReplicaFiles],
    isolation: Isolation,
    *,
    to_log_end: bool,
    may_lose_data: bool = False,
) -> PartitionLog:
    """Return the first of several replicas in which the most offsets are visible and sound.

    Of two with equally many, one whose transactions end certainly is preferred. With `to_log_end`,
    records above the high watermark are visible too. With `may_lose_data`, a transaction counts as
    ended if its marker may be damaged.

    Raises:
        RecordsUsageError: the replicas belong to different topics of the same name.
        DataLossError: the files of a log change too often, or a marker may be damaged.
        OSError: a file cannot be read.
    """
    logs = [
        _log_of(each, isolation, to_log_end=to_log_end, may_lose_data=may_lose_data)
        for each in candidates
    ]
    # A broker that was down has not deleted its replica of a topic that was created again.
    topics = {log.topic_id: log for log in logs if log.topic_id is not None}
    if len(topics) > 1:
        found = ", ".join(f"{log.directory} ({topic_id})" for topic_id, log in topics.items())
        raise RecordsUsageError(
            f"{logs[0].topic}-{logs[0].partition} has replicas with different topic ids, because "
            f"its topic was deleted and created again: {found}; read the directories of one topic"
        )
    chosen = max(logs, key=lambda log: (min(log.end, log.sound_end), log.doubt is None))
    if chosen.doubt is not None and not may_lose_data:
        raise DataLossError(chosen.doubt)
    return chosen


def _log_of(
    replica: ReplicaFiles, isolation: Isolation, *, to_log_end: bool, may_lose_data: bool
) -> PartitionLog:
    sound_end, is_damaged_beyond = _log_end(replica)
    log_end = sound_end
    if is_damaged_beyond:
        log_end = max(sound_end, replica.high_watermark or 0)
    start = max(replica.log_start or 0, replica.first_base_offset)
    end = log_end if to_log_end else min(replica.committed_end(log_end), log_end)
    doubt = None
    if isolation is Isolation.READ_COMMITTED and start < end:
        end, doubt = _last_stable_offset(replica, start, end, may_lose_data=may_lose_data)
    return PartitionLog(
        topic=replica.topic,
        partition=replica.partition,
        replica=replica,
        start=start,
        end=max(start, end),
        log_end=log_end,
        sound_end=sound_end,
        topic_id=read_topic_id(read_bytes, replica.metadata, lambda _: None),
        doubt=doubt,
    )


def _log_end(replica: ReplicaFiles) -> tuple[int, bool]:
    """Return the offset after the last sound batch, and whether damage follows.

    A batch that is being written is no damage.
    """
    for _ in range(MAX_LISTINGS):
        try:
            return _end_of_segments(replica.segments)
        except FileNotFoundError:
            # The cleaner, or retention, has renamed the file since the listing.
            replica = replace(replica, segments=list_log(replica.directory).segments)
    raise DataLossError(f"the files in {replica.directory} change too often to be read")


def _end_of_segments(segments: Sequence[SegmentFiles]) -> tuple[int, bool]:
    if not segments:
        return 0, False
    last = segments[-1]
    end, is_damaged_beyond = last.base_offset, False
    with OpenFile(last.log) as source:
        walk = Walk(source, last.log, lambda _: None, is_tail_allowed=True)
        for item in walk.items(seek(source, last, _MAX_OFFSET)):
            if isinstance(item, Batch):
                end, is_damaged_beyond = max(end, item.header.last_offset + 1), False
            elif not item.is_tail:
                is_damaged_beyond = True
    return end, is_damaged_beyond


def _last_stable_offset(
    replica: ReplicaFiles, start: int, end: int, *, may_lose_data: bool
) -> tuple[int, str | None]:
    """Return the first offset of the open transactions at `end`, or `end` without any.

    A transaction whose marker may lie in a damaged part is open, but ended with `may_lose_data`. If
    there is one, a sentence says so.
    """
    read_from, first_offsets = _open_at_snapshot(replica, start, end)
    unsure: dict[int, int] = {}
    """The first offset of each producer whose marker may lie in a damaged part."""
    reader = LogReader(replica.directory, read_from, end, may_lose_data=True, may_begin_later=True)
    lost_count = 0
    for piece in reader.pieces():
        if len(reader.lost) > lost_count:
            lost_count = len(reader.lost)
            unsure = first_offsets | unsure
            first_offsets = {}
        header = piece.batch.header
        if not header.is_transactional:
            continue
        if not header.is_control:
            if header.record_count:
                first_offsets.setdefault(header.producer_id, header.base_offset)
        elif is_end_of_transaction(piece.batch):
            first_offsets.pop(header.producer_id, None)
            unsure.pop(header.producer_id, None)
    if len(reader.lost) > lost_count:
        unsure = first_offsets | unsure
        first_offsets = {}
    # Other damage is reported by the read itself, if it is read at all.
    doubt = f"the end of a transaction may be {reader.lost[-1]}" if unsure else None
    still_open = first_offsets if may_lose_data else first_offsets | unsure
    return min([end, *still_open.values()]), doubt


def _open_at_snapshot(replica: ReplicaFiles, start: int, end: int) -> tuple[int, dict[int, int]]:
    """Return the offset of the newest sound snapshot, and the transactions open there."""
    for offset, file in reversed(replica.snapshots):
        if not start <= offset <= end:
            continue
        findings: list[Finding] = []
        try:
            entries = read_producer_snapshot(read_bytes(file), file, findings.append)
        except OSError:
            continue
        if not findings:
            return offset, {
                entry.producer_id: entry.transaction_first_offset
                for _, entry in entries
                if entry.transaction_first_offset >= 0
            }
    return start, {}


def is_end_of_transaction(batch: Batch) -> bool:
    """Whether the control batch ends a transaction; a cleaner may have emptied it since."""
    if not batch.header.record_count:
        return True
    try:
        return read_control_batch(batch.data) is not None
    except CorruptBatchError:
        return False


def read_aborted_ranges(directory: str) -> TransactionRanges:
    """Return the aborted transactions in the transaction indexes of a log.

    Read them before the log: a cleaner removes the entry of a transaction together with the records
    of the transaction.

    Raises:
        DataLossError: an index is damaged, so that aborted records are unknown.
        OSError: the directory cannot be listed.
    """
    for _ in range(MAX_LISTINGS):
        findings: list[Finding] = []
        before = _index_states(directory)
        aborted = read_aborted(list_log(directory), read_bytes, findings.append)
        if not findings:
            return TransactionRanges(aborted)
        # An entry does not fit the listing if a cleaner has joined segments meanwhile.
        is_unchanged = _index_states(directory) == before
        if is_unchanged and any(each.damage is not Damage.FILE_VANISHED for each in findings):
            raise DataLossError(f"damaged: {findings[0]}")
    raise DataLossError(f"the files in {directory} change too often to be read")


def _index_states(directory: str) -> dict[str, tuple[int, int]]:
    """Return the inodes and times of the transaction indexes, which a broker changes."""
    states = states_in(directory)
    return {name: state for name, state in states.items() if _INDEX_SUFFIX in name}

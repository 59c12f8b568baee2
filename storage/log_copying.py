"""Bringing a copy of a log, in another log dir, up to the original (edge).

The copy is a follower of the original: what the original has lost the copy loses, by leader epochs;
what the original has more is appended as it stands. Source: KIP-113, KIP-101.
"""

from typing import Final

from kafkawire.ids import Offset
from storage.log import Log
from storage.segment import FileRegion

CHUNK_BYTES: Final = 1024 * 1024


def align(copy: Log, original: Log) -> None:
    """Cut off the copy what the original does not hold; in the thread that owns both."""
    start, end = original.log_start_offset, _agreed_end(copy, original)
    if end < start or copy.log_end_offset < start:
        copy.truncate_fully_and_start_at(start)
        return
    copy.truncate_to(end)
    if copy.log_start_offset > start:
        # The original was emptied and begun anew further in front.
        copy.truncate_fully_and_start_at(start)
    copy.advance_log_start(start)


def _agreed_end(copy: Log, original: Log) -> Offset:
    """The offset up to which both hold the same batches, as far as leader epochs tell."""
    if copy.leader_epochs.latest < 0:
        return min(copy.log_end_offset, original.log_end_offset)
    known = {entry.epoch for entry in original.leader_epochs.entries}
    shared = [entry.epoch for entry in copy.leader_epochs.entries if entry.epoch in known]
    if not shared:
        return original.log_start_offset
    # What a leadership wrote is the same in both, as far as both have it.
    return min(log.end_offset_for(shared[-1])[1] for log in (copy, original))


def missing_chunk(copy: Log, original: Log) -> FileRegion:
    """Return the next batches that the copy lacks; empty when it lacks none."""
    return original.read(
        copy.log_end_offset,
        CHUNK_BYTES,
        end_offset=original.log_end_offset,
        min_one_batch=True,
    )


def append_chunk(copy: Log, chunk: FileRegion, now_ms: int) -> None:
    """Append what `missing_chunk` returned; the thread that does owns the copy meanwhile.

    Raises:
        CorruptBatchError: the original is damaged there.
        TruncatedRegionError: the original was cut since; align the copy, and go on.
        LogDirOfflineError, LogDirFullError: one of the disks failed, or is full.
    """
    copy.append_as_follower(memoryview(bytearray(chunk.read())), now_ms)

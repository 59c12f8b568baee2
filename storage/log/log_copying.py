"""Replication of a log to its copy in another log dir (edge).

The copy acts as a follower of the original. It truncates diverged batches by leader epoch, and
appends the batches that it lacks unchanged. Source: KIP-113, KIP-101.

An original that was cleaned while the log dir of its copy was offline no longer has the tombstones
and markers that end records of the copy. Nor may it after a truncation, even within one epoch, if
its leader has been cleaned since. The file `copied-to` in the original's directory names the copy
until a cleaning or a truncation begins, be it one by recovery, or a loss of power may have taken
records of the original; it is an addition of Ottla.
"""

import os
from contextlib import suppress
from typing import Final

from kafkawire.ids import Offset
from storage.disk.layout import COPIED_TO
from storage.log.log import Log
from storage.segment.segment import FileRegion

CHUNK_BYTES: Final = 1024 * 1024


def name_copy(copy: Log, original: Log) -> None:
    """Name `copy`, which is empty, in the directory of its original; see `may_continue`."""
    # If there is no space, the move begins again at the next start: no reason to refuse it.
    with suppress(OSError):
        (original.directory / COPIED_TO).write_bytes(_name_of(copy))


def may_continue(copy: Log, original: Log) -> bool:
    """Whether `copy` was made from `original`, and no cleaning or truncation has begun since."""
    try:
        return (original.directory / COPIED_TO).read_bytes() == _name_of(copy)
    except OSError:
        return False


def _name_of(copy: Log) -> bytes:
    return os.fsencode(copy.directory.name)


def align(copy: Log, original: Log) -> None:
    """Truncate batches of the copy that the original lacks; the owner of both calls this.

    The copy also ends at a gap, because the original may have the records that it lacks there, and
    at the lowest end of the original since the last call: it may have got fewer records again.
    """
    start = original.log_start_offset
    end = min(_agreed_end(copy, original), original.lowest_end_offset)
    if copy.gap_offset is not None:
        end = min(end, copy.gap_offset)
    if end < start or copy.log_end_offset < start:
        copy.truncate_fully_and_start_at(start)
    else:
        copy.truncate_to(end)
        if copy.log_start_offset > start:
            # The original was emptied, and restarted at a lower offset.
            copy.truncate_fully_and_start_at(start)
        copy.advance_log_start(start)
    original.lowest_end_offset = original.log_end_offset


def _agreed_end(copy: Log, original: Log) -> Offset:
    """Return the offset up to which both hold the same batches, according to leader epochs."""
    if copy.leader_epochs.latest < 0:
        return min(copy.log_end_offset, original.log_end_offset)
    known = {entry.epoch for entry in original.leader_epochs.entries}
    shared = [entry.epoch for entry in copy.leader_epochs.entries if entry.epoch in known]
    if not shared:
        return original.log_start_offset
    # Batches of the same leadership are identical in both logs.
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
    """Append the result of `missing_chunk`; the calling thread owns the copy meanwhile.

    Raises:
        CorruptBatchError: the original is damaged in the chunk.
        TruncatedRegionError: the original was truncated; align the copy and continue.
        LogDirOfflineError, LogDirFullError: one of the disks failed, or is full.
    """
    copy.append_as_follower(memoryview(bytearray(chunk.read())), now_ms)

"""The end of a log that its replica must still truncate, by the epochs of another log (decision).

A leader may append batches that no other replica fetches before a new leader is elected. Its
replica truncates them before it fetches again. Until then its log has a diverged end: it ends in an
older epoch than the other log, which has a later epoch at the same offsets. Nothing that its
checkpoints say to be committed can diverge.

A new leader may forget its oldest epochs, because retention or DeleteRecords raised its log start.
Its replica then truncates to the first epoch that the leader knows. Below it, the log keeps the
diverged batches until its own log start is stored. No reader can fetch them.

Source: KIP-101; LeaderEpochFileCache.endOffsetFor of Kafka 3.9.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Protocol

from kafkawire.sentinels import MAX_OFFSET
from logcheck.replica_files import ReplicaFiles


class EpochRun(Protocol):
    """Consecutive batches of one leader epoch; the offsets are inclusive."""

    epoch: int
    first_offset: int
    last_offset: int


Runs = Sequence[EpochRun]
"""The epochs of a log, in log order."""


def diverged_from(
    one: Runs, one_files: ReplicaFiles, other: Runs, other_files: ReplicaFiles
) -> int:
    """Return the offset from which the log of one replica has a diverged end.

    It is `MAX_OFFSET` if neither has one, or if a later difference needs another explanation.
    """
    if not one or not other or one[-1].epoch == other[-1].epoch:
        return MAX_OFFSET
    conflicts = [*_conflicts(one, other), *_conflicts(other, one)]
    older = one_files if one[-1].epoch < other[-1].epoch else other_files
    committed = _committed(older)
    if not conflicts or committed > min(conflicts):
        return MAX_OFFSET
    conflict = min(conflicts)
    return min(max(_common_end(one, other, conflict), committed), conflict)


def forgotten_until(
    one: Runs, one_files: ReplicaFiles, other: Runs, other_files: ReplicaFiles
) -> int:
    """Return the offset below which one of the logs may have diverged batches for good; else 0.

    It then has an older epoch where the other log has a newer one, and newer batches above.
    """
    return max(_forgotten(one, other, one_files), _forgotten(other, one, other_files))


def _forgotten(earlier: Runs, later: Runs, files: ReplicaFiles) -> int:
    """Return the end of the last batches of `earlier` that `later` has replaced."""
    end_offset = slot = 0
    if files.was_stopped:
        # A clean stop stores the log start.
        return end_offset
    for run, following in pairwise(earlier):
        while slot < len(later) and later[slot].last_offset < run.first_offset:
            slot += 1
        for other in islice(later, slot, None):
            if other.first_offset > run.last_offset:
                break
            if run.epoch < other.epoch <= following.epoch:
                end_offset = following.first_offset
    return end_offset


def _committed(files: ReplicaFiles) -> int:
    """Return the end of the offsets that the checkpoints prove to be committed (exclusive)."""
    return max(files.high_watermark or 0, files.cleaner_point or 0, files.log_start or 0)


def _conflicts(earlier: Runs, later: Runs) -> Iterator[int]:
    """Yield where runs of `later` begin at or below an offset with an older epoch in `earlier`."""
    slot, last_offset = 0, -1
    for run in later:
        while slot < len(earlier) and earlier[slot].epoch < run.epoch:
            last_offset = max(last_offset, earlier[slot].last_offset)
            slot += 1
        if run.first_offset <= last_offset:
            yield run.first_offset


def _common_end(one: Runs, other: Runs, conflict: int) -> int:
    """Return an offset up to which the logs agree for sure, if they agree up to their last common
    epoch before the `conflict`.
    """
    ends = _ends(one, conflict), _ends(other, conflict)
    common = ends[0].keys() & ends[1].keys()
    return min(end[max(common)] for end in ends) if common else 0


def _ends(runs: Iterable[EpochRun], conflict: int) -> dict[int, int]:
    return {run.epoch: run.last_offset + 1 for run in runs if run.first_offset < conflict}

"""Compares the replicas of one partition, batch by batch. Decision: no I/O.

Below all high watermarks the replicas hold the same batches, with equal leader epochs and equal
checksums, which stand for the bytes. The cleaned part is exempt, because each broker cleans its
replica independently.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from kafkawire.records import BatchHeader
from ottla.cli.logs.finding import Damage, Finding, Report


class ReplicaBatches:
    """Batches of a replica in columns, because a partition may have millions of batches."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.base_offsets = array("q")
        self._checksums = array("I")
        self._epochs = array("i")

    def add(self, header: BatchHeader) -> None:
        """Add the next batch of the log."""
        self.base_offsets.append(header.base_offset)
        self._checksums.append(header.crc)
        self._epochs.append(header.leader_epoch)

    def at(self, slot: int) -> tuple[int, int, int]:
        """Return base offset, checksum and leader epoch of a batch."""
        return self.base_offsets[slot], self._checksums[slot], self._epochs[slot]


def check_replicas(
    replicas: Sequence[ReplicaBatches], first_offset: int, end_offset: int, report: Report
) -> None:
    """Report the first difference of each pair of adjacent replicas.

    Compares the batches that begin in `first_offset`..`end_offset` (exclusive).
    """
    if first_offset >= end_offset:
        return
    for one, other in pairwise(replicas):
        difference = _first_difference(one, other, first_offset, end_offset)
        if difference is not None:
            here, there = difference
            text = f"{_describe(here)}, but {_describe(there)} in {one.file}"
            offset = min(batch[0] for batch in (here, there) if batch is not None)
            report(
                Finding(
                    damage=Damage.REPLICAS_DIFFER,
                    file=other.file,
                    position=0,
                    offset=offset,
                    text=text,
                )
            )


Batch = tuple[int, int, int]


def _first_difference(
    one: ReplicaBatches, other: ReplicaBatches, first_offset: int, end_offset: int
) -> tuple[Batch | None, Batch | None] | None:
    """Return the first pair of unequal batches, that of `other` first."""
    slots = [bisect_left(each.base_offsets, first_offset) for each in (one, other)]
    ends = [bisect_left(each.base_offsets, end_offset) for each in (one, other)]
    count = min(end - slot for slot, end in zip(slots, ends, strict=True))
    for step in range(count):
        left, right = one.at(slots[0] + step), other.at(slots[1] + step)
        if left != right:
            return right, left
    rest = [slot + count < end for slot, end in zip(slots, ends, strict=True)]
    if not any(rest):
        return None
    return (
        other.at(slots[1] + count) if rest[1] else None,
        one.at(slots[0] + count) if rest[0] else None,
    )


def _describe(batch: Batch | None) -> str:
    if batch is None:
        return "no further batch"
    return f"a batch at {batch[0]} with checksum {batch[1]:#010x} and epoch {batch[2]}"

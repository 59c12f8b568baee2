"""Decision: S4 and S11, batches that must be the same in two logs, byte by byte.

A digest keeps of each batch what tells it apart: offsets, epoch, checksum, size. Equal checksums of
equally long batches with equal offsets are taken for equal bytes; a CRC is no proof against an
attacker, but nothing here defends against one.
"""

from array import array
from bisect import bisect_left
from dataclasses import dataclass

from analytics.batch_walk import SoundBatch
from analytics.finding import Check, Finding, Report


@dataclass(frozen=True, slots=True)
class BatchId:
    """One batch in a digest."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    size_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.base_offset}..{self.last_offset} of epoch {self.leader_epoch}, "
            f"{self.size_bytes} bytes, checksum {self.crc:#010x}"
        )


class BatchDigest:
    """An observer that keeps every batch from one offset on, in flat columns."""

    def __init__(self, from_offset: int) -> None:
        self._from_offset = from_offset
        self._rows = array("q")
        self._positions = array("q")
        self._base_offsets = array("q")
        self._files: list[tuple[int, str]] = []

    def on_batch(self, batch: SoundBatch) -> None:
        """See `log_view.Observer`."""
        header = batch.header
        if header.base_offset < self._from_offset:
            return
        if not self._files or self._files[-1][1] != batch.file:
            self._files.append((len(self._base_offsets), batch.file))
        self._base_offsets.append(header.base_offset)
        self._positions.append(batch.position)
        self._rows.extend((header.last_offset, header.leader_epoch, header.crc, header.size_bytes))

    def __len__(self) -> int:
        return len(self._base_offsets)

    def batch(self, slot: int) -> BatchId:
        """The batch at `slot`, in the order of the log."""
        return BatchId(self._base_offsets[slot], *self._rows[4 * slot : 4 * slot + 4])

    def place(self, slot: int) -> tuple[str, int]:
        """The file and the position of the batch at `slot`."""
        file = next(name for first, name in reversed(self._files) if first <= slot)
        return file, self._positions[slot]

    def slot_from(self, offset: int) -> int:
        """The first slot whose batch begins at `offset` or behind it."""
        return bisect_left(self._base_offsets, offset)


def compare_digests(
    check: Check,
    what: str,
    expected: BatchDigest,
    found: BatchDigest,
    start_offset: int,
    end_offset: int,
    report: Report,
) -> None:
    """Report each batch that begins in the range (end exclusive) and is not the same in both."""
    first, second = expected.slot_from(start_offset), found.slot_from(start_offset)
    first_end, second_end = expected.slot_from(end_offset), found.slot_from(end_offset)

    def find(own: int | None, other: int | None) -> None:
        file, position = (
            found.place(own) if own is not None else found.place(min(second, len(found) - 1))
        )
        offset = found.batch(own).base_offset if own is not None else None
        if other is not None and offset is None:
            offset = expected.batch(other).base_offset
        wanted = "no batch here" if other is None else f"batch {expected.batch(other)}"
        have = "none" if own is None else f"batch {found.batch(own)}"
        report(
            Finding(
                check=check,
                what=what,
                file=file,
                position=position,
                offset=offset,
                expected=wanted,
                found=have,
            )
        )

    while first < first_end or second < second_end:
        one = expected.batch(first) if first < first_end else None
        two = found.batch(second) if second < second_end else None
        if one is not None and two is not None and one.base_offset == two.base_offset:
            if one != two:
                find(second, first)
            first, second = first + 1, second + 1
        elif two is None or (one is not None and one.base_offset < two.base_offset):
            if len(found):
                find(None, first)
            first += 1
        else:
            find(second, None)
            second += 1

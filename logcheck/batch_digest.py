"""Decision: S4 and S11, batches that must be equal in two logs, byte by byte.

A digest keeps the identity of each batch: offsets, epoch, checksum and size. Two batches with the
same identity count as equal bytes. A CRC proves nothing against an attacker, but the audit does
not defend against attackers.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kafkawire.columns_loops import SoundBatch
from kafkawire.records import BatchHeader
from logcheck.finding import Check, Damage, Finding, Report, Severity

_COLUMNS: Final = 6


class BatchId(NamedTuple):
    """The identity of one batch."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    size_bytes: int
    record_count: int
    has_horizon: int
    """1 if a cleaner has given the batch a delete horizon, else 0."""

    def __str__(self) -> str:
        return (
            f"{self.base_offset}..{self.last_offset} of epoch {self.leader_epoch}, "
            f"{self.size_bytes} bytes, checksum {self.crc:#010x}"
        )


class BatchDigest:
    """An observer that keeps the identity of every batch from an offset, in flat columns."""

    def __init__(self, from_offset: int) -> None:
        self.cleaned_until = 0
        """Offset after the last trace of a cleaner: missing offsets or records, or a horizon."""
        self._from_offset = from_offset
        self._next_offset: int | None = None
        self._rows = array("q")
        self._positions = array("q")
        self._base_offsets = array("q")
        self._files: list[tuple[int, str]] = []

    def on_batch(self, batch: SoundBatch) -> None:
        """See `log_view.Observer`."""
        header = batch.header
        if header.base_offset < self._from_offset:
            return
        self._look_for_cleaner(header)
        if not self._files or self._files[-1][1] != batch.file:
            self._files.append((len(self._base_offsets), batch.file))
        self._base_offsets.append(header.base_offset)
        self._positions.append(batch.position)
        self._rows.extend(
            (
                header.last_offset,
                header.leader_epoch,
                header.crc,
                header.size_bytes,
                header.record_count,
                header.delete_horizon_ms is not None,
            )
        )

    def _look_for_cleaner(self, header: BatchHeader) -> None:
        if self._next_offset is not None and header.base_offset > self._next_offset:
            self.cleaned_until = header.base_offset
        self._next_offset = header.last_offset + 1
        is_short = header.record_count <= header.last_offset - header.base_offset
        if is_short or header.delete_horizon_ms is not None:
            self.cleaned_until = self._next_offset

    def __len__(self) -> int:
        return len(self._base_offsets)

    def batch(self, slot: int) -> BatchId:
        """Return the batch at `slot`, in log order."""
        row = self._rows[_COLUMNS * slot : _COLUMNS * (slot + 1)]
        return BatchId(self._base_offsets[slot], *row)

    def place(self, slot: int) -> tuple[str, int]:
        """Return the file and position of the batch at `slot`, or of the last batch."""
        if not self._base_offsets:
            return "", 0
        slot = min(slot, len(self._base_offsets) - 1)
        number = bisect_right(self._files, slot, key=lambda each: each[0]) - 1
        return self._files[number][1], self._positions[slot]

    def slot_from(self, offset: int) -> int:
        """Return the first slot whose batch begins at or above `offset`."""
        return bisect_left(self._base_offsets, offset)


IsDamaged = Callable[[int], bool]


class Difference(NamedTuple):
    """One batch that differs between two digests; None in a digest that lacks it."""

    before: BatchId | None
    after: BatchId | None
    file: str
    position: int

    @property
    def offset(self) -> int:
        """The base offset of the batch."""
        batch = self.after or self.before
        assert batch is not None
        return batch.base_offset

    @property
    def is_new_horizon(self) -> bool:
        """Whether a cleaner has merely given the batch a delete horizon."""
        before, after = self.before, self.after
        return (
            before is not None
            and after is not None
            and after.has_horizon == 1
            and after.last_offset == before.last_offset
            and after.record_count == before.record_count
        )

    @property
    def is_removal(self) -> bool:
        """Whether records of the batch are missing, perhaps all, and none was added."""
        before, after = self.before, self.after
        return before is not None and (
            after is None
            or (
                after.last_offset == before.last_offset and after.record_count < before.record_count
            )
        )

    def finding(self, check: Check, damage: Damage, severity: Severity = Severity.ERROR) -> Finding:
        """Return the difference as a finding."""
        return Finding(
            check=check,
            damage=damage,
            file=self.file,
            position=self.position,
            offset=self.offset,
            expected="no batch here" if self.before is None else f"batch {self.before}",
            found="none" if self.after is None else f"batch {self.after}",
            severity=severity,
        )


def find_differences(
    expected: BatchDigest, found: BatchDigest, start_offset: int, end_offset: int
) -> Iterator[Difference]:
    """Yield each batch that begins in the range (end exclusive) and differs between the digests."""
    first, second = expected.slot_from(start_offset), found.slot_from(start_offset)
    first_end, second_end = expected.slot_from(end_offset), found.slot_from(end_offset)
    while first < first_end or second < second_end:
        before = expected.batch(first) if first < first_end else None
        after = found.batch(second) if second < second_end else None
        if after is None or (before is not None and before.base_offset < after.base_offset):
            yield Difference(before, None, *found.place(second))
            first += 1
        elif before is None or after.base_offset < before.base_offset:
            yield Difference(None, after, *found.place(second))
            second += 1
        else:
            if before != after:
                yield Difference(before, after, *found.place(second))
            first, second = first + 1, second + 1


def compare_digests(
    check: Check,
    damage: Damage,
    expected: BatchDigest,
    found: BatchDigest,
    is_damaged: IsDamaged,
    start_offset: int,
    end_offset: int,
    report: Report,
) -> None:
    """Report each batch of the range that differs and does not lie in a damaged part."""
    for difference in find_differences(expected, found, start_offset, end_offset):
        if not is_damaged(difference.offset):
            report(difference.finding(check, damage))


def compare_dirty(
    expected: BatchDigest,
    found: BatchDigest,
    is_damaged: IsDamaged,
    start_offset: int,
    end_offset: int,
    report: Report,
) -> bool:
    """Report differing batches between the cleaner's point and the active segment.

    A cleaner may have passed its checkpoint, if the broker stopped or the copy was taken before it
    wrote the checkpoint: a batch that merely lacks records is then a warning. A batch with only a
    new delete horizon lies in a partly cleaned segment. Return whether there was a warning.
    """
    is_cleaned_further = False
    for difference in find_differences(expected, found, start_offset, end_offset):
        if difference.is_new_horizon or is_damaged(difference.offset):
            continue
        if difference.is_removal:
            is_cleaned_further = True
            damage, severity = Damage.CLEANED_BEYOND_CHECKPOINT, Severity.WARNING
        else:
            damage, severity = Damage.REWRITTEN_BATCH, Severity.ERROR
        report(difference.finding(Check.UNCLEANABLE, damage, severity))
    return is_cleaned_further

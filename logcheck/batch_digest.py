"""Decision: S4 and S11, batches that must be equal in two logs, byte by byte.

A digest keeps the identity of each batch: offsets, epoch, checksum and size. Two batches with the
same identity count as equal bytes. A CRC proves nothing against an attacker, but the audit does
not defend against attackers.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace
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
        file = next(name for first, name in reversed(self._files) if first <= slot)
        return file, self._positions[slot]

    def slot_from(self, offset: int) -> int:
        """Return the first slot whose batch begins at or above `offset`."""
        return bisect_left(self._base_offsets, offset)


Difference = tuple[int | None, int | None]
"""Slots of a batch in the expected and in the found digest; None if the digest lacks it."""

IsDamaged = Callable[[int], bool]


def find_differences(
    expected: BatchDigest, found: BatchDigest, start_offset: int, end_offset: int
) -> Iterator[Difference]:
    """Yield each batch that begins in the range (end exclusive) and differs between the digests."""
    first, second = expected.slot_from(start_offset), found.slot_from(start_offset)
    first_end, second_end = expected.slot_from(end_offset), found.slot_from(end_offset)
    while first < first_end or second < second_end:
        one = expected.batch(first) if first < first_end else None
        two = found.batch(second) if second < second_end else None
        if one is not None and two is not None and one.base_offset == two.base_offset:
            if one != two:
                yield first, second
            first, second = first + 1, second + 1
        elif two is None or (one is not None and one.base_offset < two.base_offset):
            yield first, None
            first += 1
        else:
            yield None, second
            second += 1


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
    for one, two in find_differences(expected, found, start_offset, end_offset):
        finding = _difference(check, damage, expected, found, one, two)
        if not is_damaged(finding.offset or 0):
            report(finding)


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
    for one, two in find_differences(expected, found, start_offset, end_offset):
        before = expected.batch(one) if one is not None else None
        after = found.batch(two) if two is not None else None
        is_same_range = before is not None and (
            after is None or after.last_offset == before.last_offset
        )
        if after is not None and before is not None and _only_got_horizon(before, after):
            continue
        lacks = after is None or (before is not None and after.record_count < before.record_count)
        damage = (
            Damage.CLEANED_BEYOND_CHECKPOINT if lacks and is_same_range else Damage.REWRITTEN_BATCH
        )
        finding = _difference(Check.UNCLEANABLE, damage, expected, found, one, two)
        if is_damaged(finding.offset or 0):
            continue
        if damage is Damage.REWRITTEN_BATCH:
            report(finding)
        else:
            is_cleaned_further = True
            report(replace(finding, severity=Severity.WARNING))
    return is_cleaned_further


def _only_got_horizon(before: BatchId, after: BatchId) -> bool:
    return (
        after.has_horizon == 1
        and after.last_offset == before.last_offset
        and after.record_count == before.record_count
    )


def _difference(
    check: Check,
    damage: Damage,
    expected: BatchDigest,
    found: BatchDigest,
    one: int | None,
    two: int | None,
) -> Finding:
    before = expected.batch(one) if one is not None else None
    after = found.batch(two) if two is not None else None
    offset = after.base_offset if after is not None else before.base_offset if before else 0
    file, position = found.place(two if two is not None else found.slot_from(offset))
    return Finding(
        check=check,
        damage=damage,
        file=file,
        position=position,
        offset=offset,
        expected="no batch here" if before is None else f"batch {before}",
        found="none" if after is None else f"batch {after}",
    )

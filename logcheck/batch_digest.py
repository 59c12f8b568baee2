"""S4 and S11: batches that must be equal in two logs, byte by byte (decision).

A digest keeps the identity of each batch: offsets, epoch, checksum and size. Two batches with the
same identity count as equal bytes. A CRC proves nothing against an attacker, but the audit does
not defend against attackers.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from kafkawire.columns_loops import SoundBatch
from kafkawire.records import LOG_OVERHEAD_BYTES
from kafkawire.records_header import DELETE_HORIZON_BIT, LOG_APPEND_TIME_BIT
from logcheck.finding import Check, Damage, Finding, Severity
from logcheck.log_view import RunObserver

_COLUMNS: Final = 6
_CODEC_BITS: Final = 0b111
_RUN_LENGTH: Final = 1024
"""Number of batches that are compared at once; nearly all of them are equal."""


class BatchId(NamedTuple):
    """The identity of one batch."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    size_bytes: int
    record_count: int
    attributes: int

    @property
    def has_horizon(self) -> bool:
        """Whether a cleaner has given the batch a delete horizon."""
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def is_whole(self) -> bool:
        """Whether no cleaner has rewritten the batch."""
        is_full = self.record_count == self.last_offset - self.base_offset + 1
        return is_full and not self.has_horizon

    def __str__(self) -> str:
        return (
            f"{self.base_offset}..{self.last_offset} of epoch {self.leader_epoch}, "
            f"{self.size_bytes} bytes, checksum {self.crc:#010x}"
        )


class BatchDigest(RunObserver):
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

    def on_run(self, batches: Sequence[SoundBatch]) -> None:
        """See `log_view.RunObserver`."""
        next_offset, from_offset = self._next_offset, self._from_offset
        if batches[-1].header.base_offset < from_offset:
            return
        rows, positions, base_offsets = list[int](), list[int](), list[int]()
        for file, position, header, _, _, _ in batches:
            base_offset, length, epoch, _, crc, attributes, delta, _, _, _, _, _, count = header
            if base_offset < from_offset:
                continue
            if next_offset is not None and base_offset > next_offset:
                self.cleaned_until = base_offset
            last_offset = base_offset + delta
            next_offset = last_offset + 1
            if attributes & DELETE_HORIZON_BIT or count <= delta:
                self.cleaned_until = next_offset
            if not self._files or self._files[-1][1] != file:
                self._files.append((len(self._base_offsets) + len(base_offsets), file))
            base_offsets.append(base_offset)
            positions.append(position)
            size_bytes = LOG_OVERHEAD_BYTES + length
            rows += last_offset, epoch, crc, size_bytes, count, attributes
        self._next_offset = next_offset
        self._rows.fromlist(rows)
        self._positions.fromlist(positions)
        self._base_offsets.fromlist(base_offsets)

    def run(self, slot: int, count: int) -> tuple["array[int]", "array[int]"]:
        """Return the columns of `count` batches from `slot` on, which are equal for equal ones."""
        rows = self._rows[_COLUMNS * slot : _COLUMNS * (slot + count)]
        return self._base_offsets[slot : slot + count], rows

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
    def last_offset(self) -> int:
        """The last offset of the batch."""
        batch = self.after or self.before
        assert batch is not None
        return batch.last_offset

    @property
    def is_lacking_after(self) -> bool:
        """Whether the second digest lacks records or was cleaned, else the first one."""
        return self.before is not None and (self.after is None or not self.after.is_whole)

    @property
    def may_be_cleaning(self) -> bool:
        """Whether the cleaners of the two logs may have made the difference.

        A cleaner keeps the offsets, the epoch, the codec and the type of timestamps of a batch, and
        rewrites it only to remove records or to set a delete horizon.
        """
        before, after = self.before, self.after
        if before is None or after is None:
            return True
        is_same = before.last_offset == after.last_offset
        is_same = is_same and before.leader_epoch == after.leader_epoch
        # An empty batch has no codec.
        is_empty = not (before.record_count and after.record_count)
        kept_bits = LOG_APPEND_TIME_BIT if is_empty else LOG_APPEND_TIME_BIT | _CODEC_BITS
        is_same = is_same and not (before.attributes ^ after.attributes) & kept_bits
        return is_same and not (before.is_whole and after.is_whole)

    @property
    def is_new_horizon(self) -> bool:
        """Whether a cleaner has merely given the batch a delete horizon."""
        before, after = self.before, self.after
        return (
            before is not None
            and after is not None
            and after.has_horizon
            and after.last_offset == before.last_offset
            and after.record_count == before.record_count
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
    next_run = first
    while first < first_end or second < second_end:
        if first >= next_run:
            count = min(_RUN_LENGTH, first_end - first, second_end - second)
            if count > 0 and expected.run(first, count) == found.run(second, count):
                first, second = first + count, second + count
                continue
            next_run = first + _RUN_LENGTH
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

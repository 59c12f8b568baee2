"""S12 and S13: batches keep their producer and markers their contents in every replica (decision).

A cleaner removes records and whole batches. It never changes the producer fields of a batch, and
it may empty a marker but not change it. So the batches at the same offset of two logs agree.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from kafkawire.columns_loops import SoundBatch
from kafkawire.records import ControlType
from kafkawire.sentinels import MAX_OFFSET
from logcheck.batch_digest import IsDamaged
from logcheck.finding import Check, Damage, Finder, Report
from logcheck.log_view import LogView, ProducerObserver
from logcheck.marker import MarkerReading
from logcheck.transaction_ranges import Transaction

_ROW: Final = Struct(">qhiBbi")
_PRODUCER_BITS: Final = 0x30
_TRANSACTIONAL_BIT: Final = 0x10
_NO_MARKER: Final = -1


class ProducerFields(NamedTuple):
    """The fields that a cleaner must not change in a batch with a producer."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    bits: int
    """The transactional and the control bit of the attributes."""
    marker_type: int
    """-1 for data, and for a control batch without a readable marker."""
    coordinator_epoch: int

    def __str__(self) -> str:
        kind = {0: "an abort", 1: "a commit"}.get(self.marker_type, f"bits {self.bits:#x}")
        return (
            f"producer {self.producer_id}, epoch {self.producer_epoch}, sequence "
            f"{self.base_sequence}, {kind} of coordinator epoch {self.coordinator_epoch}"
        )

    @property
    def is_control(self) -> bool:
        """Whether this is a control batch."""
        return self.bits == _PRODUCER_BITS

    def agrees_with(self, other: "ProducerFields") -> bool:
        """Whether healthy logs can have both at one offset: a marker may be emptied."""
        if self == other:
            return True
        is_emptied = self.is_control and _NO_MARKER in (self.marker_type, other.marker_type)
        return is_emptied and self[:4] == other[:4]


class ProducerBatches(ProducerObserver):
    """An observer that keeps the producer fields of each batch; 28 bytes for each."""

    def __init__(self) -> None:
        self.base_offsets = array("q")
        self._rows = bytearray()

    def on_producer_batch(self, batch: SoundBatch, reading: MarkerReading) -> None:
        """See `log_view.ProducerObserver`."""
        marker = reading.marker
        kind, coordinator_epoch = (_NO_MARKER, -1) if marker is None else marker
        base_offset, _, _, _, _, attributes, _, _, _, number, epoch, sequence, _ = batch.header
        self.base_offsets.append(base_offset)
        bits = attributes & _PRODUCER_BITS
        self._rows += _ROW.pack(number, epoch, sequence, bits, kind, coordinator_epoch)

    def undecided(self, end_offset: int) -> Callable[[int], bool]:
        """Return whether a batch is in a transaction without a marker below `end_offset`.

        The function takes the base offset of the batch.
        """
        first_offsets = {
            producer_id: first_offset for producer_id, first_offset, _ in self.open(end_offset)
        }

        def is_undecided(base_offset: int) -> bool:
            slot = bisect_left(self.base_offsets, base_offset)
            if slot == len(self.base_offsets) or self.base_offsets[slot] != base_offset:
                return False
            fields = self.fields(slot)
            first_offset = first_offsets.get(fields.producer_id)
            is_open = first_offset is not None and first_offset <= base_offset
            return is_open and fields.bits == _TRANSACTIONAL_BIT

        return is_undecided

    def aborted(self) -> Iterator[Transaction]:
        """Yield the transactions of which the log has batches and the marker of an abort."""
        first_offsets: dict[int, int] = {}
        rows = _ROW.iter_unpack(self._rows)
        for offset, (producer_id, _, _, bits, kind, _) in zip(self.base_offsets, rows, strict=True):
            if bits == _TRANSACTIONAL_BIT:
                first_offsets.setdefault(producer_id, offset)
            elif bits == _PRODUCER_BITS:
                first_offset = first_offsets.pop(producer_id, None)
                if first_offset is not None and kind == ControlType.ABORT:
                    yield producer_id, first_offset, offset

    def open(self, end_offset: int = MAX_OFFSET) -> Iterator[Transaction]:
        """Yield the transactions without a marker below `end_offset`; they have no end."""
        first_offsets: dict[int, int] = {}
        rows = _ROW.iter_unpack(self._rows)
        for offset, (producer_id, _, _, bits, _, _) in zip(self.base_offsets, rows, strict=True):
            if bits == _PRODUCER_BITS:
                if offset < end_offset:
                    first_offsets.pop(producer_id, None)
            elif bits == _TRANSACTIONAL_BIT:
                first_offsets.setdefault(producer_id, offset)
        for producer_id, first_offset in first_offsets.items():
            yield producer_id, first_offset, MAX_OFFSET

    def fields(self, slot: int) -> ProducerFields:
        """Return the fields of the batch at `slot`, in log order."""
        return ProducerFields(*_ROW.unpack_from(self._rows, slot * _ROW.size))


def compare_producers(
    expected: ProducerBatches,
    expected_log: LogView,
    found: ProducerBatches,
    log: LogView,
    end_offset: int,
    is_damaged: IsDamaged,
    report: Report,
) -> None:
    """Report the batches below `end_offset` with another producer than in the other log."""
    first, second = 0, 0
    theirs, ours = expected.base_offsets, found.base_offsets
    find = _Difference(log, is_damaged, report).find
    while True:
        before = theirs[first] if first < len(theirs) else end_offset
        after = ours[second] if second < len(ours) else end_offset
        offset = min(before, after)
        if offset >= end_offset:
            return
        if before == after:
            if not found.fields(second).agrees_with(expected.fields(first)):
                find(offset, expected.fields(first), found.fields(second))
            first, second = first + 1, second + 1
        elif before < after:
            if log.has_batch(before):
                find(before, expected.fields(first), None)
            first += 1
        else:
            if expected_log.has_batch(after):
                find(after, None, found.fields(second))
            second += 1


class _Difference:
    """The reporter of differing batches."""

    def __init__(self, log: LogView, is_damaged: IsDamaged, report: Report) -> None:
        self._log = log
        self._is_damaged = is_damaged
        self._report = report

    def find(
        self, offset: int, expected: ProducerFields | None, found: ProducerFields | None
    ) -> None:
        """Report a difference that no damage explains."""
        if self._is_damaged(offset):
            return
        is_marker = expected is not None and expected.is_control
        check = Check.TRANSACTIONS if is_marker else Check.PRODUCERS
        damage = Damage.MARKER_DIFFERS if is_marker else Damage.PRODUCER_DIFFERS
        place = *self._log.place_of(offset), offset
        Finder(check, self._report).find(damage, *place, _text(expected), _text(found))


def _text(fields: ProducerFields | None) -> str:
    return "a batch without a producer" if fields is None else str(fields)

"""The transactions of a log, as a walk over its batches finds them (decision).

The state is flat columns: a partition may have a million transactions.
"""

from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kafkawire.columns_loops import SoundBatch
from kafkawire.records import BatchHeader, ControlType, EndTransactionMarker
from kafkawire.records_header import CONTROL_BIT, TRANSACTIONAL_BIT
from kafkawire.sentinels import NO_OFFSET
from logcheck.log_view import ProducerObserver
from logcheck.marker import MarkerReading
from logcheck.transaction_ranges import Transaction


@dataclass(slots=True)
class _Open:
    """A transaction without a marker so far."""

    first_offset: int
    """Base offset of the first batch, even if a cleaner has emptied it."""
    data_offset: int
    """Base offset of the first batch with records; -1 without any."""
    timestamp_ms: int
    file: str
    position: int


class Ended(NamedTuple):
    """A transaction with its marker."""

    producer_id: int
    first_offset: int
    """Base offset of the first surviving batch, the marker's offset without any."""
    data_offset: int
    """Base offset of the first surviving batch with records; -1 without any."""
    marker_offset: int
    previous_marker_offset: int
    """Offset of the producer's marker before that one; -1 without any."""
    is_aborted: bool


class TransactionColumns(ProducerObserver):
    """An observer that keeps the records and the markers of all transactions."""

    def __init__(self) -> None:
        self.data = (array("q"), array("q"))
        """Producer ids and base offsets of the batches of transactions that contain records."""
        self.markers = (array("q"), array("q"))
        """Producer ids and offsets of the markers."""
        self.marker_times_ms = array("q")
        """The timestamps of the markers: the clock of their broker."""

    def on_producer_batch(self, batch: SoundBatch, reading: MarkerReading) -> None:
        """See `log_view.ProducerObserver`."""
        header = batch.header
        attributes = header.attributes
        if not attributes & TRANSACTIONAL_BIT:
            return
        if not attributes & CONTROL_BIT:
            if header.record_count:
                self.add_data(header)
        elif reading.marker is not None:
            self.add_marker(header)

    def add_data(self, header: BatchHeader) -> None:
        """Add a batch with records."""
        producer_ids, offsets = self.data
        producer_ids.append(header.producer_id)
        offsets.append(header.base_offset)

    def add_marker(self, header: BatchHeader) -> None:
        """Add a batch with a marker."""
        producer_ids, offsets = self.markers
        producer_ids.append(header.producer_id)
        offsets.append(header.base_offset)
        self.marker_times_ms.append(header.max_timestamp_ms)

    def has_marker(self, producer_id: int, offset: int) -> bool:
        """Whether the log has a marker of the producer at `offset`."""
        producer_ids, offsets = self.markers
        slot = bisect_left(offsets, offset)
        is_there = slot < len(offsets) and offsets[slot] == offset
        return is_there and producer_ids[slot] == producer_id

    def markers_after(self, time_ms: int) -> Iterator[tuple[int, int]]:
        """Yield producer id and offset of each marker with a later timestamp."""
        for *marker, marker_ms in zip(*self.markers, self.marker_times_ms, strict=True):
            if marker_ms > time_ms:
                yield marker[0], marker[1]

    def clock_after(self, offset: int) -> int | None:
        """Return the clock of the broker at the first marker beyond `offset`; None without any."""
        slot = bisect_left(self.markers[1], offset)
        return self.marker_times_ms[slot] if slot < len(self.marker_times_ms) else None

    def ended(self) -> Iterator[Transaction]:
        """Yield the transactions that have records and a marker."""
        firsts: dict[int, int] = {}
        slot, (producer_ids, offsets) = 0, self.data
        for producer_id, marker_offset in zip(*self.markers, strict=True):
            while slot < len(offsets) and offsets[slot] < marker_offset:
                firsts.setdefault(producer_ids[slot], offsets[slot])
                slot += 1
            first = firsts.pop(producer_id, None)
            if first is not None:
                yield producer_id, first, marker_offset


class TransactionReplay(ProducerObserver):
    """An observer that keeps the open transactions and the records of all transactions."""

    def __init__(self) -> None:
        self.open: dict[int, _Open] = {}
        """By producer id."""
        self.columns = TransactionColumns()
        self.emptied = array("q")
        """Base offsets of the batches of transactions from which a cleaner removed all records."""
        # Data offset -> producer id, ascending. Not a dict: finding the first key of a dict is
        # linear in the number of keys deleted before it.
        self._open_data: OrderedDict[int, int] = OrderedDict()
        self._last_markers: dict[int, int] = {}

    def on_producer_batch(self, batch: SoundBatch, reading: MarkerReading) -> None:
        """See `log_view.ProducerObserver`."""
        if batch.header.attributes & TRANSACTIONAL_BIT:
            self.apply(batch, reading.marker)

    def apply(self, batch: SoundBatch, marker: EndTransactionMarker | None) -> Ended | None:
        """Add a batch of a transaction and its `marker`; return the transaction that it ends."""
        header = batch.header
        if header.attributes & CONTROL_BIT:
            return self._end(header, marker)
        producer_id, offset = header.producer_id, header.base_offset
        current = self.open.get(producer_id)
        if current is None:
            current = _Open(offset, NO_OFFSET, -1, batch.file, batch.position)
            self.open[producer_id] = current
        if header.record_count:
            self.columns.add_data(header)
            if current.data_offset == NO_OFFSET:
                current.data_offset, current.timestamp_ms = offset, header.max_timestamp_ms
                current.file, current.position = batch.file, batch.position
                self._open_data[offset] = producer_id
        else:
            self.emptied.append(offset)
        return None

    def is_emptied(self, offset: int) -> bool:
        """Whether a cleaner has removed all records from the batch at `offset`."""
        slot = bisect_left(self.emptied, offset)
        return slot < len(self.emptied) and self.emptied[slot] == offset

    def first_open(self) -> int | None:
        """Return the offset of the first record in an open transaction."""
        return next(iter(self._open_data), None)

    def _end(self, header: BatchHeader, marker: EndTransactionMarker | None) -> Ended | None:
        if header.record_count == 0:
            self.emptied.append(header.base_offset)
        if marker is None:
            return None
        self.columns.add_marker(header)
        start = self.open.pop(header.producer_id, None)
        first = header.base_offset if start is None else start.first_offset
        data = NO_OFFSET if start is None else start.data_offset
        self._open_data.pop(data, None)
        previous = self._last_markers.get(header.producer_id, NO_OFFSET)
        self._last_markers[header.producer_id] = header.base_offset
        is_aborted = marker.control_type is ControlType.ABORT
        return Ended(header.producer_id, first, data, header.base_offset, previous, is_aborted)

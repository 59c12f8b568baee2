"""The interfaces of checks: an observer of sound batches, and the view of a whole log (decision).

`logcheck.log_scan.LogScan` implements the view; tests may use another implementation.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kafkawire.columns_loops import SoundBatch
from logcheck.marker import NOT_READ, MarkerReading, check_marker
from logcheck.segment_columns import SegmentColumns

ReadRecord = Callable[[int], tuple[bytes, bytes | None] | None]
"""A function from an offset to key and value of its record, None if there is none with a key."""


class LogView(Protocol):
    """A log after a complete walk."""

    @property
    def segments(self) -> Sequence[SegmentColumns]:
        """The batch columns of each segment."""

    @property
    def first_offset(self) -> int:
        """The first offset of the log."""

    @property
    def log_end_offset(self) -> int:
        """The offset after the last record (exclusive)."""

    def read_record(self, offset: int) -> tuple[bytes, bytes | None] | None:
        """Return key and value of the record at `offset`; None if there is none with a key."""

    def has_batch(self, offset: int) -> bool:
        """Whether a batch of the log includes `offset`, even if its record is missing."""

    def place_of(self, offset: int) -> tuple[str, int]:
        """Return the file and position of the record at `offset`, or where it belongs."""

    def is_damaged(self, offset: int) -> bool:
        """Whether `offset` may lie in a damaged part of the log."""


class Observer(Protocol):
    """A receiver of the sound batches of a log, in log order."""

    def on_batch(self, batch: SoundBatch) -> None:
        """Observe the next batch."""


class RunObserver(ABC):
    """An observer that takes the batches in runs: a call per batch would cost as much as its work.

    `python -m benchmarks audit` shows it for short transactions.
    """

    @abstractmethod
    def on_run(self, batches: Sequence[SoundBatch]) -> None:
        """Observe the next batches, which continue the log; there is at least one."""

    def on_batch(self, batch: SoundBatch) -> None:
        """See `Observer`."""
        self.on_run((batch,))


class ProducerObserver(ABC):
    """An observer that needs only batches with a producer id, and the markers among them."""

    @abstractmethod
    def on_producer_batch(self, batch: SoundBatch, reading: MarkerReading) -> None:
        """Observe the next batch; `reading` is that of a control batch, else `NOT_READ`.

        A pass over a log reads each marker once, for all observers.
        """

    def on_batch(self, batch: SoundBatch) -> None:
        """See `Observer`."""
        reading = check_marker(batch) if batch.header.is_control else NOT_READ
        self.on_producer_batch(batch, reading)


class LogCheck(Observer, Protocol):
    """An observer that reports its findings at the end of the log."""

    def conclude(self, log: LogView) -> dict[str, Any]:
        """Report the findings; return the figures for the summary."""

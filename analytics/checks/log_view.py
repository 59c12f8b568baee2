"""Decision: what checks see of a log: each sound batch in order, and in the end the log as a whole.

Source: `analytics.log_scan.LogScan` offers the view; tests may offer another.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from analytics.segment_columns import SegmentColumns
from kafkawire.columns_scanner import SoundBatch

ReadRecord = Callable[[int], tuple[bytes, bytes | None] | None]
"""Key and value of the record at an offset; None where there is none."""


class LogView(Protocol):
    """A log that was walked to its end."""

    @property
    def segments(self) -> Sequence[SegmentColumns]:
        """What the batches of each segment say."""

    @property
    def first_offset(self) -> int:
        """Where the log begins."""

    @property
    def log_end_offset(self) -> int:
        """The offset behind the last record."""

    def read_record(self, offset: int) -> tuple[bytes, bytes | None] | None:
        """Key and value of the record at `offset`; None where there is none."""

    def place_of(self, offset: int) -> tuple[str, int]:
        """The file and the position where the record of `offset` is, or would have to be."""

    def is_damaged(self, offset: int) -> bool:
        """Whether `offset` may stand in what could not be read."""


class Observer(Protocol):
    """What sees each sound batch of a log, in order."""

    def on_batch(self, batch: SoundBatch) -> None:
        """One more batch."""


class ProducerObserver:
    """Marks an observer to which batches without a producer id say nothing."""


class LogCheck(Observer, Protocol):
    """An observer that reports what it found when the log has ended."""

    def conclude(self, log: LogView) -> dict[str, Any]:
        """Report the findings; return figures for the summary."""

"""S12: the batches of each producer, and their snapshots (decision).

Source: ProducerStateManager of Kafka 3.9.
"""

from collections.abc import Callable, Sequence
from typing import Any

from kafkawire.columns_loops import SoundBatch
from kafkawire.records_header import CONTROL_BIT
from logcheck.log_view import LogView, ProducerObserver
from logcheck.marker import MarkerReading
from logcheck.producer_replay import ProducerReplay
from logcheck.sequence_check import SequenceCheck
from logcheck.snapshot_check import SnapshotCheck

ReadSnapshot = Callable[[str], bytes | None]
"""A function that reads a snapshot; None if a broker has deleted it or it cannot be read."""


class ProducerCheck(ProducerObserver):
    """The comparison of a log's producers with each other and with the snapshots."""

    def __init__(
        self,
        replay: ProducerReplay,
        sequences: SequenceCheck,
        snapshot_check: SnapshotCheck,
        snapshots: Sequence[tuple[int, str]],
        read_snapshot: ReadSnapshot,
    ) -> None:
        """`snapshots` are (offset, file), sorted by offset; each is read when it is due."""
        self.replay = replay
        """The producers of the log."""
        self._sequences = sequences
        self._snapshot_check = snapshot_check
        self._snapshots = list(reversed(snapshots))
        self._read_snapshot = read_snapshot

    def on_producer_batch(self, batch: SoundBatch, reading: MarkerReading) -> None:
        """See `log_view.ProducerObserver`."""
        header, producers = batch.header, self.replay.producers
        while self._snapshots and self._snapshots[-1][0] <= header.base_offset:
            self._compare(*self._snapshots.pop())
        before, marker = producers.get(header.producer_id), reading.marker
        is_data = not header.attributes & CONTROL_BIT
        if is_data:
            self._sequences.check_batch(before, batch)
        elif marker is not None:
            self._sequences.check_marker(before, batch, marker)
        self.replay.apply(batch, marker)
        if self._snapshots and (is_data or marker is not None):
            self._snapshot_check.on_producer(header.producer_id)

    def conclude(self, log: LogView) -> dict[str, Any]:
        """See `log_view.LogCheck`."""
        while self._snapshots:
            offset, file = self._snapshots.pop()
            if offset <= log.log_end_offset:
                self._compare(offset, file)
        self._snapshot_check.conclude(log)
        return {"producers": len(self.replay.producers)}

    def _compare(self, offset: int, file: str) -> None:
        data = self._read_snapshot(file)
        if data is not None:
            self._snapshot_check.check(offset, file, data, self.replay.producers)

"""S12: the log and its snapshots keep the last batch of each producer (decision).

Compaction keeps the last batch of a live producer, if need be without records, so that a broker can
validate the producer's next sequence number after it has loaded the log again.

Source: ProducerStateManager of Kafka 3.9.
"""

from collections.abc import Callable, Sequence
from typing import Any

from kafkawire.columns_loops import SoundBatch
from kafkawire.sentinels import NO_OFFSET
from logcheck.finding import Check, Damage, Finder, Report
from logcheck.log_view import LogView, ProducerObserver
from logcheck.marker import read_marker
from logcheck.producer_replay import PRODUCER_EXPIRATION_MS, Producer, ProducerReplay
from logcheck.sequence_check import SequenceCheck
from logcheck.snapshot_check import SnapshotCheck

ReadSnapshot = Callable[[str], bytes | None]
"""A function that reads a snapshot; None if a broker has deleted it or it cannot be read."""


class ProducerCheck(ProducerObserver):
    """The comparison of a log with itself, with its snapshots, and with a reference's replay."""

    def __init__(
        self,
        replay: ProducerReplay,
        sequences: SequenceCheck,
        snapshot_check: SnapshotCheck,
        snapshots: Sequence[tuple[int, str]],
        read_snapshot: ReadSnapshot,
        now_ms: int,
        report: Report,
        reference: ProducerReplay | None = None,
    ) -> None:
        """`snapshots` are (offset, file), sorted by offset; each is read when it is due."""
        self._replay = replay
        self._sequences = sequences
        self._snapshot_check = snapshot_check
        self._snapshots = list(reversed(snapshots))
        self._read_snapshot = read_snapshot
        self._now_ms = now_ms
        self._find = Finder(Check.PRODUCERS, report).find
        self._reference = reference

    def on_batch(self, batch: SoundBatch) -> None:
        """See `log_view.Observer`."""
        header, producers = batch.header, self._replay.producers
        while self._snapshots and self._snapshots[-1][0] <= header.base_offset:
            self._compare(*self._snapshots.pop())
        before, marker = producers.get(header.producer_id), None
        if not header.is_control:
            self._sequences.check_batch(before, batch)
        else:
            marker = read_marker(batch)
            if marker is None:
                return
            self._sequences.check_marker(before, batch, marker)
        self._replay.apply(batch, marker)
        self._snapshot_check.on_producer(header.producer_id)

    def conclude(self, log: LogView) -> dict[str, Any]:
        """See `log_view.LogCheck`."""
        while self._snapshots:
            offset, file = self._snapshots.pop()
            if offset <= log.log_end_offset:
                self._compare(offset, file)
        self._snapshot_check.conclude(log)
        if self._reference is not None:
            for producer_id, last in self._reference.producers.items():
                self._check_kept(producer_id, last, log)
        return {"producers": len(self._replay.producers)}

    def _compare(self, offset: int, file: str) -> None:
        data = self._read_snapshot(file)
        if data is not None:
            self._snapshot_check.check(offset, file, data, self._replay.producers)

    def _check_kept(self, producer_id: int, last: Producer, log: LogView) -> None:
        own, offset = self._replay.producers.get(producer_id), last.last_offset
        is_expected = offset != NO_OFFSET and log.first_offset <= offset < log.log_end_offset
        is_live = self._now_ms - last.data_timestamp_ms < PRODUCER_EXPIRATION_MS
        is_kept = own is not None and own.seen_offset >= offset
        if is_expected and is_live and not is_kept and not log.is_damaged(offset):
            expected = f"the last batch of producer {producer_id}, up to offset {offset}"
            found = "none" if own is None else f"its batch up to {own.last_offset}"
            self._find(Damage.PRODUCER_LOST, *log.place_of(offset), offset, expected, found)

"""Decision: S12, the log and its snapshots keep the last batch of each producer.

A `.snapshot` contains the producer state that a replay of all batches before its offset gives.
Compaction keeps the last batch of a live producer, if need be without records, so that a broker can
validate the producer's next sequence number after it has loaded the log again.

Source: ProducerStateManager of Kafka 3.9 (version 1 of the file).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafkawire.columns_loops import SoundBatch
from kafkawire.records import NO_PRODUCER_ID
from logcheck.finding import Check, Damage, Finder, Finding, Report
from logcheck.log_view import LogView, ProducerObserver
from logcheck.producer_snapshot_bytes import read_producer_snapshot

PRODUCER_EXPIRATION_MS: Final = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class LastBatch:
    """The last data batch of one producer."""

    epoch: int
    last_sequence: int
    last_offset: int
    timestamp_ms: int
    file: str
    position: int


class ProducerReplay(ProducerObserver):
    """An observer that keeps the last batch of each producer."""

    def __init__(self) -> None:
        self.last: dict[int, LastBatch] = {}

    def on_batch(self, batch: SoundBatch) -> None:
        """See `log_view.Observer`."""
        header = batch.header
        if header.is_control:
            last = self.last.get(header.producer_id)
            if last is not None and header.producer_epoch > last.epoch:
                # The new epoch begins at sequence 0, so the state of the old epoch is dropped.
                del self.last[header.producer_id]
        elif header.producer_id != NO_PRODUCER_ID:
            self.last[header.producer_id] = LastBatch(
                header.producer_epoch,
                header.last_sequence,
                header.last_offset,
                header.max_timestamp_ms,
                batch.file,
                batch.position,
            )


class ProducerCheck(ProducerObserver):
    """The comparison of snapshots with the replay, and of the replay with a reference's."""

    def __init__(
        self,
        snapshots: Sequence[tuple[int, str, bytes]],
        now_ms: int,
        report: Report,
        reference: ProducerReplay | None = None,
    ) -> None:
        """`snapshots` are (offset, file, bytes), sorted by offset."""
        self._snapshots = list(snapshots)
        self._now_ms = now_ms
        self._report = report
        self._finder = Finder(Check.PRODUCERS, report)
        self._reference = reference
        self._replay = ProducerReplay()

    def on_batch(self, batch: SoundBatch) -> None:
        """See `log_view.Observer`."""
        while self._snapshots and self._snapshots[0][0] <= batch.header.base_offset:
            self._compare(*self._snapshots.pop(0))
        self._replay.on_batch(batch)

    def conclude(self, log: LogView) -> dict[str, Any]:
        """See `log_view.LogCheck`."""
        for offset, file, data in self._snapshots:
            if offset <= log.log_end_offset:
                self._compare(offset, file, data)
        if self._reference is not None:
            for producer_id, last in self._reference.last.items():
                self._check_kept(producer_id, last, log)
        return {"producers": len(self._replay.last)}

    def _check_kept(self, producer_id: int, last: LastBatch, log: LogView) -> None:
        own = self._replay.last.get(producer_id)
        is_expected = log.first_offset <= last.last_offset < log.log_end_offset
        is_live = self._now_ms - last.timestamp_ms < PRODUCER_EXPIRATION_MS
        is_kept = own is not None and own.last_offset >= last.last_offset
        if is_expected and is_live and not is_kept and not log.is_damaged(last.last_offset):
            file, position = log.place_of(last.last_offset)
            expected = f"the last batch of producer {producer_id}, up to offset {last.last_offset}"
            found = "none" if own is None else f"its batch up to {own.last_offset}"
            place = file, position, last.last_offset
            self._finder.find(Damage.PRODUCER_LOST, *place, expected, found)

    def _compare(self, offset: int, file: str, data: bytes) -> None:
        damage, find = list[Finding](), self._finder.find
        entries = read_producer_snapshot(data, file, damage.append)
        for finding in damage:
            self._report(finding)
        for position, entry in [] if damage else entries:
            producer_id, epoch, last_sequence, last_offset = entry[:4]
            own = self._replay.last.get(producer_id)
            found = str(last_offset)
            if last_offset >= offset:
                expected = f"an offset below {offset}, by the file's name"
                find(Damage.SNAPSHOT_ENTRY, file, position, offset, expected, found)
            elif own is not None and own.last_offset == last_offset:
                if own.last_sequence != last_sequence or own.epoch > epoch:
                    expected = f"sequence {own.last_sequence} of epoch {own.epoch}, by the log"
                    found = f"sequence {last_sequence} of epoch {epoch}"
                    find(Damage.SNAPSHOT_ENTRY, file, position, last_offset, expected, found)
            elif own is not None and own.last_offset > last_offset:
                expected = f"offset {own.last_offset} of producer {producer_id}, by the log"
                find(Damage.SNAPSHOT_ENTRY, file, position, last_offset, expected, found)

"""S12: the sequences and epochs of each producer continue from batch to batch (decision).

A leader accepts a batch only with the next sequence of its producer's epoch, and a new epoch only
from sequence 0. Where a cleaner has removed whole batches, their sequences may be missing too, but
not more of them than offsets.
"""

from typing import Final

from kafkawire.columns_loops import SoundBatch
from kafkawire.records import EndTransactionMarker
from logcheck.finding import Check, Damage, Finder, Report, Severity
from logcheck.producer_replay import MAX_SEQUENCE, NO_VALUE, Gaps, Producer, continuity

OFFSETS_TOPIC: Final = "__consumer_offsets"
"""A group coordinator writes all commits of transactions there with the sequence 0."""


class SequenceCheck:
    """The check of one log's producers, batch by batch."""

    def __init__(
        self, topic: str, replayed_from: int, gaps: Gaps, now_ms: int, report: Report
    ) -> None:
        self._has_sequences = topic != OFFSETS_TOPIC
        self._replayed_from = replayed_from
        self._gaps = gaps
        self._now_ms = now_ms
        self._find = Finder(Check.PRODUCERS, report).find

    def check_batch(self, before: Producer | None, batch: SoundBatch) -> None:
        """Report a data batch that does not continue the state `before` it."""
        header = batch.header
        if header.base_sequence < 0:
            expected, found = "a sequence of 0 or more", str(header.base_sequence)
            self._report(Damage.SEQUENCE_BROKEN, batch, expected, found, Severity.ERROR)
            return
        if before is None:
            return
        if header.producer_epoch < before.epoch:
            self._report_epoch(before, batch)
        elif self._has_sequences:
            self._check_sequence(before, batch)

    def check_marker(
        self, before: Producer | None, batch: SoundBatch, marker: EndTransactionMarker
    ) -> None:
        """Report a marker of an older epoch than the state `before` it."""
        if before is None:
            return
        if batch.header.producer_epoch < before.epoch:
            self._report_epoch(before, batch)
        elif marker.coordinator_epoch < before.coordinator_epoch:
            expected = f"coordinator epoch {before.coordinator_epoch} or later"
            found = f"coordinator epoch {marker.coordinator_epoch}"
            self._report_repeat(before, Damage.PRODUCER_EPOCH_BACK, batch, expected, found)

    def _check_sequence(self, before: Producer, batch: SoundBatch) -> None:
        header = batch.header
        if header.producer_epoch == before.epoch and header.base_sequence == before.next_sequence:
            return
        is_new = header.producer_epoch > before.epoch
        has_begun = before.last_sequence != NO_VALUE or is_new or before.is_epoch_by_marker
        if before.missing_at_data is None or not has_begun:
            return
        missing = self._gaps.missing_count - before.missing_at_data
        expected = 0 if is_new else before.next_sequence
        skipped = (header.base_sequence - expected) & MAX_SEQUENCE
        if skipped > missing:
            epoch = f"of epoch {header.producer_epoch} of producer {header.producer_id}"
            found = f"sequence {header.base_sequence}"
            text = f"sequence {expected} {epoch}"
            is_repeat = not is_new and skipped > MAX_SEQUENCE // 2
            report = self._report_repeat if is_repeat else self._report_after
            report(before, Damage.SEQUENCE_BROKEN, batch, text, found)

    def _report_epoch(self, before: Producer, batch: SoundBatch) -> None:
        expected = f"epoch {before.epoch} of producer {batch.header.producer_id} or later"
        found = f"epoch {batch.header.producer_epoch}"
        self._report_repeat(before, Damage.PRODUCER_EPOCH_BACK, batch, expected, found)

    def _report_repeat(
        self, before: Producer, damage: Damage, batch: SoundBatch, expected: str, found: str
    ) -> None:
        """Report a batch from before the state `before` it; only as a warning from a new leader.

        That leader accepts it if its own log began behind the producer's batches.
        """
        is_certain = batch.header.leader_epoch == before.leader_epoch
        self._report_after(before, damage, batch, expected, found, is_certain=is_certain)

    def _report_after(
        self,
        before: Producer,
        damage: Damage,
        batch: SoundBatch,
        expected: str,
        found: str,
        *,
        is_certain: bool = True,
    ) -> None:
        """Report a batch that contradicts the state `before` it, unless a broker has forgotten it.

        Below the log start a replica may still have batches that its leader has forgotten, and a
        snapshot may lack batches that a cleaner has removed.
        """
        if before.seen_offset < self._replayed_from:
            return
        severity = continuity(before, batch.header.max_timestamp_ms, self._now_ms)
        if severity is not None:
            self._report(
                damage, batch, expected, found, severity if is_certain else Severity.WARNING
            )

    def _report(
        self, damage: Damage, batch: SoundBatch, expected: str, found: str, severity: Severity
    ) -> None:
        place = batch.file, batch.position, batch.header.base_offset
        self._find(damage, *place, expected, found, severity)

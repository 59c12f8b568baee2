"""The last batch of each producer, which cleaning must leave, if only its header (decision).

It holds the producer's last sequence number and epoch: without it a producer that comes back would
be refused, and a fenced one let in. Source: ProducerStateManager and Cleaner of Kafka 3.9.
"""

from kafkawire.records import NO_PRODUCER_ID, BatchHeader
from storage.compaction.job import LastRecord


class LastProducers:
    """What the batches of a log, told one after the other, say about their producers."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[LastRecord, int]] = {}

    def on_batch(self, header: BatchHeader) -> None:
        """Note the next batch."""
        if header.producer_id == NO_PRODUCER_ID or (header.is_control and not header.record_count):
            # An emptied marker says nothing any more.
            return
        if header.is_control:
            before, _ = self._last.get(header.producer_id, (None, 0))
            # A marker of a newer epoch ends what the older one is remembered for.
            is_newer = before is None or before.producer_epoch < header.producer_epoch
            record = LastRecord(None, header.producer_epoch) if is_newer else before
            assert record is not None
        else:
            record = LastRecord(header.last_offset, header.producer_epoch)
        self._last[header.producer_id] = (record, header.max_timestamp_ms)

    def active(self, since_ms: int) -> dict[int, LastRecord]:
        """Return the producers that have written at or after a time; the others are forgotten."""
        return {
            producer_id: record
            for producer_id, (record, time_ms) in self._last.items()
            if time_ms >= since_ms
        }


def is_last_of_producer(header: BatchHeader, last: LastRecord | None) -> bool:
    """Whether this is the batch by which its producer is remembered."""
    if last is None:
        return False
    if last.last_data_offset is not None:
        return header.last_offset == last.last_data_offset
    return header.is_control and header.producer_epoch == last.producer_epoch

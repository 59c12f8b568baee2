"""S12 and S13: a log keeps the producers and markers of its reference that it needs (decision).

Compaction keeps the last batch of a live producer, if need be without records, so that a broker can
validate the producer's next sequence number after it has loaded the log again. It keeps a marker as
long as any record of its transaction, and for `delete.retention.ms`.

Source: LogCleaner and ProducerStateManager of Kafka 3.9.
"""

from kafkawire.columns_loops import SoundBatch
from kafkawire.records import BatchHeader
from kafkawire.records_header import CONTROL_BIT
from logcheck.finding import Check, Damage, Finder, Report, Severity
from logcheck.log_view import LogView, ProducerObserver
from logcheck.marker import MarkerReading
from logcheck.producer_replay import PRODUCER_EXPIRATION_MS, ProducerReplay
from logcheck.transaction_ranges import TransactionRanges
from logcheck.transaction_replay import TransactionColumns, TransactionReplay


class LastBatches(ProducerObserver):
    """An observer that keeps the last data batch of each producer's epoch."""

    def __init__(self) -> None:
        self.headers: dict[int, BatchHeader] = {}
        """By producer id."""

    def on_producer_batch(self, batch: SoundBatch, reading: MarkerReading) -> None:
        """See `log_view.ProducerObserver`."""
        header = batch.header
        if not header.attributes & CONTROL_BIT:
            self.headers[header.producer_id] = header
        elif reading.marker is not None:
            # A marker may begin an epoch; a broker then knows no batch of the one before.
            last = self.headers.get(header.producer_id)
            if last is not None and last.producer_epoch != header.producer_epoch:
                del self.headers[header.producer_id]


def check_last_batches(
    reference: LastBatches,
    replay: ProducerReplay,
    log: LogView,
    end_offset: int,
    now_ms: int,
    report: Report,
) -> None:
    """Report the live producers whose last batch lies below `end_offset` and is missing.

    It is a warning: a cleaner removes a batch that has a successor, and if that was not committed,
    another leader may cut it off the log.
    """
    find = Finder(Check.PRODUCERS, report).find
    for producer_id, last in reference.headers.items():
        own, offset = replay.producers.get(producer_id), last.last_offset
        is_expected = log.first_offset <= offset < end_offset
        is_live = now_ms - last.max_timestamp_ms < PRODUCER_EXPIRATION_MS
        is_kept = own is not None and own.seen_offset >= offset
        if is_expected and is_live and not is_kept and not log.is_damaged(offset):
            expected = f"the last batch of producer {producer_id}, up to offset {offset}"
            found = "none" if own is None else f"its batch up to {own.last_offset}"
            place = *log.place_of(offset), offset
            find(Damage.PRODUCER_LOST, *place, expected, found, Severity.WARNING)


def check_markers(
    reference: TransactionColumns,
    replay: TransactionReplay,
    log: LogView,
    end_offset: int,
    kept_after_ms: int,
    report: Report,
) -> None:
    """Report the markers below `end_offset` that are missing too early.

    It is an error if records still need the marker. It is a warning if the marker is later than
    `kept_after_ms`: the retention of markers may have been shorter before.
    """
    if reference.markers == replay.columns.markers:
        # The usual result, found without a look at each of a million markers.
        return
    find = Finder(Check.TRANSACTIONS, report).find
    missing = [
        (producer_id, first, last)
        for producer_id, first, last in reference.ended()
        if not replay.columns.has_marker(producer_id, last)
        and log.first_offset <= last < end_offset
        and not log.is_damaged(last)
    ]
    ranges, reported = TransactionRanges(missing), set[int]()
    for producer_id, offset in zip(*replay.columns.data, strict=True) if missing else ():
        last = ranges.last_offset(producer_id, offset)
        if last is not None and last not in reported:
            reported.add(last)
            expected = f"the marker of producer {producer_id}, whose records still exist"
            find(Damage.MARKER_LOST, *log.place_of(last), last, expected, "none")
    for producer_id, offset in reference.markers_after(kept_after_ms):
        is_expected = log.first_offset <= offset < end_offset and offset not in reported
        is_kept = replay.columns.has_marker(producer_id, offset) or replay.is_emptied(offset)
        if is_expected and not is_kept and not log.is_damaged(offset):
            expected = f"the marker of producer {producer_id}, later than {kept_after_ms} ms"
            place = *log.place_of(offset), offset
            find(Damage.MARKER_LOST, *place, expected, "none", Severity.WARNING)

"""S12: a producer snapshot equals the state that a replay of the log gives (decision).

A replay knows a producer exactly if it has seen all batches since the log's first offset, or since
the snapshot there. Where batches are missing, it knows less: the last batch if the log still has
it, the coordinator epoch and the open transaction if nothing is missing since the last marker.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kafkawire.sentinels import NO_OFFSET
from logcheck.finding import Check, Damage, Finder, Finding, Report, Severity
from logcheck.history import History
from logcheck.log_view import LogView
from logcheck.producer_replay import NO_VALUE, Gaps, Producer, producer_of
from logcheck.producer_snapshot_bytes import ProducerEntry, is_unfinished, read_producer_snapshot


def read_whole(
    offset: int, file: str, data: bytes, history: History, report: Report
) -> list[tuple[int, ProducerEntry]] | None:
    """Return the positions and entries of a snapshot; report damage, and return None, if any.

    It is a note if a broker may have died while it wrote the snapshot: the next start removes it.
    """
    damage: list[Finding] = []
    entries = read_producer_snapshot(data, file, damage.append)
    is_note = history.is_recovered(offset) and is_unfinished(data)
    severity = Severity.NOTE if is_note else Severity.ERROR
    for finding in damage:
        report(replace(finding, severity=severity))
    return None if damage else entries


class SnapshotCheck:
    """The check of the snapshots of one log, in the order of their offsets."""

    def __init__(
        self, first_offset: int, history: History, gaps: Gaps, now_ms: int, report: Report
    ):
        """`first_offset` is the base offset of the first segment."""
        self._first_offset = first_offset
        self._log_start = max(first_offset, history.log_start)
        self._history = history
        self._gaps = gaps
        self._now_ms = now_ms
        self._report = report
        self._find = Finder(Check.PRODUCERS, report).find
        self._has_begin = first_offset == 0
        """Whether the producers before the first batch of the log are known."""
        self._expected: set[int] = set()
        """The producers of the last snapshot, and the writers since."""
        self._unknown: list[tuple[str, int, ProducerEntry]] = []
        """Entries whose batch the log did not have."""

    def on_producer(self, producer_id: int) -> None:
        """Note that a producer has written."""
        self._expected.add(producer_id)

    def check(self, offset: int, file: str, data: bytes, producers: dict[int, Producer]) -> None:
        """Compare the snapshot of a log that ends at `offset` with the state there."""
        entries = read_whole(offset, file, data, self._history, self._report)
        if entries is None:
            return
        if offset <= self._first_offset:
            if offset == self._first_offset:
                producers.update((each.producer_id, producer_of(each)) for _, each in entries)
                self._has_begin = True
            self._check_beyond(offset, file, entries)
            return
        known = set()
        for position, entry in entries:
            known.add(entry.producer_id)
            own = producers.get(entry.producer_id)
            if entry.last_offset >= offset:
                self._report_beyond(offset, file, position, entry)
            elif own is None:
                self._check_unseen(file, position, entry)
            else:
                self._check_entry(file, position, entry, own)
        for producer_id in sorted(self._expected - known):
            if self._is_due(producers[producer_id]):
                own = producers[producer_id]
                expected = f"producer {producer_id}, which wrote up to offset {own.seen_offset}"
                self._find(Damage.SNAPSHOT_PRODUCER, file, None, offset, expected, "no entry")
        self._expected = known & producers.keys()

    def conclude(self, log: LogView) -> None:
        """Report the entries whose batch the complete log contradicts."""
        for file, position, entry in self._unknown:
            offset = entry.last_offset
            if log.is_damaged(offset) or offset >= log.log_end_offset:
                continue
            has_batch = log.has_batch(offset)
            if has_batch or self._history.missing(offset) is Severity.ERROR:
                expected = f"a batch of producer {entry.producer_id} that ends at {offset}"
                found = "a batch of another end or producer" if has_batch else "none"
                self._find(Damage.SNAPSHOT_ENTRY, file, position, offset, expected, found)

    @property
    def _is_whole(self) -> bool:
        """Whether the replay has seen every batch, and began from a known state."""
        return self._has_begin and self._is_whole_since(0)

    def _is_whole_since(self, missing_count: int) -> bool:
        return self._gaps.missing_count == missing_count and not self._gaps.has_damage

    def _is_due(self, own: Producer) -> bool:
        """Whether every healthy snapshot has an entry of the producer."""
        return own.seen_offset >= self._log_start and not own.has_expired(self._now_ms)

    def _check_beyond(
        self, offset: int, file: str, entries: Iterable[tuple[int, ProducerEntry]]
    ) -> None:
        for position, entry in entries:
            if entry.last_offset >= offset:
                self._report_beyond(offset, file, position, entry)

    def _report_beyond(self, offset: int, file: str, position: int, entry: ProducerEntry) -> None:
        expected = f"an offset below {offset}, by the file's name"
        found = str(entry.last_offset)
        self._find(Damage.SNAPSHOT_ENTRY, file, position, offset, expected, found)

    def _check_unseen(self, file: str, position: int, entry: ProducerEntry) -> None:
        """Check the entry of a producer without any batch in the log."""
        if entry.last_offset >= self._log_start:
            self._unknown.append((file, position, entry))
        elif self._is_whole:
            # A start may have rewritten the first snapshot without expired producers.
            severity = Severity.WARNING if self._first_offset else Severity.ERROR
            found, place = f"producer {entry.producer_id}", (file, position, entry.last_offset)
            expected = "only producers of the log"
            self._find(Damage.SNAPSHOT_PRODUCER, *place, expected, found, severity)

    def _check_entry(self, file: str, position: int, entry: ProducerEntry, own: Producer) -> None:
        is_whole = self._is_whole_since(own.missing_at_batch)
        if entry.last_offset > own.last_offset and not self._knows_data(own):
            self._unknown.append((file, position, entry))
            return
        if entry.last_offset == NO_OFFSET != own.last_offset and (own.is_cleared or not is_whole):
            return
        for name, values in self._values_of(own, is_whole=is_whole):
            if getattr(entry, name) not in values:
                expected = f"{name.replace('_', ' ')} {values[0]} of producer {entry.producer_id}"
                found = str(getattr(entry, name))
                self._find(
                    Damage.SNAPSHOT_ENTRY, file, position, entry.last_offset, expected, found
                )
                return

    def _values_of(self, own: Producer, *, is_whole: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield the fields that the replay knows, each with the values of healthy snapshots."""
        yield "last_offset", (own.last_offset,)
        if own.last_offset != NO_OFFSET or self._knows_data(own):
            yield "producer_epoch", (own.epoch,)
            yield "last_sequence", (own.last_sequence,)
            yield "offset_delta", (own.offset_delta,)
        if is_whole and own.has_timestamp:
            # Kafka up to 2.4 keeps the timestamp of the data.
            yield "timestamp_ms", (own.timestamp_ms, own.data_timestamp_ms)
        first = own.missing_at_marker
        if self._is_whole_since(first) if first is not None else self._is_whole:
            forgotten = (NO_VALUE,) if own.may_be_forgotten else ()
            yield "coordinator_epoch", (own.coordinator_epoch, *forgotten)
            yield "transaction_first_offset", (own.transaction_first_offset,)

    def _knows_data(self, own: Producer) -> bool:
        """Whether the replay has seen the last batch before the snapshot."""
        since = own.missing_at_data
        return self._is_whole if since is None else self._is_whole_since(since)

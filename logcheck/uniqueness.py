"""S8: below the cleaner's point each key has at most one record, and each record a key (decision).

Keys are first compared by a 128-bit hash; a match is then confirmed by the bytes in the log.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from kafkawire.columns_loops import SoundBatch
from kafkawire.native import KeyTable
from logcheck.finding import Check, Damage, Finder, Report, Severity
from logcheck.history import History
from logcheck.log_view import LogView, RunObserver
from logcheck.segment_columns import last_gap_below

MAX_SUSPECTS: Final = 100_000
"""Limit of the pairs of records that are judged, about 10 MB. Further ones are only counted."""
_SHOWN_KEY_BYTES: Final = 60


class UniquenessCheck(RunObserver):
    """An observer that keeps the keys of the cleaned part of a log."""

    def __init__(
        self,
        table: KeyTable,
        cleaned_until: int,
        history: History,
        limit: int,
        report: Report,
        *,
        with_whole: bool = True,
    ) -> None:
        """`with_whole` also reports records without a key, for the first shard."""
        self.table = table
        self._with_whole = with_whole
        self._cleaned_until = cleaned_until
        self._history = history
        self._limit = limit
        self._finder = Finder(Check.UNIQUENESS, report)
        self._suspects: list[tuple[int, int]] = []

    def on_run(self, batches: Sequence[SoundBatch]) -> None:
        """See `log_view.RunObserver`."""
        for batch in batches:
            if batch.header.base_offset >= self._cleaned_until:
                return
            if not batch.header.is_control:
                self._add(batch)

    def _add(self, batch: SoundBatch) -> None:
        header = batch.header
        is_whole = self._with_whole and header.last_offset < self._cleaned_until
        if is_whole and batch.survey.without_key:
            place = batch.file, batch.position, header.base_offset
            found = f"{batch.survey.without_key} records without a key"
            self._finder.find(Damage.NO_KEY, *place, "a key in every cleaned record", found)
        self._suspects += self.table.note(
            batch.section,
            header.record_count,
            header.base_offset,
            header.base_timestamp_ms,
            None,
            self._cleaned_until,
            MAX_SUSPECTS - len(self._suspects),
        )

    def conclude(self, log: LogView) -> dict[str, Any]:
        """Report the suspects whose keys are equal byte by byte."""
        listed, unlisted = Counter[Severity](), Counter[Severity]()
        last_gap = last_gap_below(log.segments, self._cleaned_until) if self._suspects else 0
        for earlier, later in self._suspects:
            # A cleaner that has left a gap behind both of them has read both.
            is_read = self._history.is_cleaned(later, last_gap)
            severity = self._history.is_cleaned(earlier, last_gap) and is_read
            if severity is None:
                continue
            if listed[severity] >= self._limit:
                unlisted[severity] += 1
                continue
            first, second = log.read_record(earlier), log.read_record(later)
            if first is not None and second is not None and first[0] == second[0]:
                listed[severity] += 1
                place = *log.place_of(earlier), earlier
                expected = f"key {show_key(first[0])} once, at offset {later}"
                found = f"also at offset {earlier}"
                self._finder.find(Damage.DUPLICATE_KEY, *place, expected, found, severity)
        if unjudged := self.table.repeat_count - len(self._suspects):
            unlisted[next(filter(listed.__contains__, Severity), Severity.NOTE)] += unjudged
        for severity, count in unlisted.items():
            file, _ = log.place_of(self._suspects[-1][0])
            kind, expected = Damage.MORE_DUPLICATE_KEYS, "each key once"
            found = "more records with a key that occurs before"
            self._finder.find_more(kind, file, count, expected, found, severity)
        return {"cleaned_keys": self.table.key_count}


def show_key(key: bytes) -> str:
    """Return a readable form of a key, truncated if it is long."""
    text = repr(key[:_SHOWN_KEY_BYTES])[1:]
    return text if len(key) <= _SHOWN_KEY_BYTES else f"{text}... ({len(key)} bytes)"

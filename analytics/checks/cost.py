"""S17: the cost of a log and the savings of a compaction (decision).

A report, not a check.
"""

from typing import Any

from kafkawire.columns_loops import SoundBatch
from kafkawire.native import KeyTable
from logcheck.log_view import LogView
from logcheck.uniqueness import show_key


class CostCount:
    """An observer that counts keys over a whole log."""

    def __init__(
        self, table: KeyTable, cleaned_until: int, hot_key_count: int, *, with_whole: bool
    ) -> None:
        """`with_whole` also counts figures that do not depend on keys, for the first shard."""
        self._hot_key_count = hot_key_count
        self.table = table
        self._cleaned_until = cleaned_until
        self._with_whole = with_whole
        self._dirty_bytes = 0
        self._tombstones = 0
        self._without_key = 0

    def on_batch(self, batch: SoundBatch) -> None:
        """See `log_view.Observer`."""
        header = batch.header
        if self._with_whole and header.base_offset >= self._cleaned_until:
            self._dirty_bytes += header.size_bytes
        if header.is_control:
            return
        if self._with_whole:
            self._tombstones += batch.survey.tombstones
            self._without_key += batch.survey.without_key
        self.table.note(
            batch.section,
            header.record_count,
            header.base_offset,
            header.base_timestamp_ms,
            None,
            2**63 - 1,
        )

    def conclude(self, log: LogView) -> dict[str, Any]:
        """Return the figures for a report; record sizes are those before compression."""
        table = self.table
        return {
            "keys": table.key_count,
            "keyed_records": table.record_count,
            "duplicates": table.repeat_count,
            "reclaimable_bytes": table.superseded_bytes,
            "records_per_key": table.histogram(),
            "tombstones": self._tombstones,
            "without_key": self._without_key,
            "dirty_bytes": self._dirty_bytes,
            "hot_keys": self._hot_keys(log),
        }

    def _hot_keys(self, log: LogView) -> list[dict[str, Any]]:
        rows = []
        for count, offset in self.table.heaviest(self._hot_key_count):
            record = log.read_record(offset)
            if record is not None and count > 1:
                rows.append({"key": show_key(record[0]), "count": count, "last_offset": offset})
        return rows

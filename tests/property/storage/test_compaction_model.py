"""A compacted log under random operations agrees with a list of records.

A dictionary over that list predicts the result of a cleaning. A crash during a cleaning leaves each
segment either old or new, and in both cases no reader sees another value of any key.
"""

import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkawire.ids import Offset
from storage.log.retention_deletion import delete_expired
from tests.unit.storage.compacting import (
    COMPACTED,
    Kept,
    batches_on_disk,
    clean,
    latest_values,
    put,
    records_of,
)
from tests.unit.storage.compacting import settings as cleaner_settings
from tests.unit.storage.faults import dies_within, faulty
from tests.unit.storage.logs import NOW_MS, check_files, open_log

KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])
VALUES = st.sampled_from([None, b"", b"1", b"2" * 90])
BATCHES = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=6)
SLOTS = st.sampled_from([2, 3, 4, 1_000])


class CompactionAgainstModel(RuleBasedStateMachine):
    """`records` is the expected content of the log, `history` every valid record ever written."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="compaction-model-"))
        self.directory = self.root / "orders-0"
        self.records: list[Kept] = []
        self.history: list[Kept] = []
        self.start = self.end = self.clean_to = self.committed = 0
        self.now_ms = NOW_MS
        self.patience = faulty()
        self.patience.__enter__()
        self.log = open_log(self.directory, COMPACTED)

    def teardown(self) -> None:
        self.patience.__exit__(None, None, None)
        shutil.rmtree(self.root, ignore_errors=True)

    @rule(batches=st.lists(BATCHES, min_size=1, max_size=8))
    def append(self, batches: list[list[tuple[bytes, bytes | None]]]) -> None:
        for batch in batches:
            info = put(self.log, *batch)
            assert info.base_offset == self.end
            added = [
                Kept(self.end + number, NOW_MS + number, *pair) for number, pair in enumerate(batch)
            ]
            self.records += added
            self.history += added
            self.end += len(batch)

    @rule()
    def roll(self) -> None:
        self.log.upkeep.roll(NOW_MS)

    @rule(elapsed_ms=st.sampled_from([1, 400, 1_000]))
    def wait(self, elapsed_ms: int) -> None:
        self.now_ms += elapsed_ms

    @rule(slots=SLOTS, back=st.integers(0, 12))
    def clean(self, slots: int, back: int) -> None:
        self.committed = undecided = max(self.committed, self.end - back)
        horizons = self.horizons()
        segments = [each.base_offset for each in self.log.segments]
        end = self.clean_once(slots, undecided)
        if end <= self.clean_to:
            return
        assert end <= max(each for each in segments if each <= undecided)
        self.records = self.cleaned(end, horizons)
        self.check_horizons(horizons, end)
        self.clean_to = end

    def clean_once(self, slots: int, undecided: int) -> int:
        return clean(
            self.log,
            dirty_from=self.clean_to,
            undecided=undecided,
            now_ms=self.now_ms,
            chosen=cleaner_settings(slot_count=slots),
        )

    def horizons(self) -> dict[int, int | None]:
        """Return the delete horizon of each batch, by the offsets in its range."""
        return {
            offset: header.delete_horizon_ms
            for header, _ in batches_on_disk(self.directory)
            for offset in range(header.base_offset, header.next_offset)
        }

    def cleaned(self, end: int, horizons: dict[int, int | None]) -> list[Kept]:
        """Return the records after a naive cleaning up to `end`."""
        latest = {
            record.key: record.offset
            for record in self.records
            if self.clean_to <= record.offset < end
        }
        return [
            record
            for record in self.records
            if record.offset >= end
            or (
                record.offset >= latest.get(record.key, -1)
                and (record.value is not None or not self.is_past(horizons[record.offset]))
            )
        ]

    def is_past(self, horizon_ms: int | None) -> bool:
        return horizon_ms is not None and horizon_ms <= self.now_ms

    def check_horizons(self, before: dict[int, int | None], end: int) -> None:
        """Check that every cleaned tombstone has a horizon: its old one, or a new one."""
        after = self.horizons()
        for record in self.records:
            if record.value is None and record.offset < end:
                fresh = self.now_ms + COMPACTED.delete_retention_ms
                assert after[record.offset] == (before[record.offset] or fresh)

    @rule(slots=SLOTS, dies_at=st.integers(0, 60))
    def crash_while_cleaning(self, slots: int, dies_at: int) -> None:
        before = set(records_of(self.log))
        self.committed = self.end
        dies_within(dies_at, lambda: self.clean_once(slots, self.end))
        self.reopen(was_clean=False)
        self.records = records_of(self.log)
        assert set(self.records) <= before
        # The checkpoint is written last, so it may lag behind.

    @rule(back=st.integers(0, 15))
    def truncate(self, back: int) -> None:
        # Committed records are never truncated, and only committed ones are cleaned.
        wanted = max(self.committed, self.start, self.end - back)
        starts = [header.base_offset for header, _ in batches_on_disk(self.directory)]
        target = min(each for each in [*starts, self.end] if each >= wanted)
        self.log.truncate_to(Offset(target))
        self.end = self.log.log_end_offset
        self.records = [record for record in self.records if record.offset < self.end]
        self.history = [record for record in self.history if record.offset < self.end]

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        self.start += int(share * (self.end - self.start))
        self.committed = max(self.committed, self.start)
        self.log.advance_log_start(Offset(self.start))
        self.run_retention()

    @rule()
    def run_retention(self) -> None:
        delete_expired(self.log, Offset(self.end), self.now_ms, 100)
        first = self.log.segments[0].base_offset
        assert first <= self.start
        self.records = [record for record in self.records if record.offset >= first]

    @rule(was_clean=st.booleans())
    def restart(self, was_clean: bool) -> None:
        if was_clean:
            self.log.upkeep.close()
            check_files(self.directory, COMPACTED.index_interval_bytes)
        self.reopen(was_clean=was_clean)

    def reopen(self, *, was_clean: bool) -> None:
        self.log = open_log(
            self.directory, COMPACTED, was_clean=was_clean, log_start_offset=self.start
        )
        assert self.log.log_end_offset == self.end

    @invariant()
    def log_matches_the_model(self) -> None:
        assert records_of(self.log) == self.records
        assert self.log.log_end_offset == self.end

    @invariant()
    def no_reader_sees_another_value(self) -> None:
        """Check that a table built from the log equals one built from the full history."""

        def table(records: list[Kept]) -> dict[bytes | None, bytes | None]:
            visible = [record for record in records if record.offset >= self.start]
            return {
                key: value for key, value in latest_values(visible).items() if value is not None
            }

        assert table(records_of(self.log)) == table(self.history)

    @invariant()
    def the_clean_part_has_each_key_once(self) -> None:
        keys = [record.key for record in self.records if record.offset < self.clean_to]
        assert len(keys) == len(set(keys))


CompactionAgainstModel.TestCase.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None
)
TestCompactionAgainstModel = CompactionAgainstModel.TestCase

"""A log dir under all operations, killed anywhere, agrees with a list of records.

The operations are appends, rolls, truncations, cleanings, retention, checkpoints, clean shutdowns
and starts. Each one completes, or the process dies before one of its changes of the file system
(`faults.CHANGES`, and each sync). Then the log dir is reopened from its files and checkpoints; the
process may die in this step as well. `test_log_model` and `test_compaction_model` check the exact
result of each complete operation. This model checks the possible and the required records after any
sequence of operations.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from structlog.testing import capture_logs

from kafkawire.ids import Offset
from storage.compaction.cleanable import weigh
from storage.compaction.cleaner import Cleaner
from storage.compaction.job import CleaningDone, GroupCleaned
from storage.compaction.job_maker import cleaning_job, log_facts
from storage.config.log_config import COMPACT, DELETE
from storage.directory.logs import Logs
from storage.log.log import Log
from storage.log.retention_deletion import delete_expired
from tests.unit.storage.compacting import (
    COMPACTED,
    SEED,
    Kept,
    append_at,
    batches_on_disk,
    keyed_batch,
    latest_values,
    put,
    records_of,
)
from tests.unit.storage.compacting import settings as cleaner_settings
from tests.unit.storage.faults import dies_within, faulty
from tests.unit.storage.logs import NOW_MS, PARTITION, crash, log_of

KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])
VALUES = st.sampled_from([None, b"", b"1", b"2" * 90])
BATCHES = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=5)
# Half of the operations complete; the others die early or late, if they are long enough.
DEATHS = st.one_of(st.none(), st.integers(0, 12), st.integers(0, 60))
CONFIG = replace(COMPACTED, cleanup_policy=frozenset({COMPACT, DELETE}), segment_bytes=900)

Table = dict[bytes | None, bytes | None]


def table(records: Iterable[Kept], start: int) -> Table:
    """Return the table that a reader builds from a log; a tombstone equals a missing key."""
    latest = latest_values(record for record in records if record.offset >= start)
    return {key: value for key, value in latest.items() if value is not None}


class LifeOfALogDir(RuleBasedStateMachine):
    """`history` is every record written and not truncated, `records` the content of the log."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="life-model-"))
        self.history: list[Kept] = []
        self.records: list[Kept] = []
        self.start = self.end = self.highest_start = self.committed = 0
        self.now_ms = NOW_MS
        self.quiet = capture_logs()
        self.quiet.__enter__()
        # Syncs are disabled between deaths too.
        self.patience = faulty()
        self.patience.__enter__()
        self.logs = self.opened()
        self.logs.create(PARTITION, CONFIG, None, now_ms=NOW_MS)

    def teardown(self) -> None:
        self.patience.__exit__(None, None, None)
        self.quiet.__exit__(None, None, None)
        shutil.rmtree(self.root, ignore_errors=True)

    def opened(self) -> Logs:
        return Logs.open([self.root], config_of=lambda _topic: CONFIG, now_ms=self.now_ms)

    def start_again(self) -> None:
        # A dead process holds no lock, even if it died right after taking it.
        crash(self.logs)
        (self.root / ".lock").unlink(missing_ok=True)
        self.logs = self.opened()

    @property
    def log(self) -> Log:
        return log_of(self.logs)

    def is_done(self, dies_at: int | None, work: Callable[[], object]) -> bool:
        """Do `work` and return True; or die within it, start again, and return False."""
        if dies_at is None:
            work()
            return True
        if not dies_within(dies_at, work):
            return True
        self.start_again()
        return False

    def come_back(
        self, *, added: list[Kept] | None = None, cut_to: int | None = None, start: int = 0
    ) -> None:
        """Check the remaining records after a death, and continue with them.

        The process died while appending `added`, truncating the log to `cut_to`, or raising the log
        start offset to `start`.
        """
        before = self.records
        least = min([self.end, *([] if cut_to is None else [cut_to])])
        needed = [record.offset + 1 for record in self.history if record.offset < least]
        self.records, self.end = records_of(self.log), int(self.log.log_end_offset)
        assert set(self.records) <= {*before, *(added or [])}
        assert self.end >= max(needed, default=0), "acknowledged records are gone"
        self.highest_start = max(self.highest_start, start)
        self.start = int(self.log.log_start_offset)
        # It may be an older one, from the last checkpoint.
        assert self.start <= self.highest_start, "the log begins above every requested start"
        # A gap at the end is not kept.
        self.committed = min(self.committed, self.end)
        written = [*self.history, *(added or [])]
        self.history = [record for record in written if record.offset < self.end]

    @rule(batches=st.lists(BATCHES, min_size=1, max_size=6), dies_at=DEATHS)
    def append(self, batches: list[list[tuple[bytes, bytes | None]]], dies_at: int | None) -> None:
        for batch in batches:
            added = self.kept(batch, self.end)
            if not self.is_done(dies_at, partial(put, self.log, *batch)):
                self.come_back(added=added)
                assert self.records[-len(added) :] == added or added[0] not in self.records
                return
            self.add(added)

    @rule(batch=BATCHES, gap=st.sampled_from([0, 0, 1, 7]), dies_at=DEATHS)
    def append_as_follower(
        self, batch: list[tuple[bytes, bytes | None]], gap: int, dies_at: int | None
    ) -> None:
        base_offset = self.end + gap
        added = self.kept(batch, base_offset)
        if self.is_done(dies_at, lambda: append_at(self.log, keyed_batch(batch), base_offset)):
            self.add(added)
        else:
            self.come_back(added=added)

    def kept(self, batch: list[tuple[bytes, bytes | None]], base_offset: int) -> list[Kept]:
        return [
            Kept(base_offset + number, NOW_MS + number, *pair) for number, pair in enumerate(batch)
        ]

    def add(self, added: list[Kept]) -> None:
        self.records = [*self.records, *added]
        self.history = [*self.history, *added]
        self.end = added[-1].offset + 1

    @rule(dies_at=DEATHS)
    def roll(self, dies_at: int | None) -> None:
        if not self.is_done(dies_at, lambda: self.log.upkeep.roll(NOW_MS)):
            self.come_back()

    @rule(dies_at=DEATHS)
    def flush(self, dies_at: int | None) -> None:
        if not self.is_done(dies_at, self.log.upkeep.flush):
            self.come_back()

    @rule(dies_at=DEATHS)
    def write_checkpoints(self, dies_at: int | None) -> None:
        def write() -> None:
            self.logs.checkpoints.write_bounds()
            self.logs.checkpoints.write_high_watermarks({PARTITION: Offset(self.end)})
            self.logs.checkpoints.write_cleaner_offsets()

        if not self.is_done(dies_at, write):
            self.come_back()

    @rule(elapsed_ms=st.sampled_from([1, 400, 1_000]))
    def wait(self, elapsed_ms: int) -> None:
        self.now_ms += elapsed_ms

    @rule(back=st.integers(0, 20), dies_at=DEATHS)
    def truncate(self, back: int, dies_at: int | None) -> None:
        # Committed records are never truncated, and only committed ones are cleaned.
        wanted = max(self.committed, self.start, self.end - back)
        starts = [header.base_offset for header, _ in batches_on_disk(self.log.directory)]
        target = min(each for each in [*starts, self.end] if each >= wanted)
        if not self.is_done(dies_at, lambda: self.logs.truncate_to({PARTITION: Offset(target)})):
            self.come_back(cut_to=target)
            return
        self.records = [record for record in self.records if record.offset < target]
        self.history = [record for record in self.history if record.offset < target]
        self.end = target

    @rule(share=st.floats(0, 1), dies_at=DEATHS)
    def delete_records(self, share: float, dies_at: int | None) -> None:
        start = self.start + int(share * (self.end - self.start))
        self.committed = max(self.committed, start)
        if self.is_done(dies_at, lambda: self.log.advance_log_start(Offset(start))):
            self.begin_at(start)
        else:
            self.come_back(start=start)

    @rule(limit=st.integers(0, 3_000), share=st.floats(0, 1), dies_at=DEATHS)
    def run_retention(self, limit: int, share: float, dies_at: int | None) -> None:
        high_watermark = self.start + int(share * (self.end - self.start))
        self.committed = max(self.committed, high_watermark)

        def run() -> None:
            self.log.update_config(replace(CONFIG, retention_bytes=limit))
            delete_expired(self.log, Offset(high_watermark), self.now_ms, 100)
            self.log.update_config(CONFIG)

        if self.is_done(dies_at, run):
            self.begin_at(max(self.start, int(self.log.segments[0].base_offset)))
        else:
            self.come_back(start=high_watermark)
        assert self.log.segments[0].base_offset <= max(high_watermark, self.highest_start)

    def begin_at(self, start: int) -> None:
        self.start, self.highest_start = start, max(self.highest_start, start)
        first = self.log.segments[0].base_offset
        self.records = [record for record in self.records if record.offset >= first]

    @rule(dies_at=DEATHS)
    def remove_files(self, dies_at: int | None) -> None:
        if not self.is_done(dies_at, lambda: self.logs.remove_deleted(self.now_ms, delay_ms=0)):
            self.come_back()

    @rule(slots=st.sampled_from([2, 3, 4, 1_000]), back=st.integers(0, 12), dies_at=DEATHS)
    def clean(self, slots: int, back: int, dies_at: int | None) -> None:
        self.committed = undecided = max(self.committed, self.end - back)
        untouched = [record for record in self.records if record.offset >= undecided]
        before = set(self.records)
        if self.is_done(dies_at, lambda: self.clean_once(slots, undecided)):
            self.records = records_of(self.log)
        else:
            self.come_back()
        assert set(self.records) <= before
        assert [record for record in self.records if record.offset >= undecided] == untouched

    def clean_once(self, slots: int, undecided: int) -> None:
        """Clean as a broker does with a child process; here each step of both may be the last."""
        log = self.log
        facts = log_facts(log, Offset(undecided))
        candidate = weigh(facts, self.logs.checkpoints.cleaner_offset(PARTITION), self.now_ms)
        if candidate.first_dirty_offset >= candidate.first_uncleanable_offset:
            return
        job = cleaning_job(log, candidate, cleaner_settings(slot_count=slots), self.now_ms)
        for report in Cleaner(job, seed=SEED).clean():
            if isinstance(report, GroupCleaned):
                assert log.upkeep.begin_swap(report.replaced, report.size_bytes)
                log.upkeep.sync_names()
                assert log.upkeep.finish_swap(self.now_ms)
            else:
                assert isinstance(report, CleaningDone)
                self.logs.checkpoints.note_cleaner_offset(PARTITION, Offset(report.end_offset))
        log.upkeep.sync_names()
        self.logs.checkpoints.write_cleaner_offsets()

    @rule(dies_at=DEATHS)
    def stop_and_start(self, dies_at: int | None) -> None:
        """Shut down cleanly, or die during the shutdown; then start."""
        if self.is_done(dies_at, self.logs.close):
            self.start_again()
            assert self.logs.table.directories[0].last_shutdown.was_clean
        self.come_back()

    @rule(dies_at=DEATHS)
    def crash_and_start(self, dies_at: int | None) -> None:
        """Start after a crash, or die during that start."""
        if self.is_done(dies_at, self.start_again):
            assert not self.logs.table.directories[0].last_shutdown.was_clean
        self.come_back()

    @invariant()
    def log_matches_the_model(self) -> None:
        assert records_of(self.log) == self.records
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        offsets = [record.offset for record in self.records]
        assert offsets == sorted(set(offsets))

    @invariant()
    def every_reader_sees_the_latest_value_of_every_key(self) -> None:
        assert table(self.records, self.start) == table(self.history, self.start)

    @invariant()
    def checkpoints_lie_within_the_log(self) -> None:
        assert self.log.recovery_point <= self.end
        assert self.start <= self.logs.checkpoints.high_watermark(PARTITION) <= self.end

    @invariant()
    def the_clean_part_has_each_key_once(self) -> None:
        clean_to = self.logs.checkpoints.cleaner_offset(PARTITION) or 0
        keys = [each.key for each in self.records if each.offset < clean_to]
        assert len(keys) == len(set(keys))


LifeOfALogDir.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestLifeOfALogDir = LifeOfALogDir.TestCase

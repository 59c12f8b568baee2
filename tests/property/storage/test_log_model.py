"""A log under random operations agrees with a list of batches.

The model holds bytes and offsets, and predicts every result of the log by a linear search. A crash
of the process loses no written record; `test_torn_write` covers a crash of the machine.
"""

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafkawire.ids import LeaderEpoch, Offset
from kafkawire.records import assign_offsets, read_header, read_records
from storage.config.log_config import LogConfig
from storage.errors import OffsetOutOfRangeError
from storage.log.log import Log
from storage.log.retention_deletion import delete_expired
from tests.unit.storage.logs import NOW_MS, Batch, batch_of, check_files, open_log, split

INTERVAL = 150
CONFIG = LogConfig(
    segment_bytes=2_500, index_interval_bytes=INTERVAL, segment_index_bytes=100, segment_ms=2_500
)
EXPIRY_MS = 3_500
TIMES = st.lists(
    st.one_of(st.integers(0, 3_000), st.sampled_from([-1, 5, 5, 10**6])), min_size=1, max_size=5
)


class LogAgainstModel(RuleBasedStateMachine):
    """`batches` holds every batch that was appended and not dropped, in order."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="log-model-"))
        self.directory = self.root / "orders-0"
        self.batches: list[Batch] = []
        self.start = 0
        self.end = 0
        self.epoch = 0
        self.log: Log = open_log(self.directory, CONFIG)

        # No check depends on durability, and syncs would take most of the time.
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(os, "fsync", lambda _descriptor: None)
        self.patch.setattr(os, "fdatasync", lambda _descriptor: None)

    def teardown(self) -> None:
        self.patch.undo()
        shutil.rmtree(self.root, ignore_errors=True)

    def note(self, data: bytes) -> None:
        self.batches += split(data)
        self.end = self.batches[-1].next_offset

    @rule(times=TIMES, epochs=st.sampled_from([0, 0, 0, 1, 3]))
    def append_as_leader(self, times: list[int], epochs: int) -> None:
        self.epoch += epochs
        batch = batch_of(times)
        info = self.log.append_as_leader(
            memoryview(batch), read_header(batch), LeaderEpoch(self.epoch), NOW_MS
        )
        assert (info.base_offset, info.last_offset) == (self.end, self.end + len(times) - 1)
        self.note(bytes(batch))

    @rule(sets=st.lists(st.tuples(TIMES, st.sampled_from([0, 0, 1, 7])), min_size=1, max_size=8))
    def append_as_follower(self, sets: list[tuple[list[int], int]]) -> None:
        data, next_offset = b"", self.end
        for times, gap in sets:
            batch = batch_of(times)
            assign_offsets(memoryview(batch), next_offset + gap, self.epoch)
            next_offset += gap + len(times)
            data += batch
        self.log.append_as_follower(memoryview(bytearray(data)), NOW_MS)
        self.note(data)

    @rule()
    def roll(self) -> None:
        self.log.upkeep.roll(NOW_MS)

    @rule()
    def flush(self) -> None:
        self.log.upkeep.flush()
        assert self.log.recovery_point == self.end

    @rule(back=st.integers(0, 20))
    def truncate(self, back: int) -> None:
        target = max(0, self.end - back)
        if self.log.truncate_to(Offset(target)):
            # A batch that holds the target is dropped completely, if its segment is still there.
            cut = [batch for batch in self.batches if batch.last_offset >= target]
            self.end = min([target, *(batch.base_offset for batch in cut)])
            self.batches = self.batches[: len(self.batches) - len(cut)]
            self.start = min(self.start, self.end)
        else:
            assert back == 0 or self.end == 0

    @rule(share=st.floats(0, 1))
    def advance_start(self, share: float) -> None:
        target = self.start + int(share * (self.end - self.start))
        self.log.advance_log_start(Offset(target))
        self.start = target
        self.drop_deleted()

    def drop_deleted(self) -> None:
        """Drop the batches of segments that were deleted because they lie below the log start."""
        first = self.log.segments[0].base_offset
        gone = [batch for batch in self.batches if batch.base_offset < first]
        assert all(batch.last_offset < self.start for batch in gone)
        self.batches = self.batches[len(gone) :]

    @rule(share=st.floats(0, 1), limit=st.integers(0, 6_000), age=st.integers(0, 3_500))
    def delete_expired(self, share: float, limit: int, age: int) -> None:
        """Retention deletes a run of the oldest segments, all of them committed."""
        high_watermark = self.start + int(share * (self.end - self.start))
        config = replace(CONFIG, retention_bytes=limit, retention_ms=age)
        expected = self.naively_expired(config, high_watermark)
        self.log.update_config(config)
        count = delete_expired(self.log, Offset(high_watermark), EXPIRY_MS, max_segments=1_000)
        self.log.update_config(CONFIG)
        assert count == expected
        first = self.log.segments[0].base_offset
        self.start = max(self.start, first)
        self.batches = [batch for batch in self.batches if batch.base_offset >= first]

    def naively_expired(self, config: LogConfig, high_watermark: int) -> int:
        """Return the number of segments to delete, by inspecting every batch, one at a time."""
        bases = [int(segment.base_offset) for segment in self.log.segments]
        ends = [*bases[1:], self.end]
        there = [
            (end, [batch for batch in self.batches if base <= batch.base_offset < end])
            for base, end in zip(bases, ends, strict=True)
        ]

        def is_below_start() -> bool:
            return len(there) > 1 and there[0][0] <= self.start

        def is_superfluous() -> bool:
            rest = sum(len(batch.data) for _, batches in there[1:] for batch in batches)
            return rest >= (config.retention_bytes or 0)

        def is_old() -> bool:
            times = [batch.max_timestamp_ms for batch in there[0][1]]
            # Without any timestamp the modification time counts, which is now.
            newest = max(times, default=-1)
            return newest >= 0 and EXPIRY_MS - newest > (config.retention_ms or 0)

        for rule_says in (is_below_start, is_superfluous, is_old):
            while there and there[0][0] <= high_watermark and rule_says():
                if len(there) == 1 and not there[0][1]:
                    break
                del there[0]
        return len(bases) - len(there)

    @rule(ahead=st.integers(0, 10))
    def restart_at_offset(self, ahead: int) -> None:
        self.start = self.end = self.end + ahead
        self.batches = []
        self.log.truncate_fully_and_start_at(Offset(self.start))

    @rule()
    def restart_cleanly(self) -> None:
        self.log.upkeep.close()
        check_files(self.directory, INTERVAL)
        self.log = open_log(self.directory, CONFIG, log_start_offset=self.start)
        self.check_end()

    @rule(forget=st.booleans())
    def crash(self, forget: bool) -> None:
        recovery_point = 0 if forget else self.log.recovery_point
        self.log = open_log(
            self.directory,
            CONFIG,
            was_clean=False,
            recovery_point=recovery_point,
            log_start_offset=self.start,
        )
        self.check_end()

    def check_end(self) -> None:
        """After a start the log ends behind its last batch: a gap at the end is not kept."""
        assert self.log.log_end_offset <= self.end
        self.drop_deleted()
        last = self.log.segments[-1]
        ends = [batch.next_offset for batch in self.batches]
        assert self.log.log_end_offset == max([*ends, last.base_offset])
        self.end = self.log.log_end_offset

    @invariant()
    def check_offsets(self) -> None:
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        assert self.log.recovery_point <= self.end
        bases = [segment.base_offset for segment in self.log.segments]
        assert bases == sorted(set(bases))

    @invariant()
    def check_epochs(self) -> None:
        """Each epoch begins at its first batch; epochs without batches are ignored."""
        known = {entry.epoch: entry.start_offset for entry in self.log.leader_epochs.entries}
        for batch in self.batches:
            if batch.base_offset < self.start:
                continue
            assert known[LeaderEpoch(batch.epoch)] <= batch.base_offset
            assert self.log.leader_epochs.epoch_for(Offset(batch.base_offset)) == batch.epoch

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data(), max_bytes=st.integers(1, 1_500), min_one=st.booleans())
    def read(self, data: st.DataObject, max_bytes: int, min_one: bool) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        end = data.draw(st.one_of(st.just(self.end), st.integers(self.start, self.end)))
        region = self.log.read(
            Offset(offset), max_bytes, end_offset=Offset(end), min_one_batch=min_one
        )
        assert region.read() == self.expected(offset, max_bytes, end, min_one)

    def expected(self, offset: int, max_bytes: int, end: int, min_one: bool) -> bytes:
        if offset >= end:
            return b""
        bases = [int(segment.base_offset) for segment in self.log.segments]
        there = [batch for batch in self.batches if batch.last_offset >= offset]
        result = b""
        for number, batch in enumerate(there):
            in_first_segment = not any(
                there[0].base_offset < base <= batch.base_offset for base in bases
            )
            fits = len(result) + len(batch.data) <= max_bytes or (number == 0 and min_one)
            if batch.last_offset >= end or not in_first_segment or not fits:
                break
            result += batch.data
        return result

    @rule(timestamp_ms=st.one_of(st.integers(-1, 3_100), st.just(10**6)), data=st.data())
    def search_by_time(self, timestamp_ms: int, data: st.DataObject) -> None:
        end = data.draw(st.one_of(st.just(self.end), st.integers(self.start, self.end)))
        records = [
            (record.timestamp_ms, record.offset, batch.epoch)
            for batch in self.batches
            for record in read_records(batch.data)
            if record.offset >= self.start
        ]
        later = [record for record in records if record[0] >= timestamp_ms]
        expected = later[0] if later and later[0][1] < end else None
        assert self.log.offset_for_timestamp(timestamp_ms, Offset(end)) == expected

    @rule(outside=st.integers(1, 50))
    def read_outside(self, outside: int) -> None:
        for offset in (self.end + outside, self.start - outside):
            with pytest.raises(OffsetOutOfRangeError):
                self.log.read(Offset(offset), 100, end_offset=Offset(self.end), min_one_batch=True)


TestLogAgainstModel = LogAgainstModel.TestCase
TestLogAgainstModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

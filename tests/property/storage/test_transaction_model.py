"""Readers of committed records get from a log the same as from a list of all writes.

A leader and a follower write the same batches, in different chunks and segments. The model keeps
every batch. A reader gets regions of the log and a list of aborted transactions, and filters their
records as every client does. The result must be exactly the committed records.
"""

import os
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkawire.ids import Offset
from kafkawire.records import ControlType, read_control_batch, read_header
from storage.config.log_config import LogConfig
from storage.disk.layout import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from storage.log.log import Log
from storage.segment.transaction_index import AbortedTransaction
from tests.unit.storage.faults import dies_within
from tests.unit.storage.logs import EVERYTHING, NOW_MS, PARTITION, batch_of, split
from tests.unit.storage.produced_batches import follow, marker, produced, write

LEADER = LogConfig(segment_bytes=900, index_interval_bytes=150)
FOLLOWER = LogConfig(segment_bytes=1500, index_interval_bytes=300)
PRODUCERS = st.integers(1, 3)
COUNTS = st.integers(1, 3)
SHARES = st.floats(0, 1)
NOBODY = -1


@dataclass(frozen=True)
class Written:
    """A batch of the log; `ends` is the type of a control batch."""

    base_offset: int
    count: int
    producer_id: int = NOBODY
    ends: ControlType | None = None

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.count


@dataclass(frozen=True)
class Transaction:
    """The batches of a transaction, and the type and offset of its end."""

    producer_id: int
    batches: tuple[Written, ...]
    end: Written | None = None


def transactions_in(history: list[Written]) -> list[Transaction]:
    found: list[Transaction] = []
    opened: dict[int, list[Written]] = {}
    for batch in history:
        if batch.producer_id == NOBODY:
            continue
        if batch.ends is None:
            opened.setdefault(batch.producer_id, []).append(batch)
        elif batch.producer_id in opened:
            batches = tuple(opened.pop(batch.producer_id))
            found.append(Transaction(batch.producer_id, batches, batch))
    return [*found, *(Transaction(key, tuple(batches)) for key, batches in opened.items())]


def history_in(log: Log) -> list[Written]:
    """Read the batches of the model from the files."""
    found = []
    for segment in log.segments:
        for batch in split(segment.file.read(0, segment.size_bytes)):
            header = read_header(batch.data)
            end = read_control_batch(batch.data) if header.is_control else None
            producer_id = header.producer_id
            kind = None if end is None else end.control_type
            count = header.last_offset_delta + 1
            found.append(Written(header.base_offset, count, producer_id, kind))
    return found


def left_by_a_reader(data: bytes, aborted: list[AbortedTransaction]) -> list[int]:
    """Return the offsets of the records that a read_committed consumer returns."""
    ahead = sorted((each.first_offset, each.producer_id) for each in aborted)
    aborting: set[int] = set()
    offsets: list[int] = []
    for batch in split(data):
        header = read_header(batch.data)
        while ahead and ahead[0][0] <= header.last_offset:
            aborting.add(ahead.pop(0)[1])
        if header.is_control:
            end = read_control_batch(batch.data)
            if end is not None and end.control_type is ControlType.ABORT:
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            offsets += range(batch.base_offset, batch.next_offset)
    return offsets


def index_of(log: Log) -> list[AbortedTransaction]:
    found: list[AbortedTransaction] = []
    for segment in log.segments:
        segment.transactions.find(0, 2**62, found)
    return sorted(set(found), key=lambda each: each.last_offset)


class TransactionsAgainstModel(RuleBasedStateMachine):
    """`history` holds every written batch, including deleted ones."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="transaction-model-"))
        self.history: list[Written] = []
        self.high_watermark = 0
        self.log = self.opened("leader", LEADER)
        self.follower = self.opened("follower", FOLLOWER)
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(os, "fsync", lambda _descriptor: None)
        self.patch.setattr(os, "fdatasync", lambda _descriptor: None)

    def teardown(self) -> None:
        self.patch.undo()
        shutil.rmtree(self.root, ignore_errors=True)

    def opened(
        self,
        name: str,
        config: LogConfig,
        *,
        was_clean: bool = True,
        recovery_point: int = 0,
        log_start_offset: int = 0,
    ) -> Log:
        directory = self.root / name
        directory.mkdir(exist_ok=True)
        return Log.open(
            directory,
            config,
            topic_partition=PARTITION,
            recovery_point=Offset(recovery_point),
            log_start_offset=Offset(log_start_offset),
            high_watermark=Offset(self.high_watermark),
            was_clean=was_clean,
            now_ms=NOW_MS,
        )

    # Writes

    @rule(producer_id=PRODUCERS, count=COUNTS)
    def append(self, producer_id: int, count: int) -> None:
        end = int(self.log.log_end_offset)
        sequence = self.next_sequence(producer_id)
        info = write(self.log, produced(producer_id, sequence, count, is_transactional=True))
        assert info.base_offset == end
        self.history.append(Written(end, count, producer_id))

    def next_sequence(self, producer_id: int) -> int:
        known = self.log.producers.get(producer_id)
        return 0 if known is None else known.next_sequence

    @rule(count=COUNTS)
    def append_outside_of_transactions(self, count: int) -> None:
        end = int(self.log.log_end_offset)
        write(self.log, batch_of([NOW_MS] * count))
        self.history.append(Written(end, count))

    @rule(producer_id=PRODUCERS, kind=st.sampled_from([ControlType.ABORT, *ControlType]))
    def end_transaction(self, producer_id: int, kind: ControlType) -> None:
        end = int(self.log.log_end_offset)
        write(self.log, marker(producer_id, end, kind))
        self.history.append(Written(end, 1, producer_id, kind))

    @initialize(dice=st.randoms(use_true_random=False))
    def begin_with_some(self, dice: random.Random) -> None:
        self.write_some(dice)

    @rule(dice=st.randoms(use_true_random=False))
    def write_some(self, dice: random.Random) -> None:
        for _ in range(dice.randint(1, 12)):
            choice = dice.random()
            if choice < 0.5:
                self.append(dice.randint(1, 3), dice.randint(1, 2))
            elif choice < 0.9:
                kind = dice.choice([ControlType.ABORT, *ControlType])
                self.end_transaction(dice.randint(1, 3), kind)
            else:
                self.append_outside_of_transactions(1)
        self.replicate(dice.randint(1, 1_000))
        self.raise_high_watermark(dice.choice([0.3, 0.9, 1.0]))

    @rule(max_bytes=st.integers(1, 2_000))
    def replicate(self, max_bytes: int) -> None:
        while (start := self.follower.log_end_offset) < self.log.log_end_offset:
            region = self.log.read(
                max(start, self.log.log_start_offset),
                max_bytes,
                end_offset=self.log.log_end_offset,
                min_one_batch=True,
            )
            if start < self.log.log_start_offset:
                self.follower.truncate_fully_and_start_at(self.log.log_start_offset)
            self.follower.append_as_follower(memoryview(bytearray(region.read())), NOW_MS)

    # Events that change the logs

    @rule(share=SHARES)
    def raise_high_watermark(self, share: float) -> None:
        rest = self.log.log_end_offset - self.high_watermark
        self.high_watermark += int(share * rest)

    @rule(share=SHARES)
    def advance_start(self, share: float) -> None:
        start = self.log.log_start_offset
        self.log.advance_log_start(Offset(start + int(share * (self.high_watermark - start))))

    @rule()
    def roll(self) -> None:
        self.log.upkeep.roll(NOW_MS)

    @rule()
    def flush(self) -> None:
        self.log.upkeep.flush()

    @rule(back=st.integers(1, 12))
    def truncate(self, back: int) -> None:
        target = Offset(max(self.log.log_start_offset, self.log.log_end_offset - back))
        self.log.truncate_to(target)
        self.after_a_cut()

    def after_a_cut(self) -> None:
        end = self.log.log_end_offset
        self.history = [each for each in self.history if each.base_offset < end]
        self.high_watermark = min(self.high_watermark, end)
        if self.follower.log_end_offset > end:
            self.follower.truncate_to(end)

    @rule(is_leader=st.booleans())
    def restart_cleanly(self, is_leader: bool) -> None:
        log = self.log if is_leader else self.follower
        log.upkeep.close()
        self.reopen(is_leader, was_clean=True)

    @rule(is_leader=st.booleans(), are_indexes_lost=st.booleans())
    def crash(self, is_leader: bool, are_indexes_lost: bool) -> None:
        log = self.log if is_leader else self.follower
        if are_indexes_lost:
            for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
                for path in log.directory.glob(f"*{suffix}"):
                    path.unlink()
        self.reopen(is_leader, was_clean=False)

    @rule(
        dies_at=st.integers(0, 12),
        producer_id=PRODUCERS,
        operation=st.sampled_from(["append", "end", "truncate", "roll", "flush", "close"]),
    )
    def die_within(self, dies_at: int, producer_id: int, operation: str) -> None:
        log = self.log
        offset = log.log_end_offset
        sequence = self.next_sequence(producer_id)
        work: dict[str, Callable[[], object]] = {
            "append": lambda: follow(log, produced(producer_id, sequence, is_transactional=True)),
            "end": lambda: follow(log, marker(producer_id, offset, ControlType.ABORT)),
            "truncate": lambda: log.truncate_to(Offset(max(log.log_start_offset, offset - 4))),
            "roll": lambda: log.upkeep.roll(NOW_MS),
            "flush": log.upkeep.flush,
            "close": log.upkeep.close,
        }
        known = self.history
        dies_within(dies_at, work[operation])
        self.reopen(is_leader=True, was_clean=False)
        first = self.log.segments[0].base_offset
        found = history_in(self.log)
        self.history = [each for each in known if each.base_offset < first] + found
        self.after_a_cut()

    def reopen(self, is_leader: bool, *, was_clean: bool) -> None:
        log = self.log if is_leader else self.follower
        opened = self.opened(
            "leader" if is_leader else "follower",
            LEADER if is_leader else FOLLOWER,
            was_clean=was_clean,
            recovery_point=log.recovery_point,
            log_start_offset=log.log_start_offset,
        )
        if is_leader:
            self.log = opened
        else:
            self.follower = opened

    # Invariants

    @invariant()
    def check_leader(self) -> None:
        self.check(self.log)

    @invariant()
    def check_follower(self) -> None:
        self.check(self.follower)

    def check(self, log: Log) -> None:
        end, start = log.log_end_offset, log.log_start_offset
        history = [each for each in self.history if each.base_offset < end]
        transactions = transactions_in(history)
        high_watermark = min(self.high_watermark, end)
        undecided = [
            each
            for each in transactions
            if each.end is None or each.end.base_offset >= high_watermark
        ]
        # The log may lose the deleted part of a transaction, and with it the first offset.
        visible = [
            batch.base_offset
            for each in undecided
            for batch in each.batches
            if batch.next_offset > start
        ]
        known = [each.batches[0].base_offset for each in undecided]
        stable = log.last_stable_offset(Offset(high_watermark))
        lowest = max(min([high_watermark, *known]), min(start, high_watermark))
        assert lowest <= stable <= max(start, min([high_watermark, *visible]))
        aborted = {
            batch
            for each in transactions
            for batch in each.batches
            if each.end is not None and each.end.ends is ControlType.ABORT
        }
        for batch in history:
            offset = batch.next_offset - 1
            for max_bytes in (1, 400, EVERYTHING):
                if start <= offset < stable:
                    self.check_read(log, Offset(offset), max_bytes, stable, history, aborted)

    def check_read(
        self,
        log: Log,
        offset: Offset,
        max_bytes: int,
        stable: Offset,
        history: list[Written],
        aborted: set[Written],
    ) -> None:
        region = log.read(offset, max_bytes, end_offset=stable, min_one_batch=True)
        told = log.aborted_in(region, offset, stable)
        data = region.read()
        got = {batch.base_offset for batch in split(data)}
        expected = [
            each
            for batch in history
            if batch.base_offset in got and batch.ends is None and batch not in aborted
            for each in range(batch.base_offset, batch.next_offset)
        ]
        assert left_by_a_reader(data, told) == expected
        assert all(each.last_offset >= offset and each.first_offset < stable for each in told)

    @invariant()
    def check_that_both_have_the_same_index(self) -> None:
        logs = (self.log, self.follower)
        start = max(log.log_start_offset for log in logs)
        end = min(log.log_end_offset for log in logs)
        expected = {
            (each.producer_id, each.end.base_offset)
            for each in transactions_in(self.history)
            if each.end is not None
            and each.end.ends is ControlType.ABORT
            and start <= each.batches[0].base_offset
            and each.end.base_offset < end
        }
        for log in logs:
            found = {
                (each.producer_id, each.last_offset): each.first_offset for each in index_of(log)
            }
            assert expected <= found.keys()
            assert all(first <= last for (_, last), first in found.items())


TestTransactionsAgainstModel = TransactionsAgainstModel.TestCase
TestTransactionsAgainstModel.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None
)

"""The producer state of a log agrees with a list of all written batches.

The model keeps every batch. The possible state after a restart or a truncation depends on the
snapshot from which the log starts. A snapshot has only the last batch of each producer, and the
model does the same.
"""

import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkawire.ids import Offset
from kafkawire.records import ControlType
from storage.config.log_config import LogConfig
from storage.errors import InvalidProducerEpochError, OutOfOrderSequenceError
from storage.producers.producer_snapshots import snapshot_offsets
from tests.unit.storage.logs import open_log
from tests.unit.storage.produced_batches import MAX_SEQUENCE, follow, marker, produced, write

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150)
PRODUCERS = st.integers(1, 3)
COUNTS = st.integers(1, 4)


@dataclass(frozen=True)
class Written:
    """A batch, or the end of a transaction, in the model's log."""

    producer_id: int
    epoch: int
    base_sequence: int
    count: int
    base_offset: int
    is_transactional: bool = False
    is_marker: bool = False

    @property
    def last_sequence(self) -> int:
        return (self.base_sequence + self.count - 1) % (MAX_SEQUENCE + 1)


@dataclass
class Known:
    """The state of a producer in the model."""

    epoch: int
    batches: list[Written] = field(default_factory=list)
    open_since: int | None = None
    has_ended: bool = False
    """Whether a transaction of the producer has ended."""

    def as_tuple(self) -> tuple[object, ...]:
        rows = [(each.last_sequence, each.base_offset, each.count - 1) for each in self.batches]
        return (self.epoch, rows, -1 if self.open_since is None else self.open_since)


World = dict[int, Known]


def replayed(world: World, batches: Iterable[Written]) -> World:
    result = {
        producer_id: Known(known.epoch, list(known.batches), known.open_since, known.has_ended)
        for producer_id, known in world.items()
    }
    for batch in batches:
        known = result.setdefault(batch.producer_id, Known(batch.epoch))
        if known.epoch != batch.epoch:
            known.epoch, known.batches = batch.epoch, []
        if batch.is_marker:
            known.open_since, known.has_ended = None, True
            continue
        known.batches = [*known.batches, batch][-5:]
        if batch.is_transactional and known.open_since is None:
            known.open_since = batch.base_offset
    return result


def reduced(world: World) -> World:
    """Return the part of the state that a snapshot keeps."""
    return {
        producer_id: Known(known.epoch, known.batches[-1:], known.open_since, known.has_ended)
        for producer_id, known in world.items()
    }


def recalled(world: World, history: list[Written], start: int, end: int) -> World:
    """Return the state after a start recalls batches in the segment before a snapshot at `end`.

    Only batches that lead up to the last one without a gap count.
    """
    result = replayed(world, [])
    for producer_id, known in result.items():
        chain: list[Written] = []
        for each in history:
            is_its = each.producer_id == producer_id and each.epoch == known.epoch
            if not is_its or each.is_marker or not start <= each.base_offset < end:
                continue
            if chain and each.base_sequence != (chain[-1].last_sequence + 1) % 2**31:
                chain = []
            chain.append(each)
        if chain and chain[-1:] == known.batches:
            known.batches = chain[-5:]
    return result


def shortened(world: World, end: int) -> World | None:
    """Return the state below `end`; None if that requires reading the log again."""
    result = replayed(world, [])
    for known in result.values():
        known.batches = [each for each in known.batches if each.base_offset < end]
        if not known.batches or known.open_since is not None or known.has_ended:
            return None
    return result


class ProducersAgainstModel(RuleBasedStateMachine):
    """`history` holds all batches; `base` is the offset and state from which the log started."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="producer-model-"))
        self.directory = self.root / "orders-0"
        self.log = open_log(self.directory, CONFIG)
        self.history: list[Written] = []
        self.base: tuple[int, World] = (0, {})
        self.snapshots: dict[int, World] = {}
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(os, "fsync", lambda _descriptor: None)
        self.patch.setattr(os, "fdatasync", lambda _descriptor: None)

    def teardown(self) -> None:
        self.patch.undo()
        shutil.rmtree(self.root, ignore_errors=True)

    def world_at(self, offset: int) -> World:
        start, world = self.base
        return replayed(
            world, (each for each in self.history if start <= each.base_offset < offset)
        )

    def world(self) -> World:
        return self.world_at(self.log.log_end_offset)

    def note_snapshots(self) -> None:
        """Record the expected content of new snapshots on disk."""
        found = snapshot_offsets(self.directory)
        self.snapshots = {
            offset: self.snapshots[offset]
            if offset in self.snapshots
            else reduced(self.world_at(offset))
            for offset in found
        }

    # Actions of producers

    @rule(producer_id=PRODUCERS, count=COUNTS, start=st.sampled_from([0, 0, MAX_SEQUENCE - 2]))
    def append_next(self, producer_id: int, count: int, start: int) -> None:
        known = self.world().get(producer_id)
        if known is not None:
            start = (known.batches[-1].last_sequence + 1) % 2**31 if known.batches else 0
        self.append(Written(producer_id, known.epoch if known else 0, start, count, -1))

    @rule(producer_id=PRODUCERS, count=COUNTS, bump=st.integers(1, 2))
    def append_in_new_epoch(self, producer_id: int, count: int, bump: int) -> None:
        known = self.world().get(producer_id)
        self.append(Written(producer_id, known.epoch + bump if known else 0, 0, count, -1))

    def append(self, batch: Written) -> None:
        known = self.world().get(batch.producer_id)
        is_transactional = known is not None and known.open_since is not None
        end = self.log.log_end_offset
        info = write(
            self.log,
            produced(
                batch.producer_id,
                batch.base_sequence,
                batch.count,
                epoch=batch.epoch,
                is_transactional=is_transactional,
            ),
        )
        assert (info.base_offset, info.last_offset) == (end, end + batch.count - 1)
        self.note(batch, end, is_transactional=is_transactional)

    def note(self, batch: Written, offset: int, *, is_transactional: bool = False) -> None:
        self.history.append(
            Written(
                batch.producer_id,
                batch.epoch,
                batch.base_sequence,
                batch.count,
                offset,
                is_transactional,
                batch.is_marker,
            )
        )

    @rule(producer_id=PRODUCERS, count=COUNTS)
    def follow_a_transaction(self, producer_id: int, count: int) -> None:
        known = self.world().get(producer_id)
        epoch = known.epoch if known else 0
        start = (known.batches[-1].last_sequence + 1) % 2**31 if known and known.batches else 0
        offset = self.log.log_end_offset
        follow(self.log, produced(producer_id, start, count, epoch=epoch, is_transactional=True))
        self.note(Written(producer_id, epoch, start, count, -1), offset, is_transactional=True)

    @rule(producer_id=PRODUCERS, bump=st.integers(0, 1))
    def follow_its_end(self, producer_id: int, bump: int) -> None:
        known = self.world().get(producer_id)
        epoch = (known.epoch if known else 0) + bump
        offset = self.log.log_end_offset
        follow(self.log, marker(producer_id, offset, ControlType.ABORT, epoch=epoch))
        self.note(Written(producer_id, epoch, -1, 1, -1, is_marker=True), offset)

    @rule(producer_id=PRODUCERS, data=st.data())
    def send_again(self, producer_id: int, data: st.DataObject) -> None:
        known = self.world().get(producer_id)
        if known is None or not known.batches:
            return
        batch = data.draw(st.sampled_from(known.batches))
        end = self.log.log_end_offset
        sent = produced(producer_id, batch.base_sequence, batch.count, epoch=batch.epoch)
        info = write(self.log, sent)
        assert info.base_offset == batch.base_offset
        assert info.last_offset == batch.base_offset + batch.count - 1
        assert self.log.log_end_offset == end

    @rule(producer_id=PRODUCERS, sequence=st.integers(0, MAX_SEQUENCE), count=COUNTS)
    def send_out_of_order(self, producer_id: int, sequence: int, count: int) -> None:
        known = self.world().get(producer_id)
        if known is None:
            return
        expected = (known.batches[-1].last_sequence + 1) % 2**31 if known.batches else 0
        ranges = [(each.base_sequence, each.count) for each in known.batches]
        if sequence == expected or (sequence, count) in ranges:
            return
        with pytest.raises(OutOfOrderSequenceError):
            write(self.log, produced(producer_id, sequence, count, epoch=known.epoch))

    @rule(producer_id=PRODUCERS, sequence=st.integers(0, 10))
    def send_as_a_zombie(self, producer_id: int, sequence: int) -> None:
        known = self.world().get(producer_id)
        if known is None or known.epoch == 0:
            return
        with pytest.raises(InvalidProducerEpochError):
            write(self.log, produced(producer_id, sequence, epoch=known.epoch - 1))

    # Changes of the log

    @rule()
    def roll(self) -> None:
        self.log.upkeep.roll(0)

    @rule(share=st.floats(0, 1))
    def advance_start(self, share: float) -> None:
        start = self.log.log_start_offset
        target = start + int(share * (self.log.log_end_offset - start))
        self.log.advance_log_start(Offset(target))

    @rule(back=st.integers(1, 15))
    def truncate(self, back: int) -> None:
        had_producers = len(self.log.producers) > 0
        world = self.world()
        first = self.log.segments[0].base_offset
        target = max(0, self.log.log_end_offset - back)
        if self.log.truncate_to(Offset(target)):
            end = self.log.log_end_offset
            cut = shortened(world, end)
            self.history = [each for each in self.history if each.base_offset < end]
            if target < first:
                # Nothing is left. A snapshot of an orderly stop between the deleted segments does
                # not count, because the records of its open transactions are gone.
                self.base = (end, {})
            elif had_producers and cut is None:
                self.know_from(end)
            else:
                self.base = (end, cut or {})

    @rule()
    def restart_at_offset(self) -> None:
        self.log.truncate_fully_and_start_at(self.log.log_end_offset)
        self.history, self.base = [], (self.log.log_end_offset, {})

    @rule()
    def flush(self) -> None:
        self.log.upkeep.flush()

    @rule()
    def restart_cleanly(self) -> None:
        self.log.upkeep.close()
        self.note_snapshots()
        self.reopen(was_clean=True)
        self.know_from(self.log.log_end_offset)

    @rule()
    def crash(self) -> None:
        bases = [int(segment.base_offset) for segment in self.log.segments]
        flushed = [base for base in bases if base <= self.log.recovery_point]
        self.reopen(was_clean=False)
        self.know_from(max(flushed, default=bases[0]))

    def reopen(self, *, was_clean: bool) -> None:
        self.log = open_log(
            self.directory,
            CONFIG,
            was_clean=was_clean,
            recovery_point=self.log.recovery_point,
            log_start_offset=self.log.log_start_offset,
        )

    def know_from(self, newest: int) -> None:
        """Rebuild the state from the newest snapshot up to `newest`, or from the log alone."""
        usable = [offset for offset in self.snapshots if offset <= newest]
        if usable:
            bases = [segment.base_offset for segment in self.log.segments]
            start = max([each for each in bases if each < max(usable)], default=max(usable))
            world = self.snapshots[max(usable)]
            self.base = (max(usable), recalled(world, self.history, start, max(usable)))
        else:
            self.base = (int(self.log.segments[0].base_offset), {})

    @invariant()
    def check_state(self) -> None:
        self.note_snapshots()
        found = {
            entry.producer_id: (
                entry.epoch,
                [
                    (each.last_sequence, each.base_offset, each.offset_delta)
                    for each in entry.batches
                ],
                entry.transaction_first_offset,
            )
            for entry in self.log.producers
        }
        assert found == {key: known.as_tuple() for key, known in self.world().items()}

    @invariant()
    def check_last_stable_offset(self) -> None:
        end = self.log.log_end_offset
        since = [each.open_since for each in self.world().values() if each.open_since is not None]
        assert self.log.producers.last_stable_offset(end) == min([end, *since])


TestProducersAgainstModel = ProducersAgainstModel.TestCase
TestProducersAgainstModel.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None
)

"""Offsets of open transactions: `broker.groups.undecided`, and their place among the others."""

import random

import pytest

from broker.groups.offsets import GroupOffsets
from broker.groups.rebalance import GroupLimits
from broker.groups.replay import OffsetsReplay
from kafkawire.group_records import CommittedOffset, offset_key, offset_value
from kafkawire.ids import TopicPartition
from kafkawire.records import BatchBuilder, ControlType, build_control_batch, read_header

P0, P1, P2 = (TopicPartition("t", index) for index in range(3))
A, B = 7, 8
NOW_MS = 1_000
GROUP = "g"
LIMITS = GroupLimits(max_size=100, initial_rebalance_delay_ms=0)


def at(offset: int) -> CommittedOffset:
    return CommittedOffset(offset, 0, "", NOW_MS, None)


def test_offset_of_a_transaction_counts_after_its_commit() -> None:
    offsets = GroupOffsets()
    offsets.undecided.add(A, {P0: at(5)}, 10)
    assert offsets.is_pending(P0)
    assert not offsets.is_pending(P1)
    assert (offsets.get(P0), offsets.is_empty, offsets.all_partitions()) == (None, False, [P0])
    offsets.end_transaction(A, 11, is_commit=True)
    assert (offsets.get(P0), offsets.is_pending(P0)) == (at(5), False)


def test_offset_of_an_aborted_transaction_is_dropped() -> None:
    offsets = GroupOffsets()
    offsets.undecided.add(A, {P0: at(5)}, 10)
    offsets.end_transaction(A, 11, is_commit=False)
    assert (offsets.get(P0), offsets.is_empty) == (None, True)


def test_last_commit_of_a_transaction_counts() -> None:
    offsets = GroupOffsets()
    offsets.undecided.add(A, {P0: at(5)}, 10)
    offsets.undecided.add(A, {P0: at(6)}, 11)
    offsets.end_transaction(A, 12, is_commit=True)
    assert offsets.get(P0) == at(6)


@pytest.mark.parametrize(("plain_position", "kept"), [(9, 5), (11, 6)])
def test_later_one_of_plain_and_transactional_commits_counts(
    plain_position: int, kept: int
) -> None:
    offsets, plain = GroupOffsets(), {P0: at(6)}
    offsets.undecided.add(A, {P0: at(5)}, 10)
    offsets.begin(plain)
    offsets.finish(plain, plain_position)
    offsets.end_transaction(A, 12, is_commit=True)
    assert offsets.get(P0) == at(kept)


def test_marker_decides_on_its_producer_and_on_earlier_offsets_only() -> None:
    offsets = GroupOffsets()
    offsets.undecided.add(A, {P0: at(5)}, 10)
    offsets.undecided.add(B, {P0: at(6), P1: at(6)}, 11)
    offsets.undecided.add(A, {P2: at(7)}, 13)
    offsets.end_transaction(A, 12, is_commit=True)
    assert [offsets.get(each) for each in (P0, P1, P2)] == [at(5), None, None]
    assert offsets.is_pending(P0), "the other transaction is open"
    assert sorted(offsets.undecided.producer_ids) == [A, B]
    offsets.end_transaction(9, 14, is_commit=True)
    assert sorted(offsets.undecided) == [P0, P1, P2]


def test_removed_offset_is_not_revived_by_a_marker() -> None:
    """OffsetDelete, and the deletion of a topic or group, write a tombstone behind it."""
    offsets = GroupOffsets()
    offsets.undecided.add(A, {P0: at(5), P1: at(5)}, 10)
    assert offsets.remove([P0, P2]) == [P0]
    offsets.end_transaction(A, 12, is_commit=True)
    assert [offsets.get(each) for each in (P0, P1)] == [None, at(5)]


def test_pending_offset_of_a_transaction_does_not_expire() -> None:
    offsets, old = GroupOffsets(), {P0: at(4), P1: at(4)}
    offsets.begin(old)
    offsets.finish(old, 1)
    offsets.undecided.add(A, {P0: at(5)}, 10)
    expired = offsets.expired(NOW_MS + 10, 1, is_kept=lambda _topic: False, since_ms=None)
    assert expired == [P1]


class Log:
    """The log of one group's offsets, and the offsets in memory."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.offsets = GroupOffsets()
        self.batches: list[bytearray] = []

    @property
    def end(self) -> int:
        return len(self.batches)

    def _append(self, producer_id: int, partition: TopicPartition, value: bytes | None) -> None:
        producer = (producer_id, 0, 0) if producer_id >= 0 else (-1, -1, -1)
        builder = BatchBuilder(
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
            is_transactional=producer_id >= 0,
        )
        builder.append(NOW_MS, offset_key(GROUP, partition), value)
        self.batches.append(builder.build(self.end))

    def commit(self) -> None:
        partition, committed = self.dice.choice([P0, P1]), at(self.dice.randrange(100))
        position = self.end
        self._append(-1, partition, offset_value(committed))
        self.offsets.begin({partition: committed})
        self.offsets.finish({partition: committed}, position)

    def commit_in_transaction(self) -> None:
        partition, committed = self.dice.choice([P0, P1]), at(self.dice.randrange(100))
        producer_id, position = self.dice.choice([A, B]), self.end
        self._append(producer_id, partition, offset_value(committed))
        self.offsets.undecided.add(producer_id, {partition: committed}, position)

    def end_transaction(self) -> None:
        producer_id, offset = self.dice.choice([A, B]), self.end
        kind = self.dice.choice(list(ControlType))
        self.batches.append(
            build_control_batch(
                kind,
                producer_id=producer_id,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=NOW_MS,
                base_offset=offset,
            )
        )
        is_commit = kind is ControlType.COMMIT
        self.offsets.end_transaction(producer_id, offset, is_commit=is_commit)

    def delete(self) -> None:
        for partition in self.offsets.remove([self.dice.choice([P0, P1])]):
            self._append(-1, partition, None)

    def loaded(self) -> GroupOffsets:
        replay = OffsetsReplay()
        for batch in self.batches:
            replay.add(memoryview(batch), read_header(batch))
        groups = replay.groups(LIMITS, NOW_MS)
        assert len(groups) <= 1
        return groups[0].offsets if groups else GroupOffsets()


def content(offsets: GroupOffsets) -> object:
    undecided = offsets.undecided
    return (
        {each: offsets.get(each) for each in offsets.partitions()},
        {each: sorted(undecided.take(each, 2**62).items()) for each in undecided.producer_ids},
    )


@pytest.mark.parametrize("seed", range(40))
def test_a_load_finds_the_offsets_of_the_coordinator_before(seed: int) -> None:
    log = Log(seed)
    operations = [log.commit, log.commit_in_transaction, log.commit_in_transaction]
    operations += [log.end_transaction, log.delete]
    for _ in range(20):
        log.dice.choice(operations)()
    loaded, held = log.loaded(), log.offsets
    assert loaded.is_empty == held.is_empty
    assert content(loaded) == content(held)

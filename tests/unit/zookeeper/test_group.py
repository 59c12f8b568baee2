"""The group side of a consumer: commits, and the order of a hand-over."""

import asyncio
from collections.abc import Collection, Sequence
from types import SimpleNamespace

import pytest

from coordination.errors import ConnectionLossError
from kafkawire.ids import Offset, TopicPartition
from ottla.client.consumer.group.read_gate import ReadGate
from ottla.client.consumer.group.rebalance_listener import RebalanceListener
from ottla.client.errors import (
    CommitFailedError,
    ConnectionLostError,
    NotInGroupError,
    RebalanceFailedError,
)
from ottla.client.offset import CommittedOffset
from ottla.zookeeper.assignment import Slot
from ottla.zookeeper.group import GroupSide
from ottla.zookeeper.naming import KafkaNaming, Naming
from ottla.zookeeper.offset_store import Found, Offsets

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
SLOTS = frozenset({Slot("t", "0")})


def at(offset: int) -> CommittedOffset:
    return CommittedOffset(Offset(offset))


class FakeReading:
    """Positions of partitions, and the history of changes."""

    def __init__(self, history: list[object]) -> None:
        self.history = history
        self.positions: dict[TopicPartition, tuple[int, int]] = {}
        """Offsets after the processed records, and after all that were handed over."""

    def held(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, object]:
        return {each: object() for each in partitions if each in self.positions}

    def processed(self) -> dict[TopicPartition, CommittedOffset]:
        return {each: at(offset) for each, (offset, _) in self.positions.items()}

    def handed_over(self) -> dict[TopicPartition, CommittedOffset]:
        return {each: at(offset) for each, (_, offset) in self.positions.items()}

    def add(self, partitions: Sequence[TopicPartition]) -> None:
        self.history.append(("add", *partitions))
        self.positions |= dict.fromkeys(partitions, (0, 0))

    def take_away(self, partitions: Sequence[TopicPartition]) -> None:
        self.history.append(("take away", *partitions))
        for each in partitions:
            self.positions.pop(each, None)


class FakeStore:
    """Offsets in memory; fails once on request."""

    def __init__(self, history: list[object]) -> None:
        self.history = history
        self.held: dict[TopicPartition, CommittedOffset] = {}
        self.error: Exception | None = None
        self.may_read = asyncio.Event()
        self.may_read.set()

    async def read(self, partitions: Sequence[TopicPartition]) -> Found:
        await self.may_read.wait()
        self._fail()
        return {each: self.held.get(each) for each in partitions}

    async def write(self, offsets: Offsets) -> None:
        self._fail()
        await asyncio.sleep(0)
        self.history.append(("commit", {each: offsets[each].offset for each in offsets}))
        self.held |= offsets

    def _fail(self) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error


class LateNaming(KafkaNaming):
    """Knows the partitions of `known` topics; the others cannot be read."""

    def __init__(self, *known: str) -> None:
        self.known = set(known)

    async def load(self, slots: Collection[Slot]) -> None:
        if not {slot.topic for slot in slots} <= self.known:
            raise ConnectionLostError("no metadata")

    def partition(self, slot: Slot) -> TopicPartition | None:
        return super().partition(slot) if slot.topic in self.known else None


def make(
    *,
    interval_ms: int | None = 3_600_000,
    patience_ms: int = 50,
    naming: Naming | None = None,
    begins: bool = True,
) -> SimpleNamespace:
    history: list[object] = []
    reading, store = FakeReading(history), FakeStore(history)
    gate = ReadGate(asyncio.get_running_loop(), lambda: None)
    group = GroupSide(
        "g",
        reading,  # type: ignore[arg-type]
        gate,
        naming or KafkaNaming(),
        auto_commit_interval_ms=interval_ms,
        release_patience_ms=patience_ms,
    )
    if begins:
        group.begin(store, lambda: history.append("wake"))
    return SimpleNamespace(group=group, reading=reading, store=store, gate=gate, history=history)


async def test_only_offsets_that_changed_are_written() -> None:
    place = make()
    place.store.held[A] = at(5)
    await place.group.start(SLOTS)
    place.reading.positions[A] = (5, 5)
    await place.group.commit_processed()
    assert ("commit", {A: 5}) not in place.history
    place.reading.positions[A] = (7, 9)
    await place.group.commit_processed()
    await place.group.commit_processed()
    assert [each for each in place.history if each[0] == "commit"] == [("commit", {A: 7})]
    await place.group.stop(0)


@pytest.mark.parametrize("error", [None, ConnectionLossError()])
async def test_a_partition_that_is_lost_before_its_start_is_not_read(
    error: ConnectionLossError | None,
) -> None:
    place = make()
    place.group.listener = RebalanceListener(
        on_assigned=lambda each: place.history.append(("assigned", *each))
    )
    place.store.may_read.clear()
    slots = frozenset({*SLOTS, Slot("t", "1")})
    starting = asyncio.create_task(place.group.start(slots))
    await asyncio.sleep(0)
    place.group.lose(SLOTS)
    place.store.error = error
    place.store.may_read.set()
    await starting
    assert list(place.reading.positions) == [B]
    assert [each for each in place.history if each[0] == "assigned"] in ([], [("assigned", B)])
    assert not place.gate.is_held
    await place.group.stop(0)


async def test_partitions_that_are_unknown_do_not_keep_those_of_other_topics() -> None:
    naming = LateNaming("t")
    place = make(naming=naming)
    place.group.listener = RebalanceListener(
        on_assigned=lambda each: place.history.append(("assigned", *each))
    )
    unknown = frozenset({Slot("a", "0"), Slot("z", "0")})
    assert await place.group.start(SLOTS | unknown) == unknown
    assert await place.group.start(unknown) == unknown
    naming.known = {"a", "t", "z"}
    assert await place.group.start(unknown) == frozenset()
    others = [TopicPartition("a", 0), TopicPartition("z", 0)]
    assert list(place.reading.positions) == [A, *others]
    assert [each for each in place.history if each[0] == "assigned"] == [
        ("assigned", A),
        ("assigned", *others),
    ]
    await place.group.stop(0)


async def test_a_partition_that_is_lost_while_it_is_drained_is_reported_once() -> None:
    place = make(patience_ms=60_000)
    place.group.listener = RebalanceListener(
        on_revoked=lambda each: place.history.append(("revoked", *each)),
        on_lost=lambda each: place.history.append(("lost", *each)),
    )
    slots = frozenset({*SLOTS, Slot("t", "1")})
    await place.group.start(slots)
    place.gate.leave(with_records=True)
    draining = asyncio.create_task(place.group.drain(slots))
    await asyncio.sleep(0)
    place.group.lose(SLOTS)
    place.gate.give_back()
    await draining
    reports = [each for each in place.history if each[0] in ("revoked", "lost")]
    assert sorted(reports) == [("lost", A), ("revoked", B)]
    assert not place.reading.positions
    await place.group.stop(0)


async def test_a_commit_of_records_in_hand_stands() -> None:
    place = make()
    await place.group.start(SLOTS)
    place.reading.positions[A] = (3, 9)
    await place.group.commit({A: at(9)})
    await place.group.commit_processed()
    assert place.store.held[A] == at(9)
    # After a seek backwards the position counts again.
    place.reading.positions[A] = (2, 2)
    await place.group.commit_processed()
    assert place.store.held[A] == at(2)
    await place.group.stop(0)


async def test_a_commit_to_a_topic_that_was_created_again_does_not_stand() -> None:
    place = make()
    await place.group.start(SLOTS)
    place.reading.positions[A] = (3, 9)
    await place.group.commit({A: at(9)})
    place.group.forget_commits([A])
    await place.group.commit_processed()
    assert place.store.held[A] == at(3)
    await place.group.stop(0)


async def test_a_background_commit_that_waits_for_another_one_does_not_go_back() -> None:
    place = make()
    await place.group.start(SLOTS)
    place.reading.positions[A] = (3, 9)
    async with asyncio.TaskGroup() as both:
        both.create_task(place.group.commit({A: at(9)}))
        both.create_task(place.group.commit_processed())
    assert place.store.held[A] == at(9)
    await place.group.stop(0)


async def test_records_are_drained_committed_and_reported_before_their_partition_goes() -> None:
    place = make(patience_ms=60_000)
    revoked: list[object] = []
    place.group.listener = RebalanceListener(
        on_revoked=lambda partitions: place.history.append(("revoked", *partitions))
    )
    await place.group.start(SLOTS)
    place.reading.positions[A] = (4, 4)
    place.gate.leave(with_records=True)
    draining = asyncio.create_task(place.group.drain(SLOTS))
    await asyncio.sleep(0)
    assert place.gate.is_held
    assert ("commit", {A: 4}) not in place.history
    place.gate.enter()
    await draining
    assert place.history[-3:] == [("commit", {A: 4}), ("revoked", A), ("take away", A)]
    assert not place.gate.is_held
    assert revoked == []
    await place.group.stop(0)


async def test_a_slow_reader_loses_its_partition_and_its_later_commit_is_refused() -> None:
    """It would fail the other members instead (KAFKA-832)."""
    place = make(patience_ms=1)
    await place.group.start(SLOTS)
    place.reading.positions[A] = (4, 6)
    place.gate.leave(with_records=True)
    await place.group.drain(SLOTS)
    assert place.store.held[A] == at(4)
    with pytest.raises(CommitFailedError):
        await place.group.commit({A: at(6)})
    await place.group.stop(0)


async def test_without_auto_commit_a_rebalance_commits_nothing() -> None:
    """Java's members did, once (KAFKA-919)."""
    place = make(interval_ms=None)
    await place.group.start(SLOTS)
    place.reading.positions[A] = (4, 4)
    await place.group.drain(SLOTS)
    assert place.store.held == {}
    await place.group.stop(0)


async def test_lost_partitions_are_dropped_without_a_commit() -> None:
    place = make()
    reported = asyncio.Event()
    place.group.listener = RebalanceListener(on_lost=lambda _partitions: reported.set())
    await place.group.start(SLOTS)
    place.reading.positions[A] = (4, 4)
    place.group.lose(SLOTS)
    await reported.wait()
    assert place.store.held == {}
    assert place.reading.positions == {}
    await place.group.stop(0)


async def test_a_callback_may_commit_and_if_it_raises_the_next_read_does() -> None:
    place = make()
    await place.group.start(SLOTS)
    place.reading.positions[A] = (4, 4)

    async def revoke(partitions: Sequence[TopicPartition]) -> None:
        await place.group.commit({partitions[0]: at(3)})
        raise ValueError("no")

    place.group.listener = RebalanceListener(on_revoked=revoke)
    await place.group.drain(SLOTS)
    assert place.store.held[A] == at(3)
    assert isinstance(place.group.error, RebalanceFailedError)
    assert "wake" in place.history
    place.group.on_raised()
    assert vars(place.group)["error"] is None
    await place.group.stop(0)


async def test_offsets_before_the_subscription_are_refused() -> None:
    place = make(begins=False)
    with pytest.raises(NotInGroupError, match="subscribe to join g"):
        await place.group.committed([A])
    for offsets in ({}, {A: at(1)}):
        with pytest.raises(NotInGroupError, match="subscribe to join g"):
            await place.group.commit(offsets)
    await place.group.stop(0)


@pytest.mark.parametrize("error", [ConnectionLossError(), OSError("disk full")])
async def test_a_failure_of_the_offset_store_is_a_temporary_error(error: Exception) -> None:
    place = make()
    await place.group.start(SLOTS)
    place.store.error = error
    with pytest.raises(ConnectionLostError):
        await place.group.committed([A])
    place.store.error = error
    with pytest.raises(ConnectionLostError):
        await place.group.commit({A: at(1)})
    place.reading.positions[A] = (4, 4)
    place.store.error = error
    await place.group.commit_processed()
    assert place.store.held == {}
    # A partition whose offset cannot be read yet is read by the fetcher later.
    place.store.error = error
    await place.group.start(SLOTS)
    assert ("add", A) in place.history
    await place.group.stop(0)


async def test_a_session_in_doubt_holds_the_gate() -> None:
    place = make()
    place.group.hold()
    assert place.gate.is_held
    place.group.open()
    assert not place.gate.is_held
    await place.group.stop(0)

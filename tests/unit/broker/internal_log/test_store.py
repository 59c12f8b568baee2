"""Writes to an internal topic, successful only while the leader of their append leads on."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from broker.internal_log.store import InternalStore, KeyValue, Transaction
from broker.replication.transaction_guards import TransactionalAppend
from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.compression import Codec
from kafkawire.errors import ErrorCode
from kafkawire.group_records import CommittedOffset, offset_key, offset_value
from kafkawire.ids import LeaderEpoch, Offset, TopicPartition
from kafkawire.internal_topic import OFFSETS_TOPIC
from kafkawire.records import read_records
from kafkawire.sentinels import ACKS_ALL, ACKS_LEADER
from storage.config.log_config import LogConfig
from storage.errors import OutOfFilesError
from tests.unit.broker import replicas
from tests.unit.broker.replicas import B1, B2, NOW_MS, World, lead_alone, turn

KEY = TopicPartition(OFFSETS_TOPIC, 0)
E0, E1 = LeaderEpoch(0), LeaderEpoch(1)
RECORDS: Sequence[KeyValue] = [(b"key", b"value"), (b"gone", None)]


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(replicas, "PARTITION", KEY)
    return World(tmp_path)


class Writes:
    """Collects the results of writes."""

    def __init__(self, world: World, timeout_ms: int = 60_000) -> None:
        self.results: list[tuple[ErrorCode, int]] = []
        self.led_since = E0
        self._store = InternalStore(
            world.replicas,
            world.purgatory,
            OFFSETS_TOPIC,
            codec=Codec.NONE,
            timeout_ms=timeout_ms,
            now_ms=lambda: NOW_MS,
            has_led_since=lambda _, epoch: epoch >= self.led_since,
        )

    def append(
        self,
        epoch: LeaderEpoch = E0,
        partition: int = 0,
        records: Iterable[KeyValue] = RECORDS,
        transaction: Transaction | None = None,
        acks: int = ACKS_ALL,
    ) -> None:
        def note(error: ErrorCode, offset: int) -> None:
            self.results.append((error, offset))

        self._store.append(partition, epoch, records, note, transaction, acks=acks)


async def test_write_without_other_replicas_succeeds_at_once(world: World) -> None:
    writes = Writes(world)
    writes.append()
    writes.append()
    assert writes.results == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 2)]
    data = world.replicas.read(KEY, 0, 1 << 20, min_one_batch=True).records
    assert data is not None
    found = [(record.key, record.value) for record in read_records(data.read())]
    assert found == RECORDS


async def test_encoding_error_is_reported_like_any_failure(world: World) -> None:
    def records() -> Iterator[KeyValue]:
        too_late = CommittedOffset(1, -1, "", NOW_MS, 2**63)
        yield offset_key("g", TopicPartition("t", 0)), offset_value(too_late)

    writes = Writes(world)
    writes.append(records=records())
    assert writes.results == [(ErrorCode.RECORD_LIST_TOO_LARGE, -1)]


@pytest.mark.parametrize("is_transactional", [False, True])
async def test_records_are_in_the_log_though_their_flush_failed(
    world: World, monkeypatch: pytest.MonkeyPatch, is_transactional: bool
) -> None:
    def fail() -> None:
        raise OutOfFilesError(world.log.directory, "too many open files")

    appended: list[Offset] = []
    transaction = Transaction(7, 0, TransactionalAppend(needs_guard=False), appended.append)
    writes = Writes(world)
    writes.append()
    world.log.update_config(LogConfig(flush_messages=1))
    monkeypatch.setattr(world.log.upkeep, "flush", fail)
    writes.append(transaction=transaction if is_transactional else None)
    assert writes.results[1:] == [(ErrorCode.KAFKA_STORAGE_ERROR, 2)]
    assert appended == ([2] if is_transactional else [])
    # A full log dir refuses the next records before they are written.
    world.log.health.note_full("no space")
    writes.append()
    assert writes.results[2:] == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]
    assert world.log.log_end_offset == 4


async def test_write_succeeds_once_it_is_replicated(world: World) -> None:
    writes = Writes(world)
    world.replicate_to(B2)
    writes.append()
    world.follower_fetches(B2, 1)
    await turn()
    assert writes.results == []
    world.follower_fetches(B2, 2)
    await turn()
    assert writes.results == [(ErrorCode.NONE, 0)]


async def test_write_succeeds_in_a_later_epoch_of_the_same_leader(world: World) -> None:
    """The leader keeps its log, with the records."""
    writes = Writes(world)
    world.replicate_to(B2)
    writes.append()
    world.lead_in(LeaderAndIsr(leader=B1, isr=(B1, B2), controller_epoch=1, leader_epoch=E1))
    world.follower_fetches(B2, 2)
    await turn()
    assert writes.results == [(ErrorCode.NONE, 0)]


async def test_write_does_not_succeed_after_a_break_of_the_leadership(world: World) -> None:
    """The high watermark of a truncated and regrown log proves nothing (KAFKA-20634)."""
    writes = Writes(world)
    world.replicate_to(B2)
    writes.append()
    world.replicas.roles.remove(KEY)
    world.log.truncate_to(Offset(0))
    writes.led_since = E1
    lead_alone(world.replicas, world.log, E1)
    later = Writes(world)
    later.append(E1)
    await turn()
    assert world.replicas.is_committed(KEY, Offset(1)), "otherwise the test proves nothing"
    assert later.results == [(ErrorCode.NONE, 0)]
    assert writes.results == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)]


async def test_write_in_another_epoch_is_refused(world: World) -> None:
    writes = Writes(world)
    writes.append(LeaderEpoch(7))
    writes.append(E0, partition=1)
    assert writes.results == [
        (ErrorCode.UNKNOWN_LEADER_EPOCH, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]
    assert world.log.log_end_offset == 0


async def test_write_that_is_not_replicated_in_time_times_out(world: World) -> None:
    writes = Writes(world, timeout_ms=0)
    world.replicate_to(B2)
    writes.append()
    await turn()
    world.purgatory.close()
    assert writes.results == [(ErrorCode.REQUEST_TIMED_OUT, 0)]


async def test_write_is_refused_with_too_few_in_sync_replicas(world: World) -> None:
    writes = Writes(world)
    world.replicate_to(min_insync_replicas=2)
    writes.append()
    assert writes.results == [(ErrorCode.NOT_ENOUGH_REPLICAS, -1)]


async def test_write_that_waits_for_no_follower_needs_no_in_sync_replicas(world: World) -> None:
    writes = Writes(world)
    world.replicate_to(B2, min_insync_replicas=3)
    writes.append(acks=ACKS_LEADER)
    assert writes.results == [(ErrorCode.NONE, 0)]
    assert world.log.log_end_offset == len(RECORDS)
    assert not world.purgatory.waiting.operation_count

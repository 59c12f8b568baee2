"""The coordinator between its log, its clock and its requests, with one real partition."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from broker.cluster.metadata_cache import TopicState
from broker.cluster.producer_ids import ProducerIds
from broker.config.group_keys import GroupKeys
from broker.network.reply import Reply
from broker.replication.control_orders import RoleChange
from broker.transactions import held_requests, transaction_coordinator
from broker.transactions.marker_queues import Outgoing
from broker.transactions.marker_sender import MarkerSender, OnMarker
from broker.transactions.transaction_coordinator import TransactionCoordinator
from broker.transactions.transaction_effects import (
    NO_PRODUCER,
    Initializing,
    InitResult,
    ProducerIdentity,
)
from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import LeaderEpoch, ProducerId, TopicPartition
from kafkawire.internal_topic import TRANSACTIONS_TOPIC
from kafkawire.messages.leader_and_isr import LeaderAndIsrRequest
from kafkawire.records import BatchBuilder, iterate_batches, read_records
from kafkawire.transaction_records import (
    TransactionRecord,
    TransactionStatus,
    read_transaction_key,
    transaction_key,
    transaction_value,
)
from tests.unit.broker import replicas
from tests.unit.broker.metadata import partition_state, put_topics
from tests.unit.broker.replicas import B1, B2, NOW_MS, World, turn
from tests.waiting import until

KEY = TopicPartition(TRANSACTIONS_TOPIC, 0)
E0 = LeaderEpoch(0)
T0 = TopicPartition("t", 0)
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
OK = ErrorCode.NONE


class FakeSender:
    """Markers that a test reports as written."""

    def __init__(self, on_marker: OnMarker) -> None:
        self.on_marker = on_marker
        self.sent: list[Outgoing] = []
        self.dropped: list[int] = []

    def send(self, outgoing: Outgoing) -> None:
        self.sent.append(outgoing)

    def drop(self, coordinator_partition: int) -> None:
        self.dropped.append(coordinator_partition)

    async def stop(self) -> None:
        pass

    def finish(self) -> None:
        for outgoing in self.sent:
            for partition in list(outgoing.ending.remaining):
                self.on_marker(outgoing, partition)


class FakeIds:
    """Producer ids, unless there is no controller."""

    def __init__(self) -> None:
        self.error: ErrorCode | None = None
        self.next_id = 4_000
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def allocate(self) -> ProducerId:
        await self.may_answer.wait()
        if self.error is not None:
            raise ApiError(self.error)
        self.next_id += 1
        return ProducerId(self.next_id)


class Stage:
    """A coordinator that leads the only partition."""

    def __init__(self, world: World, executor: ThreadPoolExecutor, config: GroupKeys) -> None:
        self.world = world
        self.ids = FakeIds()
        self.now_ms = NOW_MS
        self.sender: FakeSender
        self.coordinator = TransactionCoordinator(
            world.replicas,
            world.purgatory,
            world.metadata,
            config,
            cast(ProducerIds, self.ids),
            self._make_sender,
            loop=asyncio.get_running_loop(),
            executor=executor,
            now_ms=lambda: self.now_ms,
            append_timeout_ms=60_000,
        )

    def _make_sender(self, on_marker: OnMarker) -> MarkerSender:
        self.sender = FakeSender(on_marker)
        return cast(MarkerSender, self.sender)

    def lead(self) -> None:
        self.coordinator.on_become_leader(KEY, E0)

    async def begin(self, transactional_id: str = "id", timeout_ms: int = 60_000) -> InitResult:
        results = self.initialize(transactional_id, timeout_ms)
        await until(lambda: bool(results))
        return results[0]

    def initialize(
        self, transactional_id: str = "id", timeout_ms: int = 60_000
    ) -> list[InitResult]:
        results: list[InitResult] = []
        self.coordinator.initialize(
            transactional_id, Initializing(timeout_ms=timeout_ms), results.append, lambda: False
        )
        return results

    def add(
        self, producer: ProducerIdentity, is_gone: Callable[[], bool] = lambda: False
    ) -> list[ErrorCode]:
        results: list[ErrorCode] = []
        self.coordinator.add_partitions("id", producer, [T0], results.append, is_gone)
        return results

    def end(self, producer: ProducerIdentity) -> list[ErrorCode]:
        results: list[ErrorCode] = []
        self.coordinator.end("id", producer, results.append, is_commit=True)
        return results

    @property
    def status(self) -> TransactionStatus:
        found = self.coordinator.registry.find("id")
        assert found is not None
        return found.status

    def keys(self) -> list[str | None]:
        """Return the ids of all records, None for a tombstone."""
        data = self.world.replicas.read(KEY, 0, 1 << 24, min_one_batch=True).records
        assert data is not None
        found = []
        for _, batch in iterate_batches(data.read()):
            for record in read_records(batch):
                assert record.key is not None
                found.append(None if record.value is None else read_transaction_key(record.key))
        return found


@pytest.fixture
def world_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], World]:
    monkeypatch.setattr(replicas, "PARTITION", KEY)
    return lambda: World(tmp_path)


@asynccontextmanager
async def staged(world: World, **keys: int) -> AsyncIterator[Stage]:
    config = GroupKeys(**{"transaction_state_log_num_partitions": 1, **keys})  # type: ignore[arg-type]
    with ThreadPoolExecutor(1) as executor:
        stage = Stage(world, executor, config)
        yield stage
        await stage.coordinator.stop()


WorldOf = Callable[[], World]


async def test_request_is_held_until_the_transaction_before_has_ended(world_of: WorldOf) -> None:
    async with staged(world_of()) as stage:
        stage.lead()
        producer = (await stage.begin()).producer
        assert stage.add(producer) == [OK]
        assert stage.end(producer) == [OK]
        next_add, new_producer = stage.add(producer), stage.initialize()
        assert (next_add, new_producer) == ([], [])
        stage.sender.finish()
        assert next_add == [OK]
        assert new_producer == [InitResult(BUSY)], "the next transaction is open already"


async def test_held_request_is_refused_in_the_end(
    world_of: WorldOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_requests, "HOLD_S", 0.0)
    monkeypatch.setattr(held_requests, "MAX_HELD_PER_ID", 1)
    async with staged(world_of()) as stage:
        stage.lead()
        producer = (await stage.begin()).producer
        stage.add(producer)
        stage.end(producer)
        held, one_too_many = stage.add(producer), stage.add(producer)
        assert (held, one_too_many) == ([], [BUSY])
        await until(lambda: bool(held))
        assert held == [BUSY]


async def test_held_request_of_a_lost_connection_is_dropped(world_of: WorldOf) -> None:
    async with staged(world_of()) as stage:
        stage.lead()
        producer = (await stage.begin()).producer
        stage.add(producer)
        stage.end(producer)
        reply = Reply()
        held = stage.add(producer, lambda: reply.cancelled)
        reply.cancel()
        stage.sender.finish()
        assert held == []
        assert stage.status is TransactionStatus.COMPLETE_COMMIT


async def test_new_producer_waits_for_the_end_of_the_transaction_that_it_aborts(
    world_of: WorldOf,
) -> None:
    async with staged(world_of()) as stage:
        stage.lead()
        producer = (await stage.begin()).producer
        stage.add(producer)
        results = stage.initialize()
        assert results == []
        stage.sender.finish()
        assert results == [InitResult(OK, producer._replace(epoch=2))]


async def test_resigned_coordinator_refuses_held_requests(world_of: WorldOf) -> None:
    async with staged(world_of()) as stage:
        stage.lead()
        producer = (await stage.begin()).producer
        stage.add(producer)
        stage.end(producer)
        held = stage.add(producer)
        stage.coordinator.on_resign(KEY)
        assert held == [ErrorCode.NOT_COORDINATOR]
        assert stage.sender.dropped == [0]
        stage.sender.finish()
        assert stage.add(producer) == [ErrorCode.NOT_COORDINATOR]


async def test_write_of_a_lost_leadership_is_refused(world_of: WorldOf) -> None:
    world = world_of()
    async with staged(world) as stage:
        stage.lead()
        producer = (await stage.begin()).producer
        world.replicate_to(B2)
        pending = stage.add(producer)
        await turn()
        assert pending == []
        world.replicas.roles.remove(KEY)
        stage.coordinator.on_resign(KEY)
        world.purgatory.on_change(KEY)
        await until(lambda: bool(pending))
        assert pending == [ErrorCode.NOT_COORDINATOR]


def put(world: World, status: TransactionStatus, start_ms: int = NOW_MS) -> None:
    builder = BatchBuilder()
    record = TransactionRecord(7, 3, 60_000, status, frozenset({T0}), start_ms, start_ms)
    builder.append(NOW_MS, transaction_key("id"), transaction_value(record))
    world.replicas.append(KEY, memoryview(builder.build()), -1, NOW_MS)


async def test_loaded_decision_waits_until_it_is_replicated(world_of: WorldOf) -> None:
    """Otherwise an election could lose it, after its markers were sent."""
    world = world_of()
    world.replicate_to(B2)
    put(world, TransactionStatus.PREPARE_COMMIT)
    async with staged(world) as stage:
        stage.lead()
        loader = stage.coordinator._topic._loader
        await until(lambda: loader._task is None)
        await turn()
        assert stage.sender.sent == []
        with pytest.raises(ApiError) as caught:
            stage.coordinator.check("id")
        assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        world.follower_fetches(B2, 1)
        await until(lambda: bool(stage.sender.sent))
        [outgoing] = stage.sender.sent
        assert (outgoing.ending.producer, outgoing.coordinator_epoch) == (ProducerIdentity(7, 3), 0)


def learn_partitions(world: World) -> None:
    """Let the metadata arrive, by which the topic has one partition."""
    states = {0: partition_state(0, B1, B1)}
    put_topics(
        world.metadata,
        [TopicState(name=TRANSACTIONS_TOPIC, topic_id=uuid.uuid4(), partitions=states)],
    )


async def test_decision_that_is_loaded_before_the_metadata_is_carried_out(
    world_of: WorldOf,
) -> None:
    """Until they arrive the configured number of partitions counts, which may be another one."""
    world = world_of()
    put(world, TransactionStatus.PREPARE_COMMIT)
    async with staged(world, transaction_state_log_num_partitions=50) as stage:
        stage.lead()
        await until(lambda: not stage.coordinator.registry.leaderships.is_loading)
        [outgoing] = stage.sender.sent
        assert outgoing.coordinator_partition == 0
        stage.sender.finish()
        learn_partitions(world)
        assert stage.status is TransactionStatus.COMPLETE_COMMIT


async def test_open_transaction_that_is_loaded_before_the_metadata_times_out(
    world_of: WorldOf,
) -> None:
    world = world_of()
    put(world, TransactionStatus.ONGOING, NOW_MS - 60_000)
    async with staged(world, transaction_state_log_num_partitions=50) as stage:
        stage.lead()
        await until(lambda: not stage.coordinator.registry.leaderships.is_loading)
        learn_partitions(world)
        await stage.coordinator.abort_timed_out()
        assert stage.status is TransactionStatus.PREPARE_ABORT


async def lead_in(world: World, leader_epoch: int) -> None:
    """Let a controller make this broker the leader, in a later epoch."""
    state = LeaderAndIsr(
        leader=B1, isr=(B1,), controller_epoch=1, leader_epoch=LeaderEpoch(leader_epoch)
    )
    change = RoleChange(
        topic_partition=KEY,
        topic_id=world.replica.topic_id,
        state=state,
        replicas=frozenset({B1}),
        is_new=False,
    )
    await world.replicas.roles.become_leader_or_follower(LeaderAndIsrRequest(), [change], 7)


async def test_coordinator_after_which_another_one_may_have_led_goes_by_the_log(
    world_of: WorldOf,
) -> None:
    """The other one may have sent markers of a decision that this one has only in its log.

    That is the place of a decision that is replicated after its request has timed out.
    """
    world = world_of()
    async with staged(world) as stage:
        world.replicas.events.on_leadership(stage.coordinator)
        stage.lead()
        producer = (await stage.begin()).producer
        assert stage.add(producer) == [OK]
        await lead_in(world, 1)
        put(world, TransactionStatus.PREPARE_COMMIT)
        assert stage.sender.dropped == [], "the next epoch changes nothing"
        await lead_in(world, 3)
        await until(lambda: bool(stage.sender.sent))
        [outgoing] = stage.sender.sent
        assert outgoing.ending.is_commit
        assert outgoing.coordinator_epoch == 3
        stage.sender.finish()
        assert stage.status is TransactionStatus.COMPLETE_COMMIT


async def test_markers_are_sent_in_an_epoch_after_that_of_a_coordinator_between(
    world_of: WorldOf,
) -> None:
    """With an earlier epoch the leaders of their partitions refuse them."""
    world = world_of()
    async with staged(world) as stage:
        world.replicas.events.on_leadership(stage.coordinator)
        stage.lead()
        producer = (await stage.begin()).producer
        stage.add(producer)
        assert stage.end(producer) == [OK]
        await lead_in(world, 2)
        await until(lambda: len(stage.sender.sent) == 2)
        assert stage.sender.dropped == [0]
        assert [each.coordinator_epoch for each in stage.sender.sent] == [0, 2]


async def test_end_is_repeated_while_the_next_coordinator_loads(world_of: WorldOf) -> None:
    """The producer's first request was answered by nobody, but its decision is in the log."""
    world = world_of()
    world.replicate_to(B2)
    put(world, TransactionStatus.PREPARE_COMMIT)
    async with staged(world) as stage:
        stage.lead()
        producer = ProducerIdentity(7, 3)
        answers = stage.end(producer)
        world.follower_fetches(B2, 1)
        await until(lambda: bool(stage.sender.sent))
        answers += stage.end(producer)
        stage.sender.finish()
        world.follower_fetches(B2, 2)
        await until(lambda: stage.status is TransactionStatus.COMPLETE_COMMIT)
        assert [*answers, *stage.end(producer)] == [
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            BUSY,
            OK,
        ]


async def test_timeout_does_not_follow_steps_of_the_clock(
    world_of: WorldOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with staged(world_of()) as stage:
        clock_ms = 0
        monkeypatch.setattr(stage.coordinator, "_clock_ms", lambda: clock_ms)
        stage.lead()
        producer = (await stage.begin()).producer
        stage.add(producer)
        for step_ms in (3_600_000, -7_200_000):
            stage.now_ms += step_ms
            await stage.coordinator.abort_timed_out()
            assert stage.status is TransactionStatus.ONGOING
        clock_ms = 60_000
        await stage.coordinator.abort_timed_out()
        assert stage.status is TransactionStatus.PREPARE_ABORT
        assert stage.coordinator.timed_out_count == 1


@pytest.mark.parametrize("age_ms", [59_000, 61_000, -3_600_000])
async def test_timeout_of_a_loaded_transaction_runs_on(
    world_of: WorldOf, age_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of()
    put(world, TransactionStatus.ONGOING, NOW_MS - age_ms)
    async with staged(world) as stage:
        clock_ms = 0
        monkeypatch.setattr(stage.coordinator, "_clock_ms", lambda: clock_ms)
        stage.lead()
        await until(lambda: len(stage.coordinator.registry) == 1)
        await stage.coordinator.abort_timed_out()
        assert (stage.status is TransactionStatus.ONGOING) == (age_ms < 60_000)
        clock_ms = 60_000
        await stage.coordinator.abort_timed_out()
        assert stage.status is TransactionStatus.PREPARE_ABORT


async def test_failed_abort_of_a_timed_out_transaction_is_repeated(
    world_of: WorldOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of()
    async with staged(world) as stage:
        clock_ms = 0
        monkeypatch.setattr(stage.coordinator, "_clock_ms", lambda: clock_ms)
        stage.lead()
        stage.add((await stage.begin()).producer)
        world.replicate_to(min_insync_replicas=2)
        clock_ms = 60_000
        await stage.coordinator.abort_timed_out()
        states = [stage.status]
        world.replicate_to(min_insync_replicas=1)
        await stage.coordinator.abort_timed_out()
        states.append(stage.status)
        assert states == [TransactionStatus.ONGOING, TransactionStatus.PREPARE_ABORT]


async def test_ids_expire_in_several_batches(
    world_of: WorldOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_coordinator, "MAX_TOMBSTONES", 4)
    monkeypatch.setattr(transaction_coordinator, "MAX_TOMBSTONE_BYTES", 6)
    async with staged(world_of(), transactional_id_expiration_ms=1_000) as stage:
        stage.lead()
        for number in range(5):
            await stage.begin(f"id{number}")
        stage.now_ms += 999
        await stage.coordinator.expire()
        assert len(stage.coordinator.registry) == 5
        stage.now_ms += 1
        end_offset = stage.world.log.log_end_offset
        await stage.coordinator.expire()
        assert len(stage.coordinator.registry) == 0
        assert stage.keys()[-5:] == [None] * 5
        assert stage.world.log.log_end_offset == end_offset + 5


async def test_id_that_could_not_be_deleted_stays(world_of: WorldOf) -> None:
    world = world_of()
    async with staged(world, transactional_id_expiration_ms=1) as stage:
        stage.lead()
        await stage.begin()
        stage.now_ms += 10
        world.replicate_to(min_insync_replicas=2)
        await stage.coordinator.expire()
        assert len(stage.coordinator.registry) == 1
        world.replicate_to(min_insync_replicas=1)
        assert (await stage.begin()).error is OK


async def test_first_write_that_fails_leaves_nothing_behind(world_of: WorldOf) -> None:
    world = world_of()
    async with staged(world) as stage:
        stage.lead()
        world.replicate_to(min_insync_replicas=2)
        assert (await stage.begin()).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert len(stage.coordinator.registry) == 0


async def test_completion_is_written_again_after_a_failure(
    world_of: WorldOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_coordinator, "RETRY_S", 0.0)
    world = world_of()
    async with staged(world) as stage:
        stage.lead()
        producer = (await stage.begin()).producer
        stage.add(producer)
        stage.end(producer)
        world.replicate_to(min_insync_replicas=2)
        stage.sender.finish()
        for _ in range(10):
            await asyncio.sleep(0)
        assert stage.status is TransactionStatus.PREPARE_COMMIT
        world.replicate_to(min_insync_replicas=1)
        await until(lambda: stage.status is TransactionStatus.COMPLETE_COMMIT)


async def test_completion_is_left_to_the_next_coordinator(
    world_of: WorldOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_coordinator, "RETRY_S", 0.0)
    world = world_of()
    async with staged(world) as stage:
        stage.lead()
        producer = (await stage.begin()).producer
        stage.add(producer)
        stage.end(producer)
        world.replicate_to(min_insync_replicas=2)
        stage.sender.finish()
        stage.coordinator.on_resign(KEY)
        world.replicate_to(min_insync_replicas=1)
        end_offset = world.log.log_end_offset
        for _ in range(10):
            await asyncio.sleep(0)
        assert world.log.log_end_offset == end_offset


async def test_producer_without_an_id_from_the_controller_must_retry(world_of: WorldOf) -> None:
    async with staged(world_of()) as stage:
        stage.lead()
        stage.ids.error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await stage.begin() == InitResult(stage.ids.error, NO_PRODUCER)


async def test_two_first_producers_of_an_id_share_its_state(world_of: WorldOf) -> None:
    async with staged(world_of()) as stage:
        stage.lead()
        stage.ids.may_answer.clear()
        one, two = stage.initialize(), stage.initialize()
        stage.ids.may_answer.set()
        await until(lambda: bool(one and two))
        assert [one[0].producer, two[0].producer] == [
            ProducerIdentity(4_001, 0),
            ProducerIdentity(4_001, 1),
        ]


async def test_stopped_coordinator_answers_everything(world_of: WorldOf) -> None:
    async with staged(world_of()) as stage:
        stage.lead()
        stage.ids.may_answer.clear()
        waiting = stage.initialize()
        await asyncio.sleep(0)
        await stage.coordinator.stop()
        assert [result.error for result in waiting] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert stage.add(NO_PRODUCER) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


async def test_other_topics_are_not_coordinated(world_of: WorldOf) -> None:
    async with staged(world_of()) as stage:
        stage.coordinator.on_become_leader(T0, E0)
        stage.coordinator.on_resign(T0)
        assert stage.add(NO_PRODUCER) == [ErrorCode.NOT_COORDINATOR]
        verified = stage.coordinator.verify("id", NO_PRODUCER, [T0])
        assert verified == {T0: ErrorCode.NOT_COORDINATOR}
        stage.lead()
        verified = stage.coordinator.verify("id", NO_PRODUCER, [T0])
        assert verified == {T0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
        assert stage.add(NO_PRODUCER) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]

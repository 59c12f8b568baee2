"""Produce requests of transactions, verified by a coordinator that the test plays."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from broker.handlers.long_produce import TURN_BYTES
from broker.handlers.produce import ProduceHandler
from broker.handlers.transactional_produce import produce_error
from broker.network.reply import EncodedMessage, Reply
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks
from broker.transactions.verification import Asked, Codes
from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.apis import APIS, ApiKey
from kafkawire.compression import Codec
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch, TopicPartition
from kafkawire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafkawire.messages.transactions import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kafkawire.records import BatchBuilder, ControlType
from kafkawire.schema import decode
from storage.config.log_config import LogConfig
from storage.producers.producer_state import NewMarker
from tests.unit.broker.replicas import B1, NOW_MS, PARTITION, World, make_produce_handler
from tests.unit.broker.requests import request
from tests.unit.storage.produced_batches import produced

NONE, BUSY = ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS
TURNS = 10


class FakeCoordinator:
    """The coordinator of all transactions, on another broker unless it is `here`."""

    def __init__(self) -> None:
        self.code = NONE
        self.here = False
        self.asked: list[tuple[object, ...]] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    def coordinator_of(self, transactional_id: str) -> BrokerId | None:
        del transactional_id
        return BrokerId(2)

    def verify_here(self, asked: Asked, partitions: Iterable[TopicPartition]) -> Codes | None:
        if not self.here:
            return None
        self.asked.append(tuple(asked))
        return dict.fromkeys(partitions, self.code)

    async def verify(
        self, broker_id: BrokerId, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnResponse | None:
        del broker_id
        self.asked += [
            (each.transactional_id, each.producer_id, each.producer_epoch)
            for each in request.transactions
        ]
        code = self.code
        await self.may_answer.wait()
        # An error of the whole response, or a broker that is too old to verify.
        return AddPartitionsToTxnResponse(error_code=code) if code else None


class Leader:
    """A partition, its coordinator, and a client."""

    def __init__(self, directory: Path, config: LogConfig | None = None) -> None:
        self.world = World(directory, config)
        self.coordinator = FakeCoordinator()
        self.is_verifying = True
        self.handler: ProduceHandler = make_produce_handler(
            self.world.replicas,
            self.world.purgatory,
            RequestTasks(asyncio.get_running_loop()),
            self.coordinator,
            is_verifying=lambda: self.is_verifying,
        )

    def send(
        self,
        *batches: bytes | bytearray,
        id_: str | None = "id",
        after: Request | None = None,
        version: int = 9,
    ) -> tuple[Request, Reply]:
        message = ProduceRequest(
            transactional_id=id_,
            acks=-1,
            timeout_ms=60_000,
            topic_data=[
                TopicProduceData(
                    name=PARTITION.topic,
                    partition_data=[
                        PartitionProduceData(index=index, records=bytes(each))
                        for index, each in enumerate(batches)
                    ],
                )
            ],
        )
        asked = request(ApiKey.PRODUCE, version, message)
        if after is not None:
            asked = Request(after.queue, asked.header, asked.body, 0.0)
        return asked, self.handler.handle(asked, decode(ProduceRequest, asked.body, version))

    async def produce(self, *batches: bytes | bytearray, id_: str | None = "id") -> list[int]:
        return await codes(self.send(*batches, id_=id_)[1])

    def end(self, producer_id: int = 7, epoch: int = 0) -> None:
        marker = NewMarker(producer_id, epoch, ControlType.ABORT, 0)
        [result] = self.world.replicas.append_markers(PARTITION, [marker], NOW_MS)
        assert isinstance(result, int)

    @property
    def end_offset(self) -> int:
        return self.world.log.log_end_offset


@pytest.fixture
async def leader(tmp_path: Path) -> Leader:
    return Leader(tmp_path)


async def turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def codes(reply: Reply) -> list[int]:
    if not reply.is_done:
        done = asyncio.Event()
        reply.on_done(done.set)
        await asyncio.wait_for(done.wait(), 20)
    message = reply.message
    if isinstance(message, EncodedMessage):
        message = decode(ProduceResponse, message, 9)
    assert isinstance(message, ProduceResponse)
    return [each.error_code for each in message.responses[0].partition_responses]


def first(producer_id: int = 7, sequence: int = 0, *, epoch: int = 0) -> bytearray:
    return produced(producer_id, sequence, epoch=epoch, is_transactional=True)


@pytest.mark.parametrize("here", [False, True])
async def test_coordinator_is_asked_once_for_a_transaction(leader: Leader, here: bool) -> None:
    leader.coordinator.here = here
    assert await leader.produce(first()) == [NONE]
    assert await leader.produce(first(sequence=1)) == [NONE]
    assert leader.coordinator.asked == [("id", 7, 0)]
    leader.end()
    assert await leader.produce(first(sequence=2)) == [NONE]
    assert len(leader.coordinator.asked) == 2
    assert leader.world.replica.last_stable_offset == 3


@pytest.mark.parametrize("here", [False, True])
@pytest.mark.parametrize(
    ("said", "code"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, BUSY),
        (ErrorCode.NOT_COORDINATOR, BUSY),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, BUSY),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, BUSY),
        (ErrorCode.NETWORK_EXCEPTION, BUSY),
    ],
)
async def test_refused_transaction_is_not_written(
    leader: Leader, here: bool, said: ErrorCode, code: ErrorCode
) -> None:
    leader.coordinator.here, leader.coordinator.code = here, said
    assert await leader.produce(first()) == [code]
    assert leader.end_offset == 0
    leader.coordinator.code = NONE
    assert await leader.produce(first()) == [NONE], "the next attempt asks again"


def test_only_new_versions_get_the_code_to_abort() -> None:
    abortable = ErrorCode.TRANSACTION_ABORTABLE
    assert produce_error(abortable, 10) is ErrorCode.INVALID_TXN_STATE
    assert produce_error(abortable, 11) is abortable
    _, newest = APIS[ApiKey.PRODUCE].advertised or (0, 0)
    assert produce_error(abortable, newest) is abortable, "producers can speak such a version"


async def test_answer_that_comes_after_the_end_of_the_transaction_does_not_count(
    leader: Leader,
) -> None:
    """A batch that is delayed beyond the marker would open a transaction that nobody ends."""
    leader.coordinator.may_answer.clear()
    _, reply = leader.send(first())
    await turns()
    leader.end()
    leader.coordinator.may_answer.set()
    assert await codes(reply) == [ErrorCode.INVALID_TXN_STATE]
    assert leader.world.replica.last_stable_offset == leader.end_offset == 1


async def test_answer_for_an_earlier_leadership_does_not_count(leader: Leader) -> None:
    leader.coordinator.may_answer.clear()
    _, reply = leader.send(first())
    await turns()
    leader.world.lead_in(state_in(9))
    leader.coordinator.may_answer.set()
    assert await codes(reply) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert leader.end_offset == 0


def state_in(leader_epoch: int) -> LeaderAndIsr:
    epoch = LeaderEpoch(leader_epoch)
    return LeaderAndIsr(leader=B1, isr=(B1,), controller_epoch=1, leader_epoch=epoch)


async def test_answer_counts_in_the_next_epoch_of_the_same_leader(leader: Leader) -> None:
    """As in Kafka: a reassignment raises the epoch, and the producer need not abort."""
    leader.coordinator.may_answer.clear()
    _, reply = leader.send(first())
    await turns()
    leader.world.lead_in(state_in(1))
    leader.coordinator.may_answer.set()
    assert await codes(reply) == [NONE]


async def test_verified_guard_is_dropped_once_another_leader_may_have_led(leader: Leader) -> None:
    guards = leader.world.replica.guards
    guards.verify(7, guards.begin(7, 0, 0, NOW_MS))
    leader.world.lead_in(state_in(1))
    assert leader.world.replica.guards is guards
    leader.world.lead_in(state_in(3))
    assert leader.world.replica.guards is not guards


async def test_leader_that_resigns_during_verification_is_reported(leader: Leader) -> None:
    leader.coordinator.may_answer.clear()
    _, reply = leader.send(first())
    await turns()
    leader.world.replica.resign()
    leader.coordinator.may_answer.set()
    assert await codes(reply) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_requests_of_a_connection_wait_for_the_first_one(leader: Leader) -> None:
    """Otherwise the second batch would be written without the first."""
    leader.coordinator.may_answer.clear()
    asked, one = leader.send(first())
    replies = [one, *(leader.send(first(sequence=n), after=asked)[1] for n in range(1, 5))]
    await turns()
    assert not any(each.is_done for each in replies)
    leader.coordinator.may_answer.set()
    assert [await codes(each) for each in replies] == [[NONE]] * 5
    assert leader.coordinator.asked == [("id", 7, 0)], "the open transaction is known"


async def test_a_later_batch_is_refused_until_the_first_one_is_written(leader: Leader) -> None:
    """A retry of the first one would find a gap (KAFKA-14904)."""
    leader.coordinator.code = ErrorCode.CONCURRENT_TRANSACTIONS
    assert await leader.produce(first(sequence=5)) == [BUSY]
    leader.coordinator.code = NONE
    assert await leader.produce(first(sequence=6)) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert await leader.produce(first(sequence=5)) == [NONE]
    assert await leader.produce(first(sequence=6)) == [NONE]


async def test_without_verification_any_transaction_begins(leader: Leader) -> None:
    leader.is_verifying = False
    assert await leader.produce(first()) == [NONE]
    assert not leader.coordinator.asked


async def test_transactional_batch_needs_a_transactional_id(leader: Leader) -> None:
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert await leader.produce(first(), id_=None) == [code]


async def test_plain_batch_may_come_with_a_transactional_id(leader: Leader) -> None:
    assert await leader.produce(produced(7, 0)) == [NONE]
    assert not leader.coordinator.asked


async def test_plain_batch_of_a_producer_in_a_transaction_is_refused(leader: Leader) -> None:
    assert await leader.produce(first()) == [NONE]
    assert await leader.produce(produced(7, 1)) == [ErrorCode.INVALID_TXN_STATE]


async def test_one_request_has_batches_of_one_producer(leader: Leader) -> None:
    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await leader.produce(first(7), first(8)) == [code, code]
    assert await leader.produce(first(7), first(7, epoch=1)) == [code, code]
    assert leader.end_offset == 0


async def test_bad_batches_and_partitions_do_not_fail_the_others(leader: Leader) -> None:
    damaged, missing = b"short", first()
    assert sorted(await leader.produce(first(), damaged, missing)) == [
        NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert await leader.produce(b"short") == [ErrorCode.INVALID_RECORD]


async def test_request_of_a_closed_connection_is_not_written(leader: Leader) -> None:
    leader.coordinator.may_answer.clear()
    _, reply = leader.send(first())
    await turns()
    reply.cancel()
    leader.coordinator.may_answer.set()
    await turns()
    assert leader.end_offset == 0


async def test_expired_guards_are_dropped(leader: Leader) -> None:
    replica = leader.world.replica
    replica.expire_guards(NOW_MS, 1)
    leader.coordinator.code = ErrorCode.CONCURRENT_TRANSACTIONS
    assert await leader.produce(first()) == [BUSY]
    assert len(replica.guards) == 1
    replica.expire_guards(NOW_MS + 1, 1)
    assert not len(replica.guards)


def large() -> bytearray:
    """Return a batch whose validation takes longer than a turn of the event loop."""
    builder = BatchBuilder(
        Codec.GZIP, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    builder.append(NOW_MS, b"key", bytes(TURN_BYTES + 1))
    return builder.build()


@pytest.mark.parametrize(
    ("said", "code"), [(NONE, NONE), (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)]
)
async def test_batches_that_a_thread_validates_are_verified(
    tmp_path: Path, said: ErrorCode, code: ErrorCode
) -> None:
    leader = Leader(tmp_path, LogConfig(max_message_bytes=2 * TURN_BYTES))
    leader.coordinator.code = said
    assert await leader.produce(large()) == [code]
    assert leader.end_offset == (1 if code is NONE else 0)


async def test_verification_may_be_switched_while_the_broker_runs(leader: Leader) -> None:
    leader.is_verifying = False
    assert await leader.produce(first()) == [NONE]
    leader.end()
    leader.is_verifying, leader.coordinator.code = True, ErrorCode.TRANSACTION_ABORTABLE
    assert await leader.produce(first(sequence=1)) == [ErrorCode.INVALID_TXN_STATE]

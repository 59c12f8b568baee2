"""The transactional producer against a cluster that loses, delays and refuses its requests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.records import read_header
from ottla import GroupMetadata, Producer, RecordMetadata
from ottla.client.errors import (
    BrokerError,
    ClientClosedError,
    DeliveryTimedOutError,
    NotAuthorizedError,
    OttlaError,
    ProducerFencedError,
    RecordAbortedError,
    TokenProviderError,
    TransactionAbortableError,
    TransactionFatalError,
    TransactionStateError,
    TransactionTimedOutError,
    UnsupportedVersionError,
)
from ottla.client.network import connection_pool
from ottla.client.network.broker_connection import Connection
from ottla.client.network.handshake import open_connection
from tests.integration.client.client_support import FAST
from tests.integration.client.fake_broker import FakeCluster, fake_cluster
from tests.integration.client.fake_fault import (
    Fault,
    Garbage,
    HangUp,
    LoseResponse,
    Never,
    Omit,
    Refuse,
)
from tests.integration.client.fake_log import FakePartition
from tests.integration.client.fake_transactions import ABORTED, COMMITTED, ONGOING, FakeTransaction

TID = "orders"
T0 = TopicPartition("t", 0)
GROUP = GroupMetadata("g", 3, "member", "static")

PASSING = [
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
]
FENCING = [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH]
LOST: list[Fault] = [HangUp(), LoseResponse(), Garbage(b"\0\0")]
STEPS = [ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT]


@asynccontextmanager
async def started(cluster: FakeCluster, **settings: int) -> AsyncIterator[Producer]:
    async with Producer(
        cluster.bootstrap,
        transactional_id=TID,
        **({"max_block_ms": 5_000} | settings),  # type: ignore[arg-type]
        **FAST,
    ) as producer:
        yield producer


def held(cluster: FakeCluster) -> FakeTransaction:
    return cluster.logs.transactions[TID]


def states(cluster: FakeCluster) -> list[str]:
    return [state for state, _ in held(cluster).ended]


def epochs(log: FakePartition) -> list[int]:
    return [read_header(batch).producer_epoch for batch in log.batches]


async def write_all(producer: Producer) -> None:
    """Run a transaction that uses every request."""
    async with producer.transaction():
        await producer.send("t", b"a", partition=0)
        await producer.send_offsets_to_transaction({TopicPartition("in", 0): 5}, GROUP)


# The plain life of transactions


async def test_a_transaction_uses_each_request_once(cluster: FakeCluster) -> None:
    logs = cluster.create("t", [0, 0, 0])
    async with started(cluster) as producer, producer.transaction():
        for partition in range(3):
            await producer.send("t", b"%d" % partition, partition=partition)
        await producer.send_offsets_to_transaction({TopicPartition("in", 1): 7}, GROUP)
    assert [log.values() for log in logs] == [[b"0"], [b"1"], [b"2"]]
    assert all(read_header(log.batches[0]).is_transactional for log in logs)
    keys = [each.api_key for each in cluster.requests]
    for key in (ApiKey.ADD_PARTITIONS_TO_TXN, *STEPS[1:], ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID):
        assert keys.count(key) == 1, key
    (produce,) = cluster.seen(ApiKey.PRODUCE)
    assert produce.transactional_id == TID
    assert held(cluster).ended == [(COMMITTED, tuple(TopicPartition("t", n) for n in range(3)))]
    assert held(cluster).committed_offsets == {TopicPartition("in", 1): 7}
    assert held(cluster).members == [("g", "member", 3, "static")]


async def test_partitions_are_added_in_several_requests_where_one_would_be_too_large(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.producer.transactions.MAX_PARTITIONS_PER_REQUEST", 2)
    logs = cluster.create("t", [0] * 5)
    async with started(cluster) as producer, producer.transaction():
        for partition in range(5):
            await producer.send("t", b"v", partition=partition)
    assert [log.values() for log in logs] == [[b"v"]] * 5
    for request in cluster.seen(ApiKey.ADD_PARTITIONS_TO_TXN):
        assert sum(len(topic.partitions) for topic in request.v3_and_below_topics) <= 2
    assert held(cluster).ended == [(COMMITTED, tuple(TopicPartition("t", n) for n in range(5)))]


async def test_offsets_are_committed_in_several_requests_where_one_would_be_too_large(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.request_parts.MAX_PARTITIONS_PER_REQUEST", 2)
    offsets = {TopicPartition("in", number): number for number in range(5)}
    async with started(cluster) as producer, producer.transaction():
        await producer.send_offsets_to_transaction(offsets, GROUP)
    assert held(cluster).committed_offsets == offsets
    assert len(cluster.seen(ApiKey.TXN_OFFSET_COMMIT)) == 3


async def test_sequences_continue_over_transactions(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    async with started(cluster) as producer:
        for number in range(3):
            async with producer.transaction():
                await producer.send("t", b"%d" % number)
    headers = [read_header(batch) for batch in log.batches]
    assert [(each.producer_epoch, each.base_sequence) for each in headers] == [
        (0, 0),
        (0, 1),
        (0, 2),
    ]
    assert states(cluster) == [COMMITTED] * 3


async def test_a_transaction_without_records_sends_nothing(cluster: FakeCluster) -> None:
    async with started(cluster) as producer:
        async with producer.transaction():
            await producer.send_offsets_to_transaction({}, "g")
        await producer.begin_transaction()
        await producer.abort_transaction()
    assert cluster.seen(ApiKey.END_TXN) == []


async def test_a_raising_block_aborts_and_drops_waiting_records(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    sent: list[asyncio.Future[RecordMetadata]] = []
    async with started(cluster, linger_ms=60_000) as producer:
        with pytest.raises(ZeroDivisionError) as raised:
            await fail_in_a_block(producer, sent)
        assert not hasattr(raised.value, "__notes__")
        (delivery,) = sent
        with pytest.raises(RecordAbortedError, match="aborted before the record was sent"):
            await delivery
        async with producer.transaction():
            await producer.send("t", b"next")
    assert log.values() == [b"next"]
    assert states(cluster)[-1] == COMMITTED


async def fail_in_a_block(producer: Producer, sent: "list[asyncio.Future[RecordMetadata]]") -> None:
    async with producer.transaction():
        sent.append(await producer.send("t", b"waits"))
        raise ZeroDivisionError


async def test_an_abort_after_records_were_written(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    async with started(cluster) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"a")
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("t", b"b")
    assert states(cluster) == [ABORTED, COMMITTED]
    assert epochs(log) == [0, 0], "no number is missing, so the epoch stays"


async def test_closing_aborts_the_open_transaction(cluster: FakeCluster) -> None:
    cluster.create("t")
    async with started(cluster) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"a")
    assert states(cluster) == [ABORTED]
    for method in (producer.begin_transaction, producer.commit_transaction):
        with pytest.raises(ClientClosedError):
            await method()


async def test_closing_is_bounded_while_the_coordinator_is_silent(cluster: FakeCluster) -> None:
    cluster.create("t")
    cluster.script(ApiKey.END_TXN, *[Never()] * 9)
    producer = Producer(cluster.bootstrap, transactional_id=TID, **FAST)
    await producer.start()
    await producer.begin_transaction()
    await producer.send_and_wait("t", b"a")
    async with asyncio.timeout(10):
        await producer.close(timeout_ms=200)


@pytest.mark.parametrize("method", ["commit_transaction", "abort_transaction"])
async def test_methods_out_of_order_change_nothing(cluster: FakeCluster, method: str) -> None:
    cluster.create("t")
    async with started(cluster) as producer:
        with pytest.raises(TransactionStateError, match="no transaction is open"):
            await getattr(producer, method)()
        with pytest.raises(TransactionStateError, match="no transaction is open"):
            await producer.send("t", b"outside")
        with pytest.raises(TransactionStateError, match="no transaction is open"):
            producer.send_nowait("t", b"outside")
        with pytest.raises(TransactionStateError, match="no transaction is open"):
            await producer.send_offsets_to_transaction({T0: 1}, "g")
        async with producer.transaction():
            with pytest.raises(TransactionStateError, match="a transaction is open"):
                await producer.begin_transaction()
            await producer.send("t", b"inside")
    assert states(cluster) == [COMMITTED]


async def test_a_producer_without_transactions_says_so(cluster: FakeCluster) -> None:
    async with Producer(cluster.bootstrap) as producer:
        with pytest.raises(TransactionStateError, match="set transactional_id"):
            await producer.begin_transaction()


# Starting


@pytest.mark.parametrize("key", [*STEPS, ApiKey.END_TXN])
async def test_a_failure_of_the_token_provider_passes_at_each_step(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, key: ApiKey
) -> None:
    (log,) = cluster.create("t")
    failures = [TokenProviderError("sasl_oauth_token_provider raised OSError")] * 2

    async def open_later(*arguments: Any) -> Connection:
        # Only in place of the connection that has ended.
        if failures and cluster.seen(key):
            raise failures.pop()
        return await open_connection(*arguments)

    monkeypatch.setattr(connection_pool, "open_connection", open_later)
    async with started(cluster) as producer:
        cluster.script(key, HangUp())
        await write_all(producer)
    assert failures == []
    assert (states(cluster), log.values()) == ([COMMITTED], [b"a"])


@pytest.mark.parametrize("fault", [*LOST, *map(Refuse, PASSING)], ids=str)
@pytest.mark.parametrize("key", [ApiKey.INIT_PRODUCER_ID, ApiKey.FIND_COORDINATOR])
async def test_starting_is_retried(cluster: FakeCluster, key: ApiKey, fault: Fault) -> None:
    (log,) = cluster.create("t")
    cluster.script(key, fault, fault)
    async with started(cluster) as producer, producer.transaction():
        await producer.send("t", b"a")
    assert log.values() == [b"a"]
    assert states(cluster) == [COMMITTED]


async def test_a_success_without_a_producer_id_is_no_success(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    cluster.logs.gives_no_id = True
    async with started(cluster) as producer, producer.transaction():
        await producer.send("t", b"a")
    assert log.values() == [b"a"]
    assert len(cluster.seen(ApiKey.INIT_PRODUCER_ID)) == 2


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NotAuthorizedError),
        (ErrorCode.INVALID_TRANSACTION_TIMEOUT, BrokerError),
        (ErrorCode.INVALID_TXN_STATE, BrokerError),
    ],
)
async def test_a_refused_start_closes_the_producer(
    cluster: FakeCluster, code: ErrorCode, kind: type[BrokerError]
) -> None:
    cluster.script(ApiKey.INIT_PRODUCER_ID, Refuse(code))
    producer = Producer(cluster.bootstrap, transactional_id=TID, **FAST)
    with pytest.raises(kind, match=code.name):
        await producer.start()
    with pytest.raises(ClientClosedError):
        await producer.begin_transaction()


async def test_a_start_without_an_answer_ends(cluster: FakeCluster) -> None:
    cluster.script(ApiKey.INIT_PRODUCER_ID, *[Refuse(ErrorCode.CONCURRENT_TRANSACTIONS)] * 999)
    producer = Producer(cluster.bootstrap, transactional_id=TID, max_block_ms=100, **FAST)
    with pytest.raises(TransactionTimedOutError, match=r"InitProducerId .* within 0.1 s"):
        await producer.start()


async def test_a_start_ends_the_transaction_of_a_dead_producer(cluster: FakeCluster) -> None:
    cluster.create("t")
    async with started(cluster) as first:
        await first.begin_transaction()
        await first.send_and_wait("t", b"zombie")
        async with started(cluster) as second:
            async with second.transaction():
                await second.send("t", b"new")
            with pytest.raises(ProducerFencedError, match="A newer producer"):
                await first.commit_transaction()
            with pytest.raises(ProducerFencedError):
                await first.begin_transaction()
            with pytest.raises(ProducerFencedError):
                await first.send("t", b"zombie")
            with pytest.raises(ProducerFencedError):
                await first.abort_transaction()
    assert states(cluster) == [ABORTED, COMMITTED]


# Errors of each request


@pytest.mark.parametrize("fault", [*LOST, *map(Refuse, PASSING)], ids=str)
@pytest.mark.parametrize("key", [*STEPS, ApiKey.END_TXN])
async def test_passing_errors_are_retried(cluster: FakeCluster, key: ApiKey, fault: Fault) -> None:
    (log,) = cluster.create("t")
    async with started(cluster) as producer:
        cluster.script(key, fault, fault)
        await write_all(producer)
        await write_all(producer)
    assert log.values() == [b"a", b"a"]
    assert states(cluster) == [COMMITTED, COMMITTED]
    # A request without an answer may still arrive: it must not meet the next transaction.
    assert epochs(log) == ([0, 0] if isinstance(fault, Refuse) else [0, 1])


@pytest.mark.parametrize("key", [ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT])
async def test_an_empty_response_is_retried(cluster: FakeCluster, key: ApiKey) -> None:
    cluster.create("t")
    async with started(cluster) as producer:
        cluster.script(key, Omit())
        await write_all(producer)
    assert states(cluster) == [COMMITTED]


@pytest.mark.parametrize("code", FENCING)
@pytest.mark.parametrize("key", [*STEPS, ApiKey.END_TXN])
async def test_fencing_is_final(cluster: FakeCluster, key: ApiKey, code: ErrorCode) -> None:
    cluster.create("t")
    async with started(cluster) as producer:
        cluster.script(key, Refuse(code))
        with pytest.raises(ProducerFencedError, match=code.name) as raised:
            await write_all(producer)
        assert not raised.value.may_be_committed
        with pytest.raises(ProducerFencedError):
            await producer.begin_transaction()
    assert states(cluster) == []


ABORTABLE = [
    (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.UNKNOWN_PRODUCER_ID),
    (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.TRANSACTION_ABORTABLE),
    (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.OPERATION_NOT_ATTEMPTED),
    (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.UNKNOWN_SERVER_ERROR),
    (ApiKey.ADD_OFFSETS_TO_TXN, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    (ApiKey.ADD_OFFSETS_TO_TXN, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    (ApiKey.ADD_OFFSETS_TO_TXN, ErrorCode.TRANSACTION_ABORTABLE),
    (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.TRANSACTION_ABORTABLE),
    (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.ILLEGAL_GENERATION),
    (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.UNKNOWN_MEMBER_ID),
    (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.FENCED_INSTANCE_ID),
    (ApiKey.END_TXN, ErrorCode.TRANSACTION_ABORTABLE),
    (ApiKey.END_TXN, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    (ApiKey.PRODUCE, ErrorCode.INVALID_PRODUCER_EPOCH),
    (ApiKey.PRODUCE, ErrorCode.INVALID_TXN_STATE),
    (ApiKey.PRODUCE, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    (ApiKey.PRODUCE, ErrorCode.UNKNOWN_PRODUCER_ID),
    (ApiKey.PRODUCE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    (ApiKey.PRODUCE, ErrorCode.TRANSACTION_ABORTABLE),
    (ApiKey.PRODUCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    (ApiKey.PRODUCE, ErrorCode.INVALID_RECORD),
    (ApiKey.PRODUCE, ErrorCode.MESSAGE_TOO_LARGE),
]


@pytest.mark.parametrize(("key", "code"), ABORTABLE)
async def test_abortable_errors_leave_a_producer_that_works(
    cluster: FakeCluster, key: ApiKey, code: ErrorCode
) -> None:
    (log,) = cluster.create("t")
    async with started(cluster) as producer:
        cluster.script(key, Refuse(code))
        with pytest.raises(TransactionAbortableError, match=code.name):
            await write_all(producer)
        await write_all(producer)
    assert log.values()[-1] == b"a"
    assert COMMITTED not in states(cluster)[:-1]
    assert states(cluster)[-1] == COMMITTED
    if key is ApiKey.PRODUCE:
        assert epochs(log) == [1], "the broker lacks the numbers of the refused batch"


FATAL = [
    (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.INVALID_TXN_STATE),
    (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    (ApiKey.ADD_OFFSETS_TO_TXN, ErrorCode.INVALID_TXN_STATE),
    (ApiKey.ADD_OFFSETS_TO_TXN, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.INVALID_TXN_STATE),
    (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.UNKNOWN_SERVER_ERROR),
    (ApiKey.END_TXN, ErrorCode.INVALID_TXN_STATE),
    (ApiKey.END_TXN, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    (ApiKey.END_TXN, ErrorCode.UNKNOWN_SERVER_ERROR),
    (ApiKey.PRODUCE, ErrorCode.PRODUCER_FENCED),
    (ApiKey.PRODUCE, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
]


@pytest.mark.parametrize(("key", "code"), FATAL)
async def test_fatal_errors_are_final(cluster: FakeCluster, key: ApiKey, code: ErrorCode) -> None:
    cluster.create("t")
    async with started(cluster) as producer:
        cluster.script(key, Refuse(code))
        with pytest.raises(TransactionFatalError, match=code.name):
            await write_all(producer)
        for method in (
            producer.begin_transaction,
            producer.commit_transaction,
            producer.abort_transaction,
        ):
            with pytest.raises(TransactionFatalError, match=code.name):
                await method()
    assert COMMITTED not in states(cluster)


async def test_the_worst_error_of_several_partitions_decides(cluster: FakeCluster) -> None:
    cluster.create("t", [0, 0])
    async with started(cluster) as producer:
        cluster.script(ApiKey.ADD_PARTITIONS_TO_TXN, Refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        async with producer.transaction():
            await producer.send("t", b"a", partition=0)
            await producer.send("t", b"b", partition=1)
    assert states(cluster) == [COMMITTED]


async def test_a_batch_that_expires_fails_the_transaction(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    async with started(cluster, delivery_timeout_ms=900, request_timeout_ms=400) as producer:
        cluster.script(ApiKey.PRODUCE, *[Never()] * 9)
        await producer.begin_transaction()
        delivery = await producer.send("t", b"lost")
        with pytest.raises(TransactionAbortableError, match="not acknowledged within 900 ms"):
            await producer.commit_transaction()
        with pytest.raises(DeliveryTimedOutError):
            await delivery
        cluster.heal(ApiKey.PRODUCE)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("t", b"next")
    assert states(cluster) == [ABORTED, COMMITTED]
    assert epochs(log)[-1] == 1


async def test_records_of_a_failed_transaction_are_refused_at_once(cluster: FakeCluster) -> None:
    cluster.create("t", [0, 0])
    async with started(cluster) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"a", partition=0)
        cluster.script(ApiKey.PRODUCE, Refuse(ErrorCode.INVALID_RECORD))
        with pytest.raises(BrokerError):
            await producer.send_and_wait("t", b"bad", partition=0)
        with pytest.raises(TransactionAbortableError, match="INVALID_RECORD"):
            await producer.send("t", b"c", partition=1)
        with pytest.raises(TransactionAbortableError, match="INVALID_RECORD"):
            await producer.commit_transaction()
        await producer.abort_transaction()
    assert states(cluster) == [ABORTED]


async def test_old_brokers_give_no_new_epoch() -> None:
    async with fake_cluster(versions={ApiKey.INIT_PRODUCER_ID: (0, 2)}) as old:
        old.create("t")
        async with started(old) as producer:
            old.script(ApiKey.END_TXN, LoseResponse())
            await write_all(producer)
            await write_all(producer)
            old.script(ApiKey.PRODUCE, Refuse(ErrorCode.INVALID_RECORD))
            with pytest.raises(TransactionAbortableError) as raised:
                await write_all(producer)
            assert "new epoch" in raised.value.__notes__[0]
            with pytest.raises(TransactionFatalError, match="new epoch"):
                await producer.begin_transaction()
        assert states(old)[:2] == [COMMITTED, COMMITTED]


async def test_old_group_coordinators_cannot_check_members() -> None:
    async with fake_cluster(versions={ApiKey.TXN_OFFSET_COMMIT: (0, 2)}) as old:
        async with started(old) as producer:
            async with producer.transaction():
                await producer.send_offsets_to_transaction({T0: 3}, "g")
            with pytest.raises(TransactionFatalError, match="cannot check the member"):
                async with producer.transaction():
                    await producer.send_offsets_to_transaction({T0: 4}, GROUP)
        assert held(old).committed_offsets == {T0: 3}


async def test_brokers_without_transactions() -> None:
    async with fake_cluster(versions={ApiKey.INIT_PRODUCER_ID: (9, 9)}) as old:
        producer = Producer(old.bootstrap, transactional_id=TID, **FAST)
        with pytest.raises(UnsupportedVersionError):
            await producer.start()


# Unknown outcomes and cancellation


async def test_an_unanswered_commit_is_repeated_until_it_is_known(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    async with started(cluster, max_block_ms=2_000, request_timeout_ms=500) as producer:
        await producer.begin_transaction()
        await producer.send("t", b"a")
        cluster.script(ApiKey.END_TXN, LoseResponse(), *[Never()] * 99)
        with pytest.raises(TransactionTimedOutError, match="EndTxn"):
            await producer.commit_transaction()
        with pytest.raises(TransactionStateError, match="outcome is open"):
            await producer.abort_transaction()
        with pytest.raises(TransactionStateError, match="outcome is open"):
            await producer.begin_transaction()
        cluster.heal(ApiKey.END_TXN)
        await producer.commit_transaction()
        async with producer.transaction():
            await producer.send("t", b"b")
    assert states(cluster) == [COMMITTED, COMMITTED]
    assert epochs(log) == [0, 1]


async def test_fencing_after_an_unanswered_commit_says_that_it_may_be_committed(
    cluster: FakeCluster,
) -> None:
    cluster.create("t")
    async with started(cluster) as producer:
        cluster.script(ApiKey.END_TXN, LoseResponse(), Refuse(ErrorCode.PRODUCER_FENCED))
        with pytest.raises(ProducerFencedError, match="may be committed") as raised:
            await write_all(producer)
        assert raised.value.may_be_committed
    assert states(cluster) == [COMMITTED]


async def test_fencing_after_a_commit_at_a_replaced_coordinator_says_that_it_may_be_committed(
    cluster: FakeCluster,
) -> None:
    """Its record of the decision may be replicated, so that the next coordinator commits."""
    cluster.create("t")
    async with started(cluster) as producer:
        replaced, fenced = Refuse(ErrorCode.NOT_COORDINATOR), Refuse(ErrorCode.PRODUCER_FENCED)
        cluster.script(ApiKey.END_TXN, replaced, fenced)
        with pytest.raises(ProducerFencedError, match="may be committed") as raised:
            await write_all(producer)
        assert raised.value.may_be_committed


async def test_an_unanswered_abort_is_repeated(cluster: FakeCluster) -> None:
    cluster.create("t")
    async with started(cluster, max_block_ms=2_000, request_timeout_ms=500) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"a")
        cluster.script(ApiKey.END_TXN, LoseResponse(), *[Never()] * 99)
        with pytest.raises(TransactionTimedOutError, match="EndTxn"):
            await producer.abort_transaction()
        with pytest.raises(TransactionStateError, match="abort is not complete"):
            await producer.commit_transaction()
        cluster.heal(ApiKey.END_TXN)
        await producer.abort_transaction()
        await producer.begin_transaction()
    assert states(cluster) == [ABORTED]


async def test_an_abort_that_only_lacks_its_new_epoch_is_repeated(cluster: FakeCluster) -> None:
    (log,) = cluster.create("t")
    async with started(cluster, max_block_ms=2_000) as producer:
        await producer.begin_transaction()
        cluster.script(ApiKey.PRODUCE, Refuse(ErrorCode.INVALID_RECORD))
        with pytest.raises(BrokerError):
            await producer.send_and_wait("t", b"a")
        # The markers of the transaction are not written yet.
        busy = Refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
        cluster.script(ApiKey.INIT_PRODUCER_ID, *[busy] * 999)
        with pytest.raises(TransactionTimedOutError, match="InitProducerId"):
            await producer.abort_transaction()
        cluster.heal(ApiKey.INIT_PRODUCER_ID)
        await producer.abort_transaction()
        with pytest.raises(TransactionStateError, match="no transaction is open"):
            await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("t", b"b")
    assert states(cluster) == [ABORTED, COMMITTED]
    assert epochs(log) == [1]


async def test_an_abort_of_a_transaction_that_never_began(cluster: FakeCluster) -> None:
    """The only request that would have begun it was lost before it arrived."""
    cluster.create("t")
    async with started(cluster, max_block_ms=2_000) as producer:
        cluster.script(ApiKey.ADD_OFFSETS_TO_TXN, *[HangUp()] * 999)
        with pytest.raises(TransactionAbortableError, match="AddOffsetsToTxn"):
            await write_all(producer)
        cluster.heal(ApiKey.ADD_OFFSETS_TO_TXN)
        await write_all(producer)
    assert states(cluster)[-1] == COMMITTED


async def test_an_abort_ends_a_transaction_whose_first_partition_is_being_added(
    cluster: FakeCluster,
) -> None:
    """Otherwise the coordinator keeps it open, until its timeout fences the producer."""
    cluster.create("t")
    async with started(cluster) as producer:
        released, delivery = await begin_while_adding(cluster, producer)
        aborting = asyncio.ensure_future(producer.abort_transaction())
        with pytest.raises(RecordAbortedError):
            await delivery
        released.set()
        await aborting
        assert states(cluster) == [ABORTED]
        async with producer.transaction():
            await producer.send("t", b"b")
    assert states(cluster) == [ABORTED, COMMITTED]


@pytest.mark.parametrize("is_begun", [False, True])
@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
async def test_an_abort_ends_a_transaction_that_a_replaced_coordinator_may_have_begun(
    cluster: FakeCluster, code: ErrorCode, is_begun: bool
) -> None:
    """Its record may be replicated, so that the next coordinator finds an open transaction."""
    (log,) = cluster.create("t")
    async with started(cluster) as producer:
        await producer.begin_transaction()
        is_loading = Refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        cluster.script(ApiKey.ADD_PARTITIONS_TO_TXN, Refuse(code), *[is_loading] * 999)
        await producer.send("t", b"a")
        await cluster.wait_for(ApiKey.ADD_PARTITIONS_TO_TXN, 2)
        if is_begun:
            held(cluster).state = ONGOING
        await producer.abort_transaction()
        cluster.heal(ApiKey.ADD_PARTITIONS_TO_TXN)
        async with producer.transaction():
            await producer.send("t", b"b")
    assert states(cluster) == [ABORTED] * is_begun + [COMMITTED]
    assert epochs(log) == [0]


async def test_an_abort_fails_if_the_producer_is_fenced_meanwhile(cluster: FakeCluster) -> None:
    cluster.create("t")
    async with started(cluster) as producer:
        released, delivery = await begin_while_adding(cluster, producer)
        aborting = asyncio.ensure_future(producer.abort_transaction())
        with pytest.raises(RecordAbortedError):
            await delivery
        held(cluster).epoch += 1
        released.set()
        with pytest.raises(ProducerFencedError):
            await aborting
        with pytest.raises(ProducerFencedError):
            await producer.begin_transaction()


async def begin_while_adding(
    cluster: FakeCluster, producer: Producer
) -> tuple[asyncio.Event, "asyncio.Future[RecordMetadata]"]:
    """Begin a transaction with a record; its partition is added once the event is set."""
    await producer.begin_transaction()
    released = cluster.hold(ApiKey.ADD_PARTITIONS_TO_TXN)
    delivery = await producer.send("t", b"a")
    await cluster.wait_for(ApiKey.ADD_PARTITIONS_TO_TXN)
    return released, delivery


@pytest.mark.parametrize("key", STEPS[1:])
async def test_offsets_with_an_unknown_fate_are_not_committed(
    cluster: FakeCluster, key: ApiKey
) -> None:
    async with started(cluster) as producer:
        cluster.script(key, Never())
        await producer.begin_transaction()
        sending = asyncio.ensure_future(producer.send_offsets_to_transaction({T0: 1}, GROUP))
        await cluster.wait_for(key)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        with pytest.raises(TransactionAbortableError, match="was cancelled"):
            await producer.commit_transaction()
        cluster.brokers[0].cut()
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send_offsets_to_transaction({T0: 2}, GROUP)
    assert held(cluster).committed_offsets == {T0: 2}


async def test_a_commit_cancelled_before_its_request_leaves_the_transaction_open(
    cluster: FakeCluster,
) -> None:
    (log,) = cluster.create("t")
    async with started(cluster) as producer:
        await producer.begin_transaction()
        released = cluster.hold(ApiKey.PRODUCE)
        await producer.send("t", b"a")
        committing = asyncio.ensure_future(producer.commit_transaction())
        await cluster.wait_for(ApiKey.PRODUCE)
        with pytest.raises(TransactionStateError, match="a commit waits"):
            await producer.send("t", b"too late")
        committing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await committing
        released.set()
        await producer.send("t", b"b")
        await producer.commit_transaction()
    assert log.values() == [b"a", b"b"]
    assert states(cluster) == [COMMITTED]


async def test_a_cancelled_block_is_aborted(cluster: FakeCluster) -> None:
    cluster.create("t")

    async def block(producer: Producer) -> None:
        async with producer.transaction():
            await producer.send_and_wait("t", b"a")
            await asyncio.Event().wait()

    async with started(cluster) as producer:
        task = asyncio.ensure_future(block(producer))
        await cluster.wait_for(ApiKey.PRODUCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with producer.transaction():
            await producer.send("t", b"b")
    assert states(cluster) == [ABORTED, COMMITTED]


@pytest.mark.parametrize("steps", range(0, 60, 3))
async def test_cancellation_at_any_step_leaves_a_defined_phase(
    cluster: FakeCluster, steps: int
) -> None:
    """A cancelled method can be repeated, and transactions stay atomic."""
    logs = cluster.create("t", [0, 0])

    async def run(producer: Producer) -> None:
        async with producer.transaction():
            for partition in range(2):
                await producer.send("t", b"first", partition=partition)
            await producer.send_offsets_to_transaction({T0: 1}, GROUP)

    async with started(cluster) as producer:
        task = asyncio.ensure_future(run(producer))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        was_cancelled = task.cancelled()
        await settle(producer)
        async with producer.transaction():
            for partition in range(2):
                await producer.send("t", b"second", partition=partition)
    assert states(cluster)[-1] == COMMITTED
    assert all(log.values()[-1] == b"second" for log in logs)
    if not was_cancelled:
        assert states(cluster) == [COMMITTED, COMMITTED]
    for state, partitions in held(cluster).ended:
        assert state == ABORTED or len(partitions) == 2


async def settle(producer: Producer) -> None:
    """Repeat the methods that a cancelled block left open."""
    methods: tuple[Callable[[], Awaitable[None]], ...] = (
        producer.commit_transaction,
        producer.abort_transaction,
    )
    for method in methods:
        try:
            await method()
        except OttlaError:
            continue


async def test_a_record_that_waits_for_memory_does_not_enter_the_next_transaction(
    cluster: FakeCluster,
) -> None:
    (log,) = cluster.create("t")
    async with started(
        cluster, buffer_memory_bytes=20_000, batch_size_bytes=10_000, linger_ms=1
    ) as producer:
        await producer.begin_transaction()
        released = cluster.hold(ApiKey.PRODUCE)
        await producer.send("t", bytes(9_000))
        await producer.send("t", bytes(9_000))
        waiting = asyncio.ensure_future(producer.send("t", bytes(9_000)))
        await cluster.wait_for(ApiKey.PRODUCE)
        aborting = asyncio.ensure_future(producer.abort_transaction())
        await asyncio.sleep(0)
        released.set()
        await aborting
        await producer.begin_transaction()
        with pytest.raises(TransactionStateError):
            await waiting
        await producer.send("t", b"next")
        await producer.commit_transaction()
    assert log.values()[-1] == b"next"
    assert states(cluster) == [ABORTED, COMMITTED]

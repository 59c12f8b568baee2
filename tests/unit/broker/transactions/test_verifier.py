"""Questions to transaction coordinators, whether partitions belong to transactions."""

import asyncio
from collections.abc import Iterable

import pytest

from broker.network.router import MAX_ITEMS
from broker.transactions import verifier as module
from broker.transactions.verification import Asked, Codes
from broker.transactions.verifier import TransactionVerifier
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.messages.transactions import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

P0, P1, P2 = (TopicPartition("t", index) for index in range(3))
B1, B2 = BrokerId(1), BrokerId(2)
A, OLDER, B = Asked("a", 7, 1), Asked("a", 7, 0), Asked("b", 8, 0)
NONE = ErrorCode.NONE


class FakeCoordinators:
    """Coordinators that answer when the test says so."""

    def __init__(self) -> None:
        self.leaders: dict[str, BrokerId | None] = {"a": B1, "b": B1}
        self.here: Codes | None = None
        self.requests: list[tuple[BrokerId, AddPartitionsToTxnRequest]] = []
        self.answers: asyncio.Queue[AddPartitionsToTxnResponse | Exception | None] = asyncio.Queue()

    def coordinator_of(self, transactional_id: str) -> BrokerId | None:
        return self.leaders[transactional_id]

    def verify_here(self, asked: Asked, partitions: Iterable[TopicPartition]) -> Codes | None:
        del asked, partitions
        return self.here

    async def verify(
        self, broker_id: BrokerId, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnResponse | None:
        self.requests.append((broker_id, request))
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def asked(self) -> list[list[tuple[str, int, int, list[int]]]]:
        """Return id, producer, epoch and partitions of the transactions in each request."""
        return [
            [
                (
                    each.transactional_id,
                    each.producer_id,
                    each.producer_epoch,
                    [index for topic in each.topics for index in topic.partitions],
                )
                for each in request.transactions
                if each.verify_only
            ]
            for _, request in self.requests
        ]


def response(*results: tuple[str, int, ErrorCode]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=id_,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name="t",
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(
                                partition_index=index, partition_error_code=code
                            )
                            for each, index, code in results
                            if each == id_
                        ],
                    )
                ],
            )
            for id_ in dict.fromkeys(each for each, _, _ in results)
        ]
    )


@pytest.fixture
def coordinators() -> FakeCoordinators:
    return FakeCoordinators()


@pytest.fixture
async def verifier(coordinators: FakeCoordinators) -> TransactionVerifier:
    return TransactionVerifier(coordinators, asyncio.get_running_loop())


def ask(
    verifier: TransactionVerifier, asked: Asked, *partitions: TopicPartition
) -> asyncio.Future[Codes]:
    return asyncio.ensure_future(verifier.verify(asked, partitions))


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_coordinator_answers_for_each_partition(
    verifier: TransactionVerifier, coordinators: FakeCoordinators
) -> None:
    coordinators.answers.put_nowait(
        response(("a", 0, NONE), ("a", 1, ErrorCode.TRANSACTION_ABORTABLE))
    )
    assert await verifier.verify(A, [P0, P1, P2]) == {
        P0: NONE,
        P1: ErrorCode.TRANSACTION_ABORTABLE,
        P2: ErrorCode.INVALID_TXN_STATE,
    }
    assert coordinators.asked == [[("a", 7, 1, [0, 1, 2])]]


async def test_questions_that_arrive_meanwhile_make_the_next_request(
    verifier: TransactionVerifier, coordinators: FakeCoordinators
) -> None:
    first = ask(verifier, A, P0)
    await turns()
    others = [ask(verifier, *each) for each in ((A, P1), (B, P0), (A, P2), (OLDER, P2))]
    await turns()
    assert len(coordinators.requests) == 1, "one request in flight"
    coordinators.answers.put_nowait(response(("a", 0, NONE)))
    assert await first == {P0: NONE}
    coordinators.answers.put_nowait(
        response(("a", 1, NONE), ("a", 2, NONE), ("b", 0, ErrorCode.CONCURRENT_TRANSACTIONS))
    )
    coordinators.answers.put_nowait(response(("a", 2, ErrorCode.PRODUCER_FENCED)))
    found = [await each for each in others]
    assert found == [
        {P1: NONE},
        {P0: ErrorCode.CONCURRENT_TRANSACTIONS},
        {P2: NONE},
        {P2: ErrorCode.INVALID_PRODUCER_EPOCH},
    ]
    # A request names each id once.
    assert coordinators.asked[1:] == [
        [("a", 7, 1, [1, 2]), ("b", 8, 0, [0])],
        [("a", 7, 0, [2])],
    ]


async def test_a_request_has_no_more_elements_than_a_coordinator_accepts(
    verifier: TransactionVerifier, coordinators: FakeCoordinators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would close the connection, and all producers that wait would have to retry."""
    most = module.MAX_TRANSACTIONS_PER_REQUEST + 2 * module.MAX_PARTITIONS_PER_REQUEST
    assert most <= MAX_ITEMS, "each partition may have a topic of its own"
    monkeypatch.setattr(module, "MAX_PARTITIONS_PER_REQUEST", 1)
    tasks = [ask(verifier, A, P0)]
    await turns()
    tasks += [ask(verifier, A, P1, P2), ask(verifier, B, P0)]
    await turns()
    for _ in tasks:
        # It is too old to verify anything.
        coordinators.answers.put_nowait(None)
    await asyncio.gather(*tasks)
    assert coordinators.asked == [
        [("a", 7, 1, [0])],
        [("a", 7, 1, [1, 2])],
        [("b", 8, 0, [0])],
    ]


async def test_coordinators_are_asked_independently(
    verifier: TransactionVerifier, coordinators: FakeCoordinators
) -> None:
    coordinators.leaders["b"] = B2
    tasks = [ask(verifier, A, P0), ask(verifier, B, P0)]
    await turns()
    assert [broker_id for broker_id, _ in coordinators.requests] == [B1, B2]
    for id_ in ("a", "b"):
        coordinators.answers.put_nowait(response((id_, 0, NONE)))
    assert [await each for each in tasks] == [{P0: NONE}, {P0: NONE}]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        pytest.param(None, NONE, id="a broker that is too old to verify"),
        pytest.param(OSError("gone"), ErrorCode.NETWORK_EXCEPTION, id="unreachable"),
        pytest.param(
            AddPartitionsToTxnResponse(error_code=31), ErrorCode.INVALID_TXN_STATE, id="denied"
        ),
        pytest.param(
            AddPartitionsToTxnResponse(error_code=9999),
            ErrorCode.UNKNOWN_SERVER_ERROR,
            id="unknown code",
        ),
        pytest.param(AddPartitionsToTxnResponse(), ErrorCode.INVALID_TXN_STATE, id="no result"),
    ],
)
async def test_one_result_may_apply_to_all_partitions(
    verifier: TransactionVerifier,
    coordinators: FakeCoordinators,
    answer: AddPartitionsToTxnResponse | Exception | None,
    code: ErrorCode,
) -> None:
    coordinators.answers.put_nowait(answer)
    assert await verifier.verify(A, [P0, P1]) == {P0: code, P1: code}


async def test_unknown_coordinator_is_not_available(
    verifier: TransactionVerifier, coordinators: FakeCoordinators
) -> None:
    coordinators.leaders["a"] = None
    assert await verifier.verify(A, [P0]) == {P0: ErrorCode.COORDINATOR_NOT_AVAILABLE}


@pytest.mark.parametrize("code", [NONE, ErrorCode.TRANSACTION_ABORTABLE])
@pytest.mark.parametrize("successor", [B2, None])
async def test_answer_of_a_replaced_coordinator_does_not_count(
    verifier: TransactionVerifier,
    coordinators: FakeCoordinators,
    code: ErrorCode,
    successor: BrokerId | None,
) -> None:
    """Its successor may have added the partition to the transaction, or ended that."""
    tasks = [ask(verifier, A, P0), ask(verifier, B, P0)]
    await turns()
    coordinators.leaders["a"] = successor
    coordinators.answers.put_nowait(response(("a", 0, code), ("b", 0, code)))
    assert [await each for each in tasks] == [
        {P0: ErrorCode.COORDINATOR_NOT_AVAILABLE},
        {P0: code},
    ]


async def test_this_broker_answers_at_once(
    verifier: TransactionVerifier, coordinators: FakeCoordinators
) -> None:
    assert verifier.verify_here(A, [P0]) is None
    coordinators.here = {P0: ErrorCode.PRODUCER_FENCED}
    assert verifier.verify_here(A, [P0]) == {P0: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert await verifier.verify(A, [P0]) == {P0: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert not coordinators.requests


async def test_number_of_waiting_transactions_is_limited(
    verifier: TransactionVerifier, coordinators: FakeCoordinators, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_TRANSACTIONS", 1)
    monkeypatch.setattr(module, "MAX_TRANSACTIONS_PER_REQUEST", 1)
    first = ask(verifier, A, P0)
    await turns()
    second = ask(verifier, A, P1)
    await turns()
    assert await verifier.verify(B, [P0]) == {P0: ErrorCode.NETWORK_EXCEPTION}
    for index in (0, 1):
        coordinators.answers.put_nowait(response(("a", index, NONE)))
    assert (await first, await second) == ({P0: NONE}, {P1: NONE})
    coordinators.answers.put_nowait(response(("b", 0, NONE)))
    assert await verifier.verify(B, [P0]) == {P0: NONE}, "there is room again"


async def test_a_lost_client_does_not_cancel_the_question_of_others(
    verifier: TransactionVerifier, coordinators: FakeCoordinators
) -> None:
    first, second = ask(verifier, A, P0), ask(verifier, A, P0)
    await turns()
    first.cancel()
    await turns()
    coordinators.answers.put_nowait(response(("a", 0, NONE)))
    assert await second == {P0: NONE}


async def test_stop_answers_every_question(
    verifier: TransactionVerifier, coordinators: FakeCoordinators
) -> None:
    first = ask(verifier, A, P0)
    await turns()
    second = ask(verifier, B, P0)
    await turns()
    assert len(coordinators.requests) == 1
    await verifier.stop()
    assert [await each for each in (first, second)] == [{P0: ErrorCode.NETWORK_EXCEPTION}] * 2
    await verifier.stop()

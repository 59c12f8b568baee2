"""Asks transaction coordinators whether partitions belong to transactions (edge).

Each coordinator has one request in flight, and the questions that arrive meanwhile make the next
one. A question that waits for the same transaction joins it. Source: KIP-890, and Kafka's
AddPartitionsToTxnManager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

import structlog

from broker.transactions.verification import Asked, Codes
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicPartition, by_topic
from kafkawire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

MAX_WAITING_TRANSACTIONS: Final = 10_000
"""Limit for all coordinators together; more questions are answered with NETWORK_EXCEPTION."""
MAX_TRANSACTIONS_PER_REQUEST: Final = 1_000
MAX_PARTITIONS_PER_REQUEST: Final = 4_000
"""With as many topics, and the transactions, still fewer elements than a broker accepts."""

log = structlog.get_logger(__name__)


class Coordinators(Protocol):
    """The transaction coordinators of the cluster."""

    def coordinator_of(self, transactional_id: str) -> BrokerId | None:
        """Return the broker that coordinates an id; None while it is unknown."""

    def verify_here(self, asked: Asked, partitions: Iterable[TopicPartition]) -> Codes | None:
        """Return the answer of this broker, if it is the coordinator of the transaction."""

    async def verify(
        self, broker_id: BrokerId, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnResponse | None:
        """Ask another broker; None means that it is too old to verify anything.

        Raises:
            OSError: it is unreachable, or did not answer in time.
        """


class _Question:
    """The partitions of one transaction, and the future answer for all of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.partitions: dict[TopicPartition, None] = {}
        self.answer: asyncio.Future[Codes] = loop.create_future()

    def resolve(self, codes: Codes, default: ErrorCode) -> None:
        """Answer, unless there is an answer; `default` is for partitions without a code."""
        if not self.answer.done():
            self.answer.set_result({each: codes.get(each, default) for each in self.partitions})


class TransactionVerifier:
    """The questions of this broker, by coordinator. Each gets an answer, also if all stops."""

    def __init__(self, coordinators: Coordinators, loop: asyncio.AbstractEventLoop) -> None:
        self._coordinators = coordinators
        self._loop = loop
        self._waiting: dict[BrokerId, dict[Asked, _Question]] = {}
        self._tasks: dict[BrokerId, asyncio.Task[None]] = {}
        self._waiting_count = 0

    def verify_here(self, asked: Asked, partitions: Iterable[TopicPartition]) -> Codes | None:
        """Return the result of `verify`, if this broker coordinates the transaction."""
        codes = self._coordinators.verify_here(asked, partitions)
        return None if codes is None else {each: _code(code) for each, code in codes.items()}

    async def verify(self, asked: Asked, partitions: Iterable[TopicPartition]) -> Codes:
        """Return for each of `partitions` whether it is in the open transaction of a producer.

        The codes are the coordinator's, or COORDINATOR_NOT_AVAILABLE or NETWORK_EXCEPTION.
        """
        wanted = list(partitions)
        codes = self.verify_here(asked, wanted)
        if codes is not None:
            return codes
        broker_id = self._coordinators.coordinator_of(asked.transactional_id)
        if broker_id is None:
            return dict.fromkeys(wanted, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        waiting = self._waiting.setdefault(broker_id, {})
        question = waiting.get(asked)
        if question is None:
            if self._waiting_count >= MAX_WAITING_TRANSACTIONS:
                return dict.fromkeys(wanted, ErrorCode.NETWORK_EXCEPTION)
            question = waiting[asked] = _Question(self._loop)
            self._waiting_count += 1
        question.partitions.update(dict.fromkeys(wanted))
        if broker_id not in self._tasks:
            self._tasks[broker_id] = self._loop.create_task(
                self._ask_all(broker_id), name="transaction verifier"
            )
        # Others may wait for the same answer.
        codes = await asyncio.shield(question.answer)
        return {each: codes[each] for each in wanted}

    async def stop(self) -> None:
        """Stop asking."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # Inside

    async def _ask_all(self, broker_id: BrokerId) -> None:
        waiting = self._waiting[broker_id]
        try:
            while waiting:
                await self._ask(broker_id, self._take(waiting))
        finally:
            del self._tasks[broker_id], self._waiting[broker_id]
            self._waiting_count -= len(waiting)
            for question in waiting.values():
                question.resolve({}, ErrorCode.NETWORK_EXCEPTION)

    def _take(self, waiting: dict[Asked, _Question]) -> dict[Asked, _Question]:
        """Take questions for one request, at most one for each transactional id."""
        taken: dict[str, Asked] = {}
        partition_count = 0
        for asked, question in waiting.items():
            if asked.transactional_id in taken:
                continue
            partition_count += len(question.partitions)
            if taken and partition_count > MAX_PARTITIONS_PER_REQUEST:
                break
            taken[asked.transactional_id] = asked
            if len(taken) == MAX_TRANSACTIONS_PER_REQUEST:
                break
        self._waiting_count -= len(taken)
        return {asked: waiting.pop(asked) for asked in taken.values()}

    async def _ask(self, broker_id: BrokerId, questions: dict[Asked, _Question]) -> None:
        request = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=asked.transactional_id,
                    producer_id=asked.producer_id,
                    producer_epoch=asked.producer_epoch,
                    verify_only=True,
                    topics=[
                        AddPartitionsToTxnTopic(name=topic, partitions=indexes)
                        for topic, indexes in by_topic(question.partitions).items()
                    ],
                )
                for asked, question in questions.items()
            ]
        )
        found: dict[str, dict[TopicPartition, ErrorCode]] = {}
        default = ErrorCode.NETWORK_EXCEPTION
        try:
            response = await self._coordinators.verify(broker_id, request)
            if response is None:
                default = ErrorCode.NONE
            elif response.error_code:
                default = _code(response.error_code)
            else:
                default, found = ErrorCode.INVALID_TXN_STATE, _found(response)
        except OSError as error:
            log.info("transactions.not_verified", broker_id=broker_id, error=str(error))
        finally:
            for asked, question in questions.items():
                id_ = asked.transactional_id
                if self._coordinators.coordinator_of(id_) == broker_id:
                    question.resolve(found.get(id_, {}), default)
                else:
                    # The next coordinator may have added partitions, or ended the transaction.
                    question.resolve({}, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _found(response: AddPartitionsToTxnResponse) -> dict[str, dict[TopicPartition, ErrorCode]]:
    """Return the codes of a response, by transactional id."""
    return {
        result.transactional_id: {
            TopicPartition(topic.name, each.partition_index): _code(each.partition_error_code)
            for topic in result.topic_results
            for each in topic.results_by_partition
        }
        for result in response.results_by_transaction
    }


def _code(code: int) -> ErrorCode:
    """Return the error for a writer: an older code where it may not know the coordinator's."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return _TRANSLATED.get(known, known)


_TRANSLATED: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ErrorCode.INVALID_TXN_STATE,
}

"""Verifies the transactions of produce requests before their first batches (edge).

A leader does not know which transactions are open at their coordinator. Before a producer opens a
transaction in a partition, the coordinator must confirm that the partition is part of it; see
`transaction_guards`. Nothing awaits between the last check of a guard and the write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from broker.handlers.appending import Appending
from broker.replication.replica_manager import ReplicaManager
from broker.replication.transaction_guards import TransactionalAppend
from broker.transactions.verification import Asked, Codes, Unverified, admit, find_unverified
from broker.transactions.verifier import TransactionVerifier
from kafkawire.errors import ApiError, CorruptBatchError, ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.records import BatchHeader, read_header

ABORTABLE_SINCE: Final = 11
"""First version of Produce with TRANSACTION_ABORTABLE."""
BUSY: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors of a coordinator that the producer must not take for errors of the leader."""


class TransactionalProduce:
    """The transactional part of the produce handler."""

    def __init__(
        self,
        replicas: ReplicaManager,
        verifier: TransactionVerifier,
        *,
        is_enabled: Callable[[], bool],
        clock_ms: Callable[[], int],
    ) -> None:
        """Verify while `is_enabled()`; it may change at any time."""
        self._replicas = replicas
        self._verifier = verifier
        self._is_enabled = is_enabled
        self._clock_ms = clock_ms

    def begin(self, work: Appending) -> bool:
        """Prepare a request; return whether its batches may be appended now, in this turn."""
        headers = _headers(work)
        producers = {(each.producer_id, each.producer_epoch) for each in headers.values()}
        work.transaction = TransactionalAppend(needs_guard=self._is_enabled())
        if len(producers) > 1:
            error = ApiError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the records are of several producers"
            )
            work.denied = dict.fromkeys(_partitions(work), error)
            return True
        if not producers or not work.transaction.needs_guard:
            return True
        asked = Asked(_transactional_id(work), *producers.pop())
        sequences = {partition: each.base_sequence for partition, each in headers.items()}
        unverified = find_unverified(self._replicas, asked, sequences, self._clock_ms())
        if not unverified:
            return True
        codes = self._verifier.verify_here(asked, [each.partition for each in unverified])
        if codes is None:
            work.unverified = asked, unverified
            return False
        self._conclude(work, asked, unverified, codes)
        return True

    async def verify(self, work: Appending) -> None:
        """Ask the coordinator for a request after `begin` has returned False."""
        assert work.unverified is not None, "`begin` has found the partitions"
        (asked, unverified), work.unverified = work.unverified, None
        codes = await self._verifier.verify(asked, [each.partition for each in unverified])
        self._conclude(work, asked, unverified, codes)

    # Inside

    def _conclude(
        self, work: Appending, asked: Asked, unverified: Iterable[Unverified], codes: Codes
    ) -> None:
        version = work.request.header.api_version
        for partition, code in admit(self._replicas, asked, unverified, codes).items():
            error = produce_error(code, version)
            work.denied[partition] = ApiError(error, f"not verified: {code.name}")


def produce_error(code: ErrorCode, version: int) -> ErrorCode:
    """Return the error for a producer whose transaction was not verified."""
    if code in BUSY:
        # Old producers retry it without looking for another leader (KAFKA-16386).
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return code


def _headers(work: Appending) -> dict[TopicPartition, BatchHeader]:
    """Return the headers of the transactional batches; others are checked by the append."""
    found = {}
    for topic in work.message.topic_data:
        for data in topic.partition_data:
            records = data.records
            if not isinstance(records, memoryview):
                continue
            try:
                header = read_header(records)
            except CorruptBatchError:
                continue
            if header.is_transactional:
                found[TopicPartition(topic.name, data.index)] = header
    return found


def _partitions(work: Appending) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, data.index)
        for topic in work.message.topic_data
        for data in topic.partition_data
    ]


def _transactional_id(work: Appending) -> str:
    transactional_id = work.message.transactional_id
    assert transactional_id is not None, "a transactional request"
    return transactional_id

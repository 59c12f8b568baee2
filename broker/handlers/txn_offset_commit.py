"""TxnOffsetCommit: offsets of a group that count once a transaction is committed (edge)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from broker.groups.group_coordinator import GroupCoordinator
from broker.groups.group_transactions import Producer
from broker.handlers.handler_table import Apis, Parts
from broker.handlers.offset_commit import Answers, OffsetChecks, answers_by_topic, with_result
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks
from broker.replication.replica_manager import ReplicaManager
from broker.replication.transaction_guards import TransactionalAppend
from broker.transactions.verification import Asked, admit, find_unverified
from broker.transactions.verifier import TransactionVerifier
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.group_records import CommittedOffset
from kafkawire.ids import TopicPartition
from kafkawire.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kafkawire.sentinels import NO_SEQUENCE

LOADING_SINCE: Final = 2
"""First version whose producers know that a coordinator may be loading (KAFKA-7296)."""
ABORTABLE_SINCE: Final = 4
"""First version with TRANSACTION_ABORTABLE."""
VERIFICATION_ERRORS: Final = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
}

OnDone = Callable[[ErrorCode], None]

APIS: Final[Apis] = {
    ApiKey.TXN_OFFSET_COMMIT: lambda parts: _handler(parts).handle,
}


class TxnOffsetCommitHandler:
    """Commits offsets in transactions."""

    def __init__(
        self,
        groups: GroupCoordinator,
        checks: OffsetChecks,
        replicas: ReplicaManager,
        verifier: TransactionVerifier,
        tasks: RequestTasks,
        *,
        is_verifying: Callable[[], bool],
        now_ms: Callable[[], int],
        clock_ms: Callable[[], int],
    ) -> None:
        """Verify transactions while `is_verifying()`; it may change at any time."""
        self._transactions = groups.transactions
        self._checks = checks
        self._replicas = replicas
        self._verifier = verifier
        self._tasks = tasks
        self._is_verifying = is_verifying
        self._now_ms = now_ms
        self._clock_ms = clock_ms

    def handle(self, request: Request, message: TxnOffsetCommitRequest) -> Reply:
        """Respond when the offsets are replicated; a bad offset does not fail the others."""
        refusals, commits = self._sort_out(message)
        if set(refusals.values()) <= {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}:
            return Reply(_response(refusals))
        reply, version = Reply(), request.header.api_version

        def answer(code: ErrorCode) -> None:
            reply.complete(_response(with_result(refusals, _for_version(code, version))))

        needs_guard = self._is_verifying()
        checks = TransactionalAppend(needs_guard=needs_guard, has_sequence=False)
        commit = partial(
            self._transactions.commit,
            message.group_id,
            (message.member_id, message.group_instance_id, message.generation_id),
            Producer(message.producer_id, message.producer_epoch, checks),
            commits,
        )
        if not needs_guard:
            commit(answer)
            return reply
        return self._verify(message, reply, answer, commit)

    # Inside

    def _verify(
        self,
        message: TxnOffsetCommitRequest,
        reply: Reply,
        answer: OnDone,
        commit: Callable[[OnDone], None],
    ) -> Reply:
        """Call `commit` once the transaction is known to contain the group's partition."""
        asked = Asked(message.transactional_id, message.producer_id, message.producer_epoch)
        try:
            partition = self._transactions.partition_of(message.group_id)
        except ApiError as error:
            answer(error.code)
            return reply
        unverified = find_unverified(
            self._replicas, asked, {partition: NO_SEQUENCE}, self._clock_ms()
        )
        if not unverified:
            commit(answer)
            return reply
        codes = self._verifier.verify_here(asked, [partition])
        if codes is not None:
            errors = admit(self._replicas, asked, unverified, codes)
            _conclude(errors.get(partition), answer, commit)
            return reply

        async def verify() -> object:
            found = await self._verifier.verify(asked, [partition])
            errors = admit(self._replicas, asked, unverified, found)
            if reply.cancelled:
                # The producer has lost the connection, and may have begun another transaction.
                return TxnOffsetCommitResponse()
            _conclude(errors.get(partition), answer, commit)
            return reply

        waiting = self._tasks.run(verify)
        waiting.on_cancel(reply.cancel)
        return waiting

    def _sort_out(
        self, message: TxnOffsetCommitRequest
    ) -> tuple[Answers, dict[TopicPartition, CommittedOffset]]:
        """Return the error code of each offset, and the offsets with NONE."""
        refusals: Answers = {}
        commits: dict[TopicPartition, CommittedOffset] = {}
        now_ms = self._now_ms()
        for topic in message.topics:
            for each in topic.partitions:
                key = TopicPartition(topic.name, each.partition_index)
                committed = _committed(each, now_ms)
                refusals[key] = self._checks.check(key, committed)
                if refusals[key] is ErrorCode.NONE:
                    commits[key] = committed
        return refusals, commits


def _conclude(error: ErrorCode | None, answer: OnDone, commit: Callable[[OnDone], None]) -> None:
    if error is None:
        commit(answer)
    else:
        answer(VERIFICATION_ERRORS.get(error, error))


def _committed(each: TxnOffsetCommitRequestPartition, now_ms: int) -> CommittedOffset:
    return CommittedOffset(
        offset=each.committed_offset,
        leader_epoch=each.committed_leader_epoch,
        metadata=each.committed_metadata or "",
        commit_timestamp_ms=now_ms,
        expire_timestamp_ms=None,
    )


def _for_version(code: ErrorCode, version: int) -> ErrorCode:
    if version < LOADING_SINCE and code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if version < ABORTABLE_SINCE and code is ErrorCode.TRANSACTION_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return code


def _response(answers: Answers) -> TxnOffsetCommitResponse:
    topics = answers_by_topic(
        TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition, answers
    )
    return TxnOffsetCommitResponse(topics=topics)


def _handler(parts: Parts) -> TxnOffsetCommitHandler:
    return TxnOffsetCommitHandler(
        parts.groups,
        OffsetChecks(parts.groups.commits, parts.metadata),
        parts.replicas,
        parts.verifier,
        parts.tasks,
        is_verifying=lambda: parts.configs.verifies_transactions,
        now_ms=parts.now_ms,
        clock_ms=parts.clock_ms,
    )

"""Runs the transactions of one producer: begin, add, commit, abort (edge).

Calls of the application run one after the other, and so do the requests to the coordinators.
Partitions are added in the background, all that were sent to in one turn of the sender together.
Invariant: a cancelled call leaves a defined phase. Before the commit was requested the transaction
stays open, afterwards only `commit` may follow, and offsets with an unknown fate cannot be
committed.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from math import inf
from typing import Final, TypeVar

from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from ottla.client.client_config import ProducerConfig
from ottla.client.errors import (
    BrokerError,
    OttlaError,
    ProtocolError,
    RecordAbortedError,
    TransactionAbortableError,
    TransactionFatalError,
    TransactionTimedOutError,
    UnsupportedVersionError,
)
from ottla.client.network.cluster import Cluster
from ottla.client.offset import CommittedOffset, GroupMetadata
from ottla.client.producer.producer_batch import ProducerBatch
from ottla.client.producer.producer_sequences import ProducerIdentity
from ottla.client.producer.transaction_requests import TransactionRequests
from ottla.client.producer.transaction_state import Phase, TransactionState
from ottla.client.producer.transaction_verdict import (
    Step,
    Verdict,
    is_doubtful,
    is_unanswered,
    judge,
)
from ottla.client.request_parts import MAX_PARTITIONS_PER_REQUEST

T = TypeVar("T")

log = logging.getLogger(__name__)

BUSY_RETRY_S: Final = 0.02
"""Delay while the markers of the previous transaction are written (KAFKA-5482)."""
QUICK_RETRIES: Final = 10
"""Number of these short delays before the usual back-off."""
_FIRST_STEPS: Final = (Step.ADD, Step.ADD_OFFSETS)
CANCELLED_ABORT_S: Final = 1.0
"""Time for the abort of a transaction whose block was cancelled or interrupted."""
_ENDS_OF_BLOCK: Final = (Exception, asyncio.CancelledError, KeyboardInterrupt, SystemExit)
"""Not GeneratorExit: a coroutine that is closed cannot wait for the abort."""


class Transactions:
    """The transactions of one producer. Call `initialize` first."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        state: TransactionState,
        adopt: Callable[[ProducerIdentity], None],
        flush: Callable[[], Awaitable[None]],
        wake: Callable[[], None],
    ) -> None:
        """Call `adopt` with each new identity, and `wake` when batches may have become sendable.

        `flush` returns once no batch is waiting or in flight.
        """
        self.state = state
        self._cluster = cluster
        self._adopt = adopt
        self._flush = flush
        self._wake = wake
        self._max_block_s = config.max_block_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._requests = TransactionRequests(
            cluster, state.transactional_id, config.transaction_timeout_ms
        )
        self._calls = asyncio.Lock()
        self._request_turn = asyncio.Lock()
        self._is_adding = False
        # Whether an abort is complete except for the new epoch, so that it may be called again.
        self._is_epoch_due = False

    async def initialize(self) -> None:
        """Get producer id and epoch; older producers of the same transactional id are fenced.

        Raises:
            OttlaError: the coordinator refuses, or cannot be reached within `max_block_ms`.
        """
        async with self._calls:
            try:
                await self._initialize()
            except TransactionFatalError as error:
                # Nothing has happened yet that needs the words of a failed transaction.
                raise error.__cause__ or error from None

    async def begin(self) -> None:
        """Begin a transaction; first get a new epoch if the last transaction made it necessary.

        Raises:
            TransactionError: a transaction is open, or the producer has failed.
        """
        async with self._calls:
            self.state.require("begin_transaction", Phase.READY)
            if self.state.needs_epoch:
                await self._initialize()
            self.state.begin()

    async def commit(self) -> None:
        """Wait for the acknowledgement of all records, then commit.

        Raises:
            TransactionError: see its classes.
        """
        async with self._calls:
            if self.state.phase is not Phase.COMMITTING:
                self.state.begin_flush()
                try:
                    await self._flush()
                except asyncio.CancelledError:
                    self.state.reopen()
                    raise
            await self._end(is_commit=True)

    async def abort(self) -> None:
        """Drop the records that were not sent, and abort.

        Raises:
            TransactionError: see its classes.
        """
        async with self._calls:
            if not self._is_epoch_due:
                self.state.begin_abort()
                # The sender drops waiting batches. Batches in flight are settled before the end.
                await self._flush()
                await self._end(is_commit=False)
                self._is_epoch_due = self.state.needs_epoch
            if self._is_epoch_due:
                self.state.require_not_fatal()
                await self._initialize()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, CommittedOffset], group: GroupMetadata
    ) -> None:
        """Commit offsets of a group with this transaction.

        Raises:
            TransactionError: see its classes; the transaction can only be aborted.
        """
        async with self._calls:
            self.state.require("send_offsets_to_transaction", Phase.IN_TRANSACTION)
            if not offsets:
                return
            try:
                await self._ask(
                    Step.ADD_OFFSETS,
                    lambda: self._requests.add_offsets(self._identity, group.group_id),
                )
                self.state.is_registered = True
                await self._ask(
                    Step.COMMIT_OFFSETS,
                    lambda: self._requests.commit_offsets(self._identity, group, offsets),
                )
            except (asyncio.CancelledError, TransactionTimedOutError) as error:
                cause = error if isinstance(error, OttlaError) else _cancelled_offsets(group)
                raised = self.state.on_failure(Verdict.ABORT, cause)
                if isinstance(error, TransactionTimedOutError):
                    raise raised from error
                raise

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Run a block in a transaction; see `Producer.transaction`."""
        await self.begin()
        number = self.state.number
        try:
            yield
        except _ENDS_OF_BLOCK as error:
            await self._abort_block(number, error)
            raise
        try:
            await self.commit()
        except (TransactionAbortableError, asyncio.CancelledError) as error:
            await self._abort_block(number, error)
            raise

    async def close(self) -> None:
        """Abort the open transaction, if there is one; errors are only logged."""
        try:
            if self.state.is_open or self.state.phase is Phase.FLUSHING:
                await self.abort()
        except OttlaError as error:
            log.warning("transaction.abort_failed error=%s", error)

    # For the sender

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Add the partitions that are not in the transaction yet, in the background."""
        if self.state.want(partitions) and not self._is_adding:
            self._is_adding = True
            self._cluster.spawn(self._add_all(), "add partitions to a transaction")

    def on_batch_failed(self, batch: ProducerBatch, error: OttlaError) -> None:
        """Record that records of the transaction are lost, so that it can only be aborted."""
        if isinstance(error, RecordAbortedError):
            verdict = Verdict.ABORT
        else:
            verdict = judge(Step.PRODUCE, error)
        if verdict is Verdict.ABORT and batch.identity is not None:
            verdict = Verdict.ABORT_WITH_GAP
        self.state.on_failure(verdict, error)

    def dropped(self) -> RecordAbortedError:
        """Return the error of a record that is not sent any more."""
        dropped = RecordAbortedError(
            f"the transaction of {self.state.transactional_id} was aborted before the record was "
            "sent: send it again in another transaction"
        )
        dropped.__cause__ = self.state.error
        return dropped

    # Inside

    @property
    def _identity(self) -> ProducerIdentity:
        assert self.state.identity is not None
        return self.state.identity

    async def _initialize(self) -> None:
        state = self.state

        async def attempt() -> ProducerIdentity:
            try:
                return await self._requests.initialize(state.identity)
            except UnsupportedVersionError:
                if state.identity is None or state.has_gap:
                    raise
                # Old brokers: continue under the same epoch, as clients of their time do.
                return state.identity

        identity = await self._ask(Step.INITIALIZE, attempt)
        log.info(
            "producer_id.given transactional_id=%s id=%d epoch=%d",
            state.transactional_id,
            *identity,
        )
        self._adopt(identity)
        state.on_initialized(identity)
        self._is_epoch_due = False

    async def _end(self, *, is_commit: bool) -> None:
        state = self.state
        if is_commit:
            state.begin_commit()
        await self._ask(Step.END, lambda: self._end_once(is_commit=is_commit))
        # A request that was in flight may have failed for good meanwhile.
        state.require_not_fatal()
        state.on_ended()

    async def _end_once(self, *, is_commit: bool) -> None:
        # Known only in the turn of this request: partitions or offsets that were being added may
        # have begun the transaction.
        if not self.state.must_be_ended:
            return
        try:
            await self._requests.end(self._identity, is_commit=is_commit)
        except BrokerError as error:
            if is_commit or not self.state.is_ended_by(error):
                raise

    async def _abort_block(self, number: int, error: BaseException) -> None:
        """Abort the transaction of a block that raised `error`; add a note if that fails."""
        state = self.state
        if state.number != number or not state.is_open:
            return
        is_cancelled = not isinstance(error, Exception)
        try:
            async with asyncio.timeout(CANCELLED_ABORT_S if is_cancelled else None):
                await self.abort()
        except (OttlaError, TimeoutError) as failed:
            log.warning("transaction.abort_failed error=%s", failed)
            reason = str(failed) or "no answer in time"
            error.add_note(f"The transaction was not aborted: {reason}")

    async def _add_all(self) -> None:
        try:
            while self.state.wanted():
                await self._ask(Step.ADD, self._add_wanted, inf)
                self._wake()
        except OttlaError as error:
            log.warning("transaction.failed error=%s", error)
        finally:
            self._is_adding = False

    async def _add_wanted(self) -> None:
        number = self.state.number
        # Nothing, if the transaction was aborted during the delay before this attempt.
        if wanted := self.state.wanted()[:MAX_PARTITIONS_PER_REQUEST]:
            await self._requests.add_partitions(self._identity, wanted)
            if self.state.number == number:
                self.state.on_added(wanted)

    async def _ask(
        self, step: Step, attempt: Callable[[], Awaitable[T]], timeout_s: float | None = None
    ) -> T:
        """Return the result of `attempt`; retry it as long as the verdict is to do so.

        Raises:
            TransactionError: the verdict on the error, or no answer in time.
        """
        limit_s = self._max_block_s if timeout_s is None else timeout_s
        last: OttlaError | None = None
        failure_count = 0
        try:
            async with asyncio.timeout(None if limit_s == inf else limit_s) as limit:
                while True:
                    try:
                        return await self._once(attempt)
                    except OttlaError as error:
                        last = error
                        verdict = judge(step, error)
                        if verdict is not Verdict.RETRY:
                            raise self.state.on_failure(verdict, error) from error
                    failure_count += 1
                    log.debug("transaction.retried request=%s error=%s", step.value, last)
                    await asyncio.sleep(self._delay_s(step, last, failure_count))
        except TimeoutError:
            if not limit.expired():
                raise
            reason = f" (last error: {last})" if last is not None else ""
            raise TransactionTimedOutError(
                f"{step.value} of transactional id {self.state.transactional_id} was not answered "
                f"within {limit_s:g} s (max_block_ms){reason}. Call the same method again, or "
                "close this producer."
            ) from last

    async def _once(self, attempt: Callable[[], Awaitable[T]]) -> T:
        async with self._request_turn:
            try:
                return await attempt()
            except asyncio.CancelledError:
                self.state.on_unanswered()
                raise
            except OttlaError as error:
                if is_unanswered(error):
                    self.state.on_unanswered()
                elif is_doubtful(error):
                    self.state.on_doubtful()
                if isinstance(error, ProtocolError):
                    self._requests.forget()
                raise

    def _delay_s(self, step: Step, error: OttlaError, failure_count: int) -> float:
        delay_s = self._cluster.backoff.delay_s(failure_count)
        is_busy = isinstance(error, BrokerError) and error.code == ErrorCode.CONCURRENT_TRANSACTIONS
        is_first = step is Step.INITIALIZE or (step in _FIRST_STEPS and self.state.is_empty)
        if is_busy and is_first and failure_count <= QUICK_RETRIES:
            return min(delay_s, BUSY_RETRY_S)
        return delay_s


def _cancelled_offsets(group: GroupMetadata) -> OttlaError:
    return OttlaError(f"sending the offsets of group {group.group_id} was cancelled.")

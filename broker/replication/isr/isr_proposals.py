"""Checks for lagging followers, and submits the ISR proposals of this broker's leaderships (edge).

One request is in flight; proposals that are made meanwhile go with the next one. A proposal is
retried until it has a result or its leadership has ended, as a sent request proves nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

import structlog

from broker.config.replication_keys import ReplicationKeys
from broker.replication.isr.isr_state import Proposal
from broker.replication.leadership import Leadership
from broker.replication.replica import Replica
from broker.replication.replica_table import ReplicaTable
from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicId, TopicPartition

RETRY_BACKOFF_MS: Final = 50
MAX_PROPOSALS_PER_REQUEST: Final = 10_000

log = structlog.get_logger(__name__)


class IsrProposal(NamedTuple):
    """One partition's proposal."""

    topic_partition: TopicPartition
    topic_id: TopicId
    proposal: Proposal


ProposalResult = LeaderAndIsr | ErrorCode
"""The recorded state, or the refusal."""


class IsrRecorder(Protocol):
    """Records in-sync sets, by AlterPartition or in the coordinator's nodes."""

    async def record(self, proposals: Sequence[IsrProposal]) -> Sequence[ProposalResult]:
        """Return the recorded state, or the error code of the refusal, for each proposal in order.

        Raises:
            OSError: the result of every proposal is unknown; retry them all.
        """
        ...


class _Submitted(NamedTuple):
    replica: Replica
    leadership: Leadership
    submitted: IsrProposal


class IsrProposals:
    """The open proposals of all leaderships on this broker."""

    def __init__(
        self,
        recorder: IsrRecorder | None,
        *,
        table: ReplicaTable,
        config: ReplicationKeys,
        loop: asyncio.AbstractEventLoop,
        clock_ms: Callable[[], int],
    ) -> None:
        self._recorder = recorder
        self._table = table
        self._events = table.events
        self._config = config
        self._loop = loop
        self._clock_ms = clock_ms
        self._waiting: dict[TopicPartition, None] = {}
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._may_retry = asyncio.Event()
        self._is_stopped = False
        self.shrink_count = 0
        self.expand_count = 0
        self.refusal_count = 0

    def start(self) -> None:
        """Start to check for lagging followers."""
        # Half the limit, so that a follower leaves after 1 to 1.5 times the limit.
        delay_s = self._config.replica_lag_time_max_ms / 2000
        self._timer = self._loop.call_later(delay_s, self._tick)

    def put(self, partition: TopicPartition) -> None:
        """Submit the proposal of a partition's leadership."""
        self._waiting[partition] = None
        if self._task is None and self._recorder is not None and not self._is_stopped:
            self._task = self._loop.create_task(self._run(self._recorder), name="isr-changes")

    def on_metadata_changed(self) -> None:
        """Retry without further back-off: there may be another controller."""
        self._may_retry.set()

    async def stop(self) -> None:
        """Submit no more proposals."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _tick(self) -> None:
        """Let each leadership propose to remove its lagging followers."""
        now_ms = self._clock_ms()
        for replica in self._table:
            leadership = replica.leadership
            if leadership is None:
                continue
            before = leadership.high_watermark
            if leadership.on_tick(now_ms):
                log.info("isr.lagging", partition=str(replica.topic_partition))
            if leadership.high_watermark != before:
                self._events.changed(replica.topic_partition)
            if leadership.proposal_to_send is not None:
                self.put(replica.topic_partition)
        self.start()

    async def _run(self, recorder: IsrRecorder) -> None:
        try:
            while batch := self._take():
                self._may_retry.clear()
                try:
                    results = await recorder.record([each.submitted for each in batch])
                except OSError as error:
                    log.info("isr.not_recorded", error=str(error))
                    is_settled = False
                else:
                    settled = [self._settle(*pair) for pair in zip(batch, results, strict=True)]
                    is_settled = all(settled)
                if not is_settled:
                    self._waiting.update(
                        dict.fromkeys(each.submitted.topic_partition for each in batch)
                    )
                    await self._back_off()
        finally:
            self._task = None

    def _take(self) -> list[_Submitted]:
        """Take the waiting partitions, and return their open proposals."""
        batch: list[_Submitted] = []
        while self._waiting and len(batch) < MAX_PROPOSALS_PER_REQUEST:
            partition, _ = self._waiting.popitem()
            replica = self._table.by_key.get(partition)
            leadership = None if replica is None else replica.leadership
            if replica is None or leadership is None:
                continue
            proposal = leadership.proposal_to_send
            if proposal is not None:
                submitted = IsrProposal(partition, replica.topic_id, proposal)
                batch.append(_Submitted(replica, leadership, submitted))
        return batch

    def _settle(self, entry: _Submitted, result: ProposalResult) -> bool:
        """Apply a result; return whether the partition has no more proposal to send."""
        replica, leadership, submitted = entry
        if replica.leadership is not leadership:
            return True
        partition = submitted.topic_partition
        if isinstance(result, LeaderAndIsr):
            before, isr = leadership.state.isr, set(result.isr)
            self.shrink_count += isr < before
            self.expand_count += isr > before
            leadership.on_recorded(submitted.proposal, result, self._clock_ms())
            log.info("isr.recorded", partition=str(partition), isr=sorted(isr))
        else:
            self.refusal_count += 1
            leadership.on_refused(submitted.proposal, result, self._clock_ms())
            log.info("isr.refused", partition=str(partition), error=result.name)
        self._events.changed(partition)
        return leadership.proposal_to_send is None

    async def _back_off(self) -> None:
        try:
            async with asyncio.timeout(RETRY_BACKOFF_MS / 1000):
                await self._may_retry.wait()
        except TimeoutError:
            return

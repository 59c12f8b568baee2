"""Records in-sync sets by writing partitions' nodes, as leaders do below protocol 2.7 (edge).

A write is guarded by the version of the node, which is the partition epoch. The controller is
notified of several changes at once: one notification each would be a burst when a broker dies.

Source: kafka.server.ZkAlterPartitionManager of Kafka 3.9.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from broker.cluster.control_fence import ControlFence
from broker.cluster.coordinator_session import CoordinatorSession
from broker.replication.isr.isr_proposals import IsrProposal, ProposalResult
from clusterstate.isr_requests import change_isr
from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.notifications import notify_isr_changes
from coordination.errors import SessionExpiredError
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicPartition

CHECK_INTERVAL_S: Final = 2.5
LINGER_S: Final = 5.0
"""Time without changes after which the controller is notified."""
MAX_DELAY_S: Final = 60.0
"""Time after which it is notified even while changes continue."""

log = structlog.get_logger(__name__)


class LegacyIsrRecorder:
    """Writes the nodes, and notifies the controller of several changes at once."""

    def __init__(
        self, broker_id: BrokerId, session: CoordinatorSession, fence: ControlFence
    ) -> None:
        """Write as the newest controller that `fence` has seen."""
        self._broker_id = broker_id
        self._session = session
        self._fence = fence
        self._changed: set[TopicPartition] = set()
        self._last_change_s = 0.0
        self._last_notification_s = 0.0
        self._task: asyncio.Task[None] | None = None

    async def record(self, proposals: Sequence[IsrProposal]) -> Sequence[ProposalResult]:
        """Return the recorded sets; see `IsrRecorder`.

        Raises:
            OSError: the session has expired, and the result is unknown.
        """
        try:
            return [await self._record(each) for each in proposals]
        except SessionExpiredError as error:
            raise ConnectionError(str(error)) from error

    async def close(self) -> None:
        """Send no more notifications."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _record(self, submitted: IsrProposal) -> ProposalResult:
        proposal = submitted.proposal
        wanted = LeaderAndIsr(
            leader=self._broker_id,
            isr=tuple(member for member, _ in proposal.isr),
            controller_epoch=self._fence.controller_epoch,
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch,
        )
        recorded = await self._session.run(change_isr(submitted.topic_partition, wanted))
        if recorded is None:
            return ErrorCode.INVALID_UPDATE_VERSION
        self._note(submitted.topic_partition)
        return recorded

    def _note(self, partition: TopicPartition) -> None:
        self._changed.add(partition)
        self._last_change_s = asyncio.get_running_loop().time()
        if self._task is None:
            self._task = asyncio.create_task(
                self._notify_controller(), name="isr-change-propagation"
            )

    async def _notify_controller(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            now_s = loop.time()
            is_quiet = self._last_change_s + LINGER_S < now_s
            is_overdue = self._last_notification_s + MAX_DELAY_S < now_s
            if not self._changed or not (is_quiet or is_overdue):
                continue
            changed, self._changed = self._changed, set()
            self._last_notification_s = now_s
            try:
                await self._session.run(notify_isr_changes(sorted(changed)))
            except SessionExpiredError as error:
                log.warning("isr_changes.not_announced", error=str(error))
                self._changed |= changed

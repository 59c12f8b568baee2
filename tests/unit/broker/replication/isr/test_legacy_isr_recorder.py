"""In-sync sets below protocol 2.7: `broker.replication.isr.legacy_isr_recorder`."""

import asyncio
import uuid
from typing import TypeVar, cast

import pytest

from broker.cluster.control_fence import ControlFence
from broker.cluster.coordinator_session import CoordinatorSession
from broker.replication.isr import legacy_isr_recorder
from broker.replication.isr.isr_proposals import IsrProposal
from broker.replication.isr.isr_state import Proposal
from broker.replication.isr.legacy_isr_recorder import LegacyIsrRecorder
from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.plans import Plan
from clusterstate.znodes import paths
from clusterstate.znodes.notification import decode_partitions
from coordination.errors import ErrorCode as CoordinationCode
from coordination.errors import SessionExpiredError
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch, TopicPartition
from tests.plans.driver import Driver, empty_cluster

T = TypeVar("T")
T0 = TopicPartition("orders", 0)
B1, B2 = BrokerId(1), BrokerId(2)


class FakeSession:
    """Performs plans at once, or refuses them after the session has expired."""

    def __init__(self) -> None:
        self.driver: Driver = empty_cluster(1, 2)
        self.driver.coordinator.put(paths.partition_state(T0), b"anything")
        self.is_expired = False
        self.is_notified = asyncio.Event()

    async def run(self, plan: Plan[T]) -> T:
        if self.is_expired:
            raise SessionExpiredError(CoordinationCode.SESSION_EXPIRED)
        result = self.driver.run(plan)
        if self.notifications():
            self.is_notified.set()
        return result

    def notifications(self) -> list[str]:
        return self.driver.coordinator.children(paths.ISR_CHANGES)


def proposal_at(version: int) -> IsrProposal:
    proposal = Proposal(
        isr=((B1, -1), (B2, -1)), leader_epoch=LeaderEpoch(0), partition_epoch=version
    )
    return IsrProposal(T0, uuid.UUID(int=1), proposal)


def recorder_of(session: FakeSession) -> LegacyIsrRecorder:
    fence = ControlFence()
    fence.controller_epoch = 1
    return LegacyIsrRecorder(B1, cast(CoordinatorSession, session), fence)


async def test_write_is_recorded_unless_the_node_has_changed() -> None:
    session = FakeSession()
    recorder = recorder_of(session)
    recorded = LeaderAndIsr(leader=B1, isr=(B1, B2), controller_epoch=1, partition_epoch=1)
    assert await recorder.record([proposal_at(0)]) == [recorded]
    session.driver.coordinator.put(paths.partition_state(T0), b"of another")
    assert await recorder.record([proposal_at(0)]) == [ErrorCode.INVALID_UPDATE_VERSION]
    session.is_expired = True
    with pytest.raises(OSError, match="session_expired"):
        await recorder.record([proposal_at(1)])
    await recorder.close()


async def test_controller_is_notified_once_changes_have_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(legacy_isr_recorder, "CHECK_INTERVAL_S", 0.001)
    monkeypatch.setattr(legacy_isr_recorder, "LINGER_S", 0.0)
    session = FakeSession()
    recorder = recorder_of(session)
    await recorder.record([proposal_at(0)])
    await asyncio.wait_for(session.is_notified.wait(), 10)
    [notification] = session.notifications()
    data = session.driver.coordinator.nodes[f"{paths.ISR_CHANGES}/{notification}"].data
    assert decode_partitions(data) == (T0,)
    await recorder.close()

"""A broker obeys the controller that the coordinator confirms: `broker.cluster.control_proof`."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import pytest

from broker.cluster import control_proof
from broker.cluster.control_proof import LOOK_COUNT, ControlProof
from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.peer_addresses import PeerAddresses
from broker.replication.control_fence import ControlFence
from controller.control_claim import Evidence
from coordination import errors
from coordination.errors import SessionExpiredError
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId
from kafkawire.messages.update_metadata import UpdateMetadataRequest

NODES = Evidence(
    controller_id=BrokerId(2), controller_epoch=7, broker_epoch=50, hosts=("10.0.0.2",)
)


class From(NamedTuple):
    client_host: str = "10.0.0.2"
    listener_name: str = "PLAINTEXT"


def claim(controller_id: int = 2, epoch: int = 7, broker_epoch: int = 50) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        controller_id=controller_id,
        controller_epoch=epoch,
        broker_epoch=broker_epoch,
        topic_states=[],
        live_brokers=[],
    )


class World:
    def __init__(self) -> None:
        self.nodes = NODES
        self.look_count = 0
        self.before_answer: Callable[[], None] = lambda: None
        self.fence = ControlFence(50)
        addresses = PeerAddresses(MetadataCache(), (), loop=asyncio.get_running_loop())
        self.proof = ControlProof(self.look, self.fence, addresses)

    async def look(self) -> Evidence:
        self.look_count += 1
        await asyncio.sleep(0)
        self.before_answer()
        return self.nodes


async def test_a_claim_is_confirmed_once() -> None:
    world = World()
    assert not world.proof.is_known(claim(), From())
    assert await world.proof.check(claim(), From()) is ErrorCode.NONE
    assert world.proof.is_known(claim(), From())
    for other in (claim(controller_id=3), claim(epoch=8), claim(broker_epoch=51)):
        assert not world.proof.is_known(other, From())
    assert not world.proof.is_known(claim(), From(client_host="10.0.0.9"))


async def test_what_the_fence_refuses_need_not_be_looked_at() -> None:
    world = World()
    world.fence.controller_epoch = 7
    assert world.proof.is_known(claim(epoch=6), From())
    assert world.proof.is_known(claim(broker_epoch=49), From())
    assert not world.proof.is_known(claim(broker_epoch=-1), From())


async def test_a_claim_of_the_past_is_refused() -> None:
    assert await World().proof.check(claim(epoch=6), From()) is ErrorCode.STALE_CONTROLLER_EPOCH
    nobody = claim(epoch=2**31 - 1, broker_epoch=-1)
    assert await World().proof.check(nobody, From()) is ErrorCode.STALE_BROKER_EPOCH


async def test_a_claim_that_is_ahead_of_the_nodes_waits_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control_proof, "LOOK_PAUSE_S", 0)
    world = World()

    def be_elected() -> None:
        if world.look_count == 2:
            world.nodes = NODES._replace(controller_epoch=8)

    world.before_answer = be_elected
    assert await world.proof.check(claim(epoch=8), From()) is ErrorCode.NONE


async def test_a_forged_epoch_is_neither_confirmed_nor_refused_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control_proof, "LOOK_PAUSE_S", 0)
    world = World()
    assert await world.proof.check(claim(epoch=2**31 - 1), From()) is None
    assert world.look_count == LOOK_COUNT
    assert world.fence.controller_epoch == 0


async def test_who_is_not_where_the_controller_is_reached_is_not_obeyed() -> None:
    world = World()
    assert await world.proof.check(claim(), From(client_host="10.0.0.9")) is None
    assert not world.proof.is_known(claim(), From(client_host="10.0.0.9"))


async def test_a_session_that_is_over_knows_no_controller() -> None:
    world = World()

    def expire() -> None:
        raise SessionExpiredError(errors.ErrorCode.SESSION_EXPIRED)

    world.before_answer = expire
    assert await world.proof.check(claim(), From()) is ErrorCode.STALE_BROKER_EPOCH


async def test_however_many_wait_the_nodes_are_read_once() -> None:
    world = World()
    checks = [world.proof.check(claim(), From()) for _ in range(20)]
    assert set(await asyncio.gather(*checks)) == {ErrorCode.NONE}
    assert world.look_count == 1
    await world.proof.stop()


async def test_a_look_ends_with_the_broker() -> None:
    world = World()
    check = asyncio.ensure_future(world.proof.check(claim(), From()))
    await asyncio.sleep(0)
    await world.proof.stop()
    with pytest.raises(asyncio.CancelledError):
        await check

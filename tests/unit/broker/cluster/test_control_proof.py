"""Confirmation of controllers by the coordinator: `broker.cluster.control_proof`."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import pytest
from structlog.testing import capture_logs

from broker.cluster import control_proof
from broker.cluster.control_fence import ControlFence
from broker.cluster.control_proof import LOOK_COUNT, ControlProof
from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.peer_addresses import PeerAddresses
from clusterstate.control_claim import Claim, Evidence
from coordination import errors
from coordination.errors import SessionExpiredError
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId
from monitoring.log_limits import LIMITED
from tests.waiting import until

NODES = Evidence(
    controller_id=BrokerId(2), controller_epoch=7, broker_epoch=50, hosts=("10.0.0.2",)
)


class From(NamedTuple):
    client_host: str = "10.0.0.2"
    listener_name: str = "PLAINTEXT"


def claim(controller_id: int = 2, epoch: int = 7, broker_epoch: int = 50) -> Claim:
    return Claim(controller_id, epoch, broker_epoch)


class World:
    def __init__(self) -> None:
        self.nodes = NODES
        self.look_count = 0
        self.before_response: Callable[[], None] = lambda: None
        self.fence = ControlFence(50)
        addresses = PeerAddresses(MetadataCache(), (), loop=asyncio.get_running_loop())
        self.proof = ControlProof(self.look, self.fence, addresses)

    async def look(self) -> Evidence:
        self.look_count += 1
        await asyncio.sleep(0)
        self.before_response()
        return self.nodes


async def test_claim_is_confirmed_once() -> None:
    world = World()
    assert not world.proof.is_known(claim(), From())
    assert await world.proof.check(claim(), From()) is ErrorCode.NONE
    assert world.proof.is_known(claim(), From())
    for other in (claim(controller_id=3), claim(epoch=8), claim(broker_epoch=51)):
        assert not world.proof.is_known(other, From())
    assert not world.proof.is_known(claim(), From(client_host="10.0.0.9"))


async def test_claim_is_confirmed_by_the_read_after_the_election() -> None:
    world = World()
    world.proof.look_ahead()
    assert await world.proof.check(claim(), From()) is ErrorCode.NONE
    assert await world.proof.check(claim(broker_epoch=49), From()) is ErrorCode.STALE_BROKER_EPOCH
    assert world.look_count == 1
    world.nodes = NODES._replace(controller_epoch=8)
    assert await world.proof.check(claim(epoch=8), From()) is ErrorCode.NONE
    assert world.look_count == 2, "what was read is too old, so it is read again at once"


async def test_failed_look_ahead_is_repeated_when_a_claim_arrives() -> None:
    world = World()

    def fail() -> None:
        world.before_response = lambda: None
        raise errors.ConnectionLossError(errors.ErrorCode.CONNECTION_LOSS)

    world.before_response = fail
    world.proof.look_ahead()
    await until(lambda: world.before_response is not fail)
    assert await world.proof.check(claim(), From()) is ErrorCode.NONE
    assert world.look_count == 2


async def test_claim_that_the_fence_refuses_needs_no_confirmation() -> None:
    world = World()
    world.fence.controller_epoch = 7
    assert world.proof.is_known(claim(epoch=6), From())
    assert world.proof.is_known(claim(broker_epoch=49), From())
    assert not world.proof.is_known(claim(broker_epoch=-1), From())


async def test_outdated_claim_is_refused() -> None:
    assert await World().proof.check(claim(epoch=6), From()) is ErrorCode.STALE_CONTROLLER_EPOCH
    nobody = claim(epoch=2**31 - 1, broker_epoch=-1)
    assert await World().proof.check(nobody, From()) is ErrorCode.STALE_BROKER_EPOCH


async def test_claim_newer_than_the_nodes_waits_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control_proof, "LOOK_PAUSE_S", 0)
    world = World()

    def be_elected() -> None:
        if world.look_count == 2:
            world.nodes = NODES._replace(controller_epoch=8)

    world.before_response = be_elected
    assert await world.proof.check(claim(epoch=8), From()) is ErrorCode.NONE


async def test_forged_epoch_is_neither_confirmed_nor_refused_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control_proof, "LOOK_PAUSE_S", 0)
    world = World()
    assert await world.proof.check(claim(epoch=2**31 - 1), From()) is None
    assert world.look_count == LOOK_COUNT
    assert world.fence.controller_epoch == 0


async def test_sender_at_another_address_than_the_controller_is_not_confirmed() -> None:
    world = World()
    assert await world.proof.check(claim(), From(client_host="10.0.0.9")) is None
    assert not world.proof.is_known(claim(), From(client_host="10.0.0.9"))


async def test_the_lines_about_refused_senders_are_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control_proof, "LOOK_PAUSE_S", 0)
    with capture_logs() as lines:
        await World().proof.check(claim(epoch=2**31 - 1), From())
        await World().proof.check(claim(), From(client_host="10.0.0.9"))
    assert [each["client_host"] for each in lines] == ["10.0.0.2", "10.0.0.9"]
    assert {each["event"] for each in lines} <= LIMITED


async def test_expired_session_refuses_every_controller() -> None:
    world = World()

    def expire() -> None:
        raise SessionExpiredError(errors.ErrorCode.SESSION_EXPIRED)

    world.before_response = expire
    assert await world.proof.check(claim(), From()) is ErrorCode.STALE_BROKER_EPOCH


async def test_concurrent_checks_share_one_read() -> None:
    world = World()
    checks = [world.proof.check(claim(), From()) for _ in range(20)]
    assert set(await asyncio.gather(*checks)) == {ErrorCode.NONE}
    assert world.look_count == 1
    await world.proof.stop()


async def test_pending_read_is_cancelled_at_stop() -> None:
    world = World()
    check = asyncio.ensure_future(world.proof.check(claim(), From()))
    await asyncio.sleep(0)
    await world.proof.stop()
    with pytest.raises(asyncio.CancelledError):
        await check

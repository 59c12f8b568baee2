"""Addresses that brokers may connect from: `broker.cluster.peer_addresses`."""

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from broker.cluster.metadata_cache import Endpoint, LiveBroker, MetadataCache
from broker.cluster.peer_addresses import PeerAddresses
from kafkawire.ids import BrokerId
from tests.unit.broker.metadata import set_brokers

B1, B2 = BrokerId(1), BrokerId(2)


class From(NamedTuple):
    client_host: str
    listener_name: str = "CLIENTS"


class Resolver:
    """Resolves a few names, and fails for all others."""

    def __init__(self) -> None:
        self.addresses = {"one": "10.0.0.1", "10.0.0.2": "10.0.0.2"}
        self.requested: list[str] = []

    async def resolve(self, host: str) -> frozenset[str]:
        self.requested.append(host)
        await asyncio.sleep(0)
        if host not in self.addresses:
            raise OSError("no such name")
        return frozenset({self.addresses[host]})


class World:
    def __init__(self) -> None:
        self.resolver = Resolver()
        self.metadata = MetadataCache()
        brokers = [
            LiveBroker(broker_id=broker_id, endpoints={"CLIENTS": Endpoint(host, 9092)})
            for broker_id, host in ((B1, "one"), (B2, "10.0.0.2"))
        ]
        set_brokers(self.metadata, brokers, B1)
        self.addresses = PeerAddresses(
            self.metadata,
            {"BROKERS"},
            loop=asyncio.get_running_loop(),
            resolve=self.resolver.resolve,
        )


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.addresses.stop()


async def test_broker_connects_from_its_endpoint_address(world: World) -> None:
    addresses = world.addresses
    assert await addresses.is_from(From("10.0.0.1"), ["one"])
    assert addresses.may_be(B1, From("10.0.0.1"))
    assert addresses.may_be(B1, From("::ffff:10.0.0.1"))
    assert not addresses.may_be(B1, From("10.0.0.9"))
    assert not await addresses.is_from(From("10.0.0.9"), ["one"])
    assert world.resolver.requested == ["one"], "a fresh address is not resolved again"


async def test_broker_with_an_unknown_address_may_connect_from_anywhere(world: World) -> None:
    assert world.addresses.may_be(B2, From("10.0.0.9")), "the look-up is pending"
    assert await world.addresses.is_from(From("10.0.0.9"), ["nowhere"])
    assert await world.addresses.is_from(From("10.0.0.9"), [])
    assert world.addresses.may_be(BrokerId(7), From("10.0.0.9")), (
        "broker 7 may have just registered"
    )
    assert not await world.addresses.is_from(From("10.0.0.9"), ["10.0.0.2"])
    assert not world.addresses.may_be(B2, From("10.0.0.9"))


@pytest.mark.parametrize(
    "sender",
    [
        pytest.param(From("127.0.0.1"), id="loopback"),
        pytest.param(From("::1%lo"), id="loopback with a zone"),
        pytest.param(From("socket"), id="no address"),
        pytest.param(From("10.0.0.9", "BROKERS"), id="listener of brokers"),
    ],
)
async def test_this_machine_and_listeners_of_brokers_are_trusted(
    world: World, sender: From
) -> None:
    assert await world.addresses.is_from(sender, ["10.0.0.2"])
    assert world.addresses.may_be(B2, sender)
    assert world.resolver.requested == []


async def test_changed_address_is_resolved_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.cluster.peer_addresses.RESOLVE_AGAIN_S", 0)
    assert await world.addresses.is_from(From("10.0.0.1"), ["one"])
    world.resolver.addresses["one"] = "10.0.0.5"
    assert await world.addresses.is_from(From("10.0.0.5"), ["one"])
    assert not world.addresses.may_be(B1, From("10.0.0.1"))


async def test_system_resolver_resolves_addresses() -> None:
    addresses = PeerAddresses(MetadataCache(), (), loop=asyncio.get_running_loop())
    assert await addresses.is_from(From("10.0.0.2"), ["10.0.0.2"])
    assert not await addresses.is_from(From("10.0.0.3"), ["10.0.0.2"])
    await addresses.stop()


async def test_pending_look_up_is_cancelled_at_stop(world: World) -> None:
    world.addresses.may_be(B1, From("10.0.0.9"))
    await world.addresses.stop()
    assert world.addresses.may_be(B1, From("10.0.0.9"))

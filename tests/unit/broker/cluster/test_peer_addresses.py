"""Where brokers may speak from: `broker.cluster.peer_addresses`."""

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
    """Knows the addresses of names; a name that it does not know cannot be resolved."""

    def __init__(self) -> None:
        self.addresses = {"one": "10.0.0.1", "10.0.0.2": "10.0.0.2"}
        self.asked: list[str] = []

    async def resolve(self, host: str) -> frozenset[str]:
        self.asked.append(host)
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


async def test_a_broker_speaks_from_where_it_is_reached(world: World) -> None:
    addresses = world.addresses
    assert await addresses.is_from(From("10.0.0.1"), ["one"])
    assert addresses.may_be(B1, From("10.0.0.1"))
    assert addresses.may_be(B1, From("::ffff:10.0.0.1"))
    assert not addresses.may_be(B1, From("10.0.0.9"))
    assert not await addresses.is_from(From("10.0.0.9"), ["one"])
    assert world.resolver.asked == ["one"], "what was learned just now is believed"


async def test_of_an_address_that_is_not_known_nothing_is_asked(world: World) -> None:
    assert world.addresses.may_be(B2, From("10.0.0.9")), "it is being looked up"
    assert await world.addresses.is_from(From("10.0.0.9"), ["nowhere"])
    assert await world.addresses.is_from(From("10.0.0.9"), [])
    assert world.addresses.may_be(BrokerId(7), From("10.0.0.9")), "it may have just registered"
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
    assert world.resolver.asked == []


async def test_an_address_that_has_changed_is_learned_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.cluster.peer_addresses.RESOLVE_AGAIN_S", 0)
    assert await world.addresses.is_from(From("10.0.0.1"), ["one"])
    world.resolver.addresses["one"] = "10.0.0.5"
    assert await world.addresses.is_from(From("10.0.0.5"), ["one"])
    assert not world.addresses.may_be(B1, From("10.0.0.1"))


async def test_the_systems_resolver_knows_addresses() -> None:
    addresses = PeerAddresses(MetadataCache(), (), loop=asyncio.get_running_loop())
    assert await addresses.is_from(From("10.0.0.2"), ["10.0.0.2"])
    assert not await addresses.is_from(From("10.0.0.3"), ["10.0.0.2"])
    await addresses.stop()


async def test_what_is_being_resolved_ends_with_the_broker(world: World) -> None:
    world.addresses.may_be(B1, From("10.0.0.9"))
    await world.addresses.stop()
    assert world.addresses.may_be(B1, From("10.0.0.9"))

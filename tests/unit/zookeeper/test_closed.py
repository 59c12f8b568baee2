"""Members and producers that are closed before, or while, they start."""

import asyncio

import pytest

from coordination.client import Client
from ottla import ZooKeeperConsumer, ZooKeeperProducer
from ottla.client.errors import ClientClosedError, NoBrokerAvailableError
from ottla.zookeeper.broker_addresses import BrokerAddresses

NOWHERE = "127.0.0.1:1"


def both() -> list[ZooKeeperConsumer | ZooKeeperProducer]:
    return [ZooKeeperConsumer(NOWHERE, group_id="g"), ZooKeeperProducer(NOWHERE)]


async def test_closed_clients_do_not_start() -> None:
    for client in both():
        await client.close()
        with pytest.raises(ClientClosedError):
            await client.start()
        await client.close()


async def test_close_ends_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    is_connected = asyncio.Event()

    async def connect(*_: object) -> None:
        await is_connected.wait()

    async def has_brokers(*_: object) -> bool:
        return True

    monkeypatch.setattr(Client, "connect", connect)
    monkeypatch.setattr(BrokerAddresses, "wait", has_brokers)
    for client in both():
        is_connected.clear()
        start = asyncio.ensure_future(client.start())
        await asyncio.sleep(0)
        await client.close()
        is_connected.set()
        with pytest.raises(ClientClosedError):
            await start


async def test_a_start_without_brokers_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(*_: object) -> None:
        pass

    async def has_brokers(*_: object) -> bool:
        return False

    monkeypatch.setattr(Client, "connect", connect)
    monkeypatch.setattr(BrokerAddresses, "wait", has_brokers)
    for client in both():
        for _ in range(2):
            with pytest.raises(NoBrokerAvailableError):
                await client.start()

"""Whether the brokers of a cluster know each other, by their metadata."""

import asyncio

import pytest

from kafkawire.ids import BrokerId
from ottla.client.client_config import Address
from ottla.client.cluster_metadata import ClusterMetadata
from ottla.testing import ready_cluster

LIVE = {1: "one:1", 2: "two:2"}


def metadata(controller: int, *brokers: int) -> ClusterMetadata:
    return ClusterMetadata(
        controller_id=BrokerId(controller),
        brokers={BrokerId(each): Address("host", each) for each in brokers},
    )


@pytest.mark.parametrize(
    ("incomplete", "reason"),
    [
        (metadata(3, 1, 2, 3), "the controller is dead"),
        (metadata(1, 1, 3), "one broker is dead, and another one is missing"),
        (metadata(-1, 1, 2), "there is no controller"),
    ],
)
async def test_metadata_that_list_a_dead_broker_are_not_complete(
    monkeypatch: pytest.MonkeyPatch, incomplete: ClusterMetadata, reason: str
) -> None:
    held = {"one:1": metadata(1, 1, 2, 3), "two:2": incomplete}
    asked: list[str] = []
    has_asked = asyncio.Event()

    async def read(address: str) -> ClusterMetadata:
        asked.append(address)
        if asked.count("two:2") > 1:
            has_asked.set()
        return held[address]

    monkeypatch.setattr(ready_cluster, "_metadata", read)
    waiting = asyncio.ensure_future(ready_cluster.wait_for_complete_metadata(lambda: LIVE))
    await has_asked.wait()
    assert not waiting.done(), reason
    held["two:2"] = metadata(2, 1, 2)
    await waiting


async def test_a_broker_that_dies_meanwhile_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    running = dict(LIVE)

    async def read(address: str) -> ClusterMetadata:
        if address == "two:2":
            running.pop(2, None)
            return metadata(-1)
        return metadata(1, 1)

    monkeypatch.setattr(ready_cluster, "_metadata", read)
    await ready_cluster.wait_for_complete_metadata(lambda: dict(running))

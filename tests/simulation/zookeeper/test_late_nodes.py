"""Nodes that are created after a read has missed them, and before the watch for their creation."""

import asyncio
import contextlib

import pytest

from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.znodes import paths
from clusterstate.znodes.partition_node import encode_partition_state
from coordination.client import Client
from coordination.client.watch_registry import Callback
from coordination.errors import NodeExistsError
from coordination.protocol.messages import Stat
from kafkawire.ids import BrokerId, LeaderEpoch
from ottla.zookeeper.assignment import Strategy
from ottla.zookeeper.broker_addresses import BrokerAddresses
from ottla.zookeeper.registration import Layout, Registration
from ottla.zookeeper.targets import Target
from ottla.zookeeper.topic_targets import PATIENCE_S, TopicTargets
from tests.simulation.zookeeper.test_group_nodes import Place, run, topic
from tests.simulation.zookeeper.test_producer_session import at_port

STATE = encode_partition_state(
    LeaderAndIsr(
        leader=BrokerId(1), leader_epoch=LeaderEpoch(0), isr=(BrokerId(1),), controller_epoch=1
    ),
    1,
)
TOPIC = "/brokers/topics/late"
STATES = [f"{TOPIC}/partitions/{number}/state" for number in range(2)]


class Late:
    """Creates nodes just before a client looks whether they exist."""

    def __init__(self, place: Place, client: Client, nodes: dict[str, bytes]) -> None:
        self.root = place.root
        self.nodes = nodes
        self.ask = client.exists
        client.exists = self.exists  # type: ignore[method-assign]

    async def exists(self, path: str, watch: Callback | None = None) -> Stat | None:
        if (data := self.nodes.pop(path, None)) is not None:
            await create(self.root, path, data)
        return await self.ask(path, watch)


async def create(root: Client, path: str, data: bytes) -> None:
    for parent in paths.parents(path):
        with contextlib.suppress(NodeExistsError):
            await root.create(parent)
    await root.create(path, data)


@pytest.mark.parametrize(
    ("layout", "path"),
    [
        (Layout.KAFKA, TOPIC),
        (Layout.JAFKA, TOPIC),
        (Layout.KAFKA, "/consumers/g/ids"),
    ],
)
def test_a_member_notices_a_node_that_its_watch_is_too_late_for(layout: Layout, path: str) -> None:
    async def story(place: Place) -> None:
        member = await place.member("c", layout)
        Late(place, member.client, {path: topic(1)})
        view = await member.nodes.read_view(
            Registration({"late": 1}), Strategy.RANGE, exclude_internal=True
        )
        assert "late" not in view.names
        assert place.changes > 0
        place.changes = 0
        await member.nodes.read_view(
            Registration({"late": 1}), Strategy.RANGE, exclude_internal=True
        )
        assert place.changes == 0

    run(story)


@pytest.mark.parametrize("late", [{TOPIC, *STATES}, {STATES[0]}, {*STATES}])
def test_a_producer_notices_nodes_that_its_watches_are_too_late_for(late: set[str]) -> None:
    async def story(place: Place) -> None:
        client = await place.client()
        nodes = {TOPIC: topic(2)} | dict.fromkeys(STATES, STATE)
        for path in nodes:
            if path not in late:
                await create(place.root, path, nodes[path])
        Late(place, client, {path: nodes[path] for path in late})
        targets = TopicTargets(client, Layout.KAFKA, lambda: [1])
        began_s = place.loop.time()
        found: list[Target] = []
        while len(found) < 2 and place.loop.time() - began_s < PATIENCE_S / 2:
            found = await targets.targets("late")
            # Virtual time for the events.
            await asyncio.sleep(0.1)
        assert found == [Target(1, "0"), Target(1, "1")]
        assert place.loop.time() - began_s < PATIENCE_S / 2

    run(story)


def test_brokers_whose_parent_is_created_late_are_found() -> None:
    async def story(place: Place) -> None:
        client = await place.client()
        await place.root.delete("/brokers/ids/1")
        await place.root.delete(paths.BROKER_IDS)
        Late(place, client, {paths.BROKER_IDS: b""})
        addresses = BrokerAddresses(client, Layout.KAFKA)
        waiting = asyncio.ensure_future(addresses.wait(10))
        # Virtual time in which the parent is created.
        await asyncio.sleep(1)
        await place.root.create("/brokers/ids/1", at_port(9092))
        assert await waiting

    run(story)

"""Duration and operations of rebalances: 1,000 partitions x 20 members, and 100 members at once.

Run with `pytest -m soak -s`.
"""

import asyncio
import sys
from pathlib import Path

import pytest

from clusterstate.replica_assignment import ReplicaAssignment
from clusterstate.znodes.topic import TopicAssignment
from coordination.client import Client
from kafkawire.ids import BrokerId
from ottla.client.errors import OttlaError
from ottla.zookeeper.assignment import Slot, Strategy
from ottla.zookeeper.membership import Membership
from ottla.zookeeper.rebalance import Phase, Rebalance
from ottla.zookeeper.registration import Layout, Registration
from tests.integration.coordination.process import Coordinator, four_letter
from tests.waiting import until


class Counted:
    """A member that reads nothing and notes its partitions."""

    def __init__(self) -> None:
        self.held: set[Slot] = set()

    async def drain(self, slots: frozenset[Slot]) -> None:
        self.held -= slots

    async def start(self, slots: frozenset[Slot]) -> frozenset[Slot]:
        self.held |= slots
        return frozenset()

    def lose(self, slots: frozenset[Slot]) -> None:
        self.held -= slots

    def hold(self) -> None: ...

    def open(self) -> None: ...

    def fail(self, error: OttlaError) -> None:
        raise AssertionError(error)


class Crowd:
    """Members of one group, each with its own session."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.members: list[tuple[Client, Counted, Membership]] = []

    async def connect(self, number: int) -> tuple[Client, Counted, Membership]:
        client = Client(self.address, session_timeout_ms=30_000)
        await client.connect()
        holder = Counted()
        membership = Membership(
            client,
            holder,
            Rebalance(max_tries=50, backoff_ms=1_000),
            group="g",
            consumer=f"g_host-{number}",
            registration=Registration({"t": 1}),
            layout=Layout.KAFKA,
            strategy=Strategy.RANGE,
            exclude_internal=True,
            session_timeout_ms=30_000,
            now_ms=lambda: 1,
        )
        self.members.append((client, holder, membership))
        return self.members[-1]

    def rests(self, partitions: int) -> bool:
        machines = [membership.machine for _, _, membership in self.members]
        return (
            all(machine.phase is Phase.OWNING for machine in machines)
            and sum(len(holder.held) for _, holder, _ in self.members) == partitions
            and max(len(holder.held) for _, holder, _ in self.members)
            - min(len(holder.held) for _, holder, _ in self.members)
            <= 1
        )

    async def end(self) -> None:
        for client, _, membership in self.members:
            await membership.stop(asyncio.get_running_loop().time() + 30)
            await client.close()


async def make_topic(address: str, partitions: int) -> None:
    async with Client(address) as client:
        for path in ("/brokers", "/brokers/ids", "/brokers/topics"):
            await client.create(path, b"")
        await client.create("/brokers/ids/1", b"{}")
        replicas = ReplicaAssignment((BrokerId(1),))
        data = TopicAssignment(None, dict.fromkeys(range(partitions), replicas)).encode()
        await client.create("/brokers/topics/t", data)


def requests_to(coordinator: Coordinator) -> tuple[int, int]:
    """Return the packets that the coordinator has received, and its writes, which zxids count."""
    fields = dict(
        line.split(": ", 1)
        for line in four_letter(coordinator.port, "srvr").splitlines()
        if ": " in line
    )
    return int(fields["Received"]), int(fields["Zxid"], 16)


def cost(coordinator: Coordinator, before: tuple[int, int]) -> str:
    """Return the number of requests since `before`, and of the writes among them."""
    received, written = requests_to(coordinator)
    return f"{received - before[0]} requests, {written - before[1]} transactions of writes"


@pytest.mark.soak
async def test_a_join_among_twenty_members_of_a_thousand_partitions(tmp_path: Path) -> None:
    coordinator = Coordinator(tmp_path / "coordinator")
    crowd, now = Crowd(coordinator.address), asyncio.get_running_loop().time
    try:
        await make_topic(coordinator.address, 1_000)
        for number in range(19):
            (await crowd.connect(number))[2].start()
        await until(lambda: crowd.rests(1_000), "19 members at rest")
        before = sum(each.rebalance_count for _, _, each in crowd.members)
        last = await crowd.connect(19)
        requests = requests_to(coordinator)
        began_s = now()
        last[2].start()
        await until(lambda: crowd.rests(1_000), "20 members at rest")
        took_ms = round((now() - began_s) * 1000)
        count = sum(each.rebalance_count for _, _, each in crowd.members) - before
        sys.stdout.write(f"join of the 20th: {took_ms} ms, {count} members gained partitions\n")
        sys.stdout.write(f"{cost(coordinator, requests)}\n")
        await crowd.end()
    finally:
        coordinator.kill()


@pytest.mark.soak
async def test_a_hundred_members_that_start_at_once(tmp_path: Path) -> None:
    coordinator = Coordinator(tmp_path / "coordinator")
    crowd, now = Crowd(coordinator.address), asyncio.get_running_loop().time
    try:
        await make_topic(coordinator.address, 1_000)
        for number in range(100):
            await crowd.connect(number)
        requests = requests_to(coordinator)
        began_s = now()
        for _, _, membership in crowd.members:
            membership.start()
        await until(lambda: crowd.rests(1_000), "100 members at rest")
        took_ms = round((now() - began_s) * 1000)
        counts = [each.rebalance_count for _, _, each in crowd.members]
        conflicts = sum(each.conflict_count for _, _, each in crowd.members)
        sys.stdout.write(
            f"100 at once: {took_ms} ms, {max(counts)} rebalances at most, {conflicts} conflicts\n"
        )
        sys.stdout.write(f"{cost(coordinator, requests)}\n")
        assert max(counts) < 20
        await crowd.end()
    finally:
        coordinator.kill()


async def test_ten_joins_cost_few_rebalances(tmp_path: Path) -> None:
    coordinator = Coordinator(tmp_path / "coordinator")
    crowd = Crowd(coordinator.address)
    try:
        await make_topic(coordinator.address, 40)
        (await crowd.connect(0))[2].start()
        await until(lambda: crowd.rests(40))
        joining = [await crowd.connect(number) for number in range(1, 11)]
        for _, _, membership in joining:
            membership.start()
        await until(lambda: crowd.rests(40), "eleven members at rest")
        # It joined alone, so its first rebalance was one more.
        assert crowd.members[0][2].rebalance_count <= 1
        assert max(each.rebalance_count for _, _, each in joining) <= 3
        await crowd.end()
    finally:
        coordinator.kill()

"""One group of Kafka's old consumers and ours: a broker of Kafka 3.9, our coordinator."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from coordination.client import Client
from coordination.errors import NoNodeError
from ottla import Admin, NewTopic, Producer
from tests.integration.coordination.process import Coordinator
from tests.interop.kafka_broker import KafkaBroker, kafka_jars_or_skip
from tests.interop.kafka_old_jars import (
    MEMBER,
    compile_java,
    old_jars_or_skip,
    run_old_tool,
    start_java,
)
from tests.waiting import until, until_sync

PARTITIONS = 6
ROUNDS = int(os.environ.get("OTTLA_ROUNDS") or "4")
SEED = int(os.environ.get("OTTLA_SEED") or random.randrange(10_000))
REST_S = 90.0


@dataclass
class Place:
    """A coordinator with a broker of Kafka, and the compiled member in Java."""

    directory: Path
    coordinator: Coordinator
    broker: KafkaBroker
    classes: Path

    @property
    def bootstrap(self) -> str:
        return self.broker.address


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    jars = kafka_jars_or_skip()
    old_jars_or_skip()
    directory = tmp_path_factory.mktemp("mixed")
    coordinator = Coordinator(directory / "coordinator")
    broker = KafkaBroker(1, directory, coordinator.address, jars)
    try:
        classes = compile_java(MEMBER, directory / "classes")
        until_sync(broker.has_started, "Kafka's broker")
        yield Place(directory, coordinator, broker, classes)
    finally:
        broker.kill()
        coordinator.kill()


@dataclass
class Member:
    """A member in a process of its own, which prints `partition offset value` per record."""

    kind: str
    process: "subprocess.Popen[str]"
    output: Path
    is_paused: bool = False

    def lines(self) -> list[str]:
        return self.output.read_text().splitlines()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.is_paused = False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def leave(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


@dataclass
class MixedGroup:
    place: Place
    name: str
    members: list[Member] = field(default_factory=list)
    all_members: list[Member] = field(default_factory=list)
    sent: int = 0

    def join(self, kind: str) -> Member:
        number = len(self.all_members)
        path = self.place.directory / f"{self.name}-{number}-{kind}"
        arguments = (self.place.coordinator.address, self.name, self.name)
        with path.open("w") as out, path.with_suffix(".err").open("w") as err:
            if kind == "java":
                process = start_java(
                    self.place.classes, "OldMember", *arguments, "1", stdout=out, stderr=err
                )
            else:
                process = subprocess.Popen(
                    [sys.executable, "-m", "tests.interop.zookeeper.member", *arguments],
                    stdin=subprocess.PIPE,
                    stdout=out,
                    stderr=err,
                    text=True,
                )
        member = Member(kind, process, path)
        self.members.append(member)
        self.all_members.append(member)
        return member

    def records(self) -> Counter[tuple[int, int]]:
        found: Counter[tuple[int, int]] = Counter()
        for member in self.all_members:
            for line in member.lines():
                parts = line.split()
                # The last line of a killed process may be cut.
                if len(parts) == 3 and parts[0].isdigit() and parts[2].endswith("."):
                    found[int(parts[0]), int(parts[1])] += 1
        return found

    async def send(self, count: int) -> None:
        async with Producer(self.place.bootstrap) as producer:
            for number in range(self.sent, self.sent + count):
                value = f"value-{number}.".encode()
                await producer.send(self.name, value, partition=number % PARTITIONS)
            await producer.flush()
        self.sent += count

    async def offsets(self, client: Client) -> dict[int, int]:
        parent = f"/consumers/{self.name}/offsets/{self.name}"
        try:
            names = await client.get_children(parent)
        except NoNodeError:
            return {}
        return {
            int(name): int((await client.get_data(f"{parent}/{name}"))[0] or b"0") for name in names
        }

    async def owners(self, client: Client) -> dict[int, str]:
        parent = f"/consumers/{self.name}/owners/{self.name}"
        found = {}
        try:
            for name in await client.get_children(parent):
                data, _ = await client.get_data(f"{parent}/{name}")
                found[int(name)] = (data or b"").decode().rpartition("-")[0]
        except NoNodeError:
            return {}
        return found

    async def rests(self, client: Client) -> bool:
        """Whether every partition has an owner, by the formula, among the registered members."""
        try:
            ids = await client.get_children(f"/consumers/{self.name}/ids")
        except NoNodeError:
            return False
        owners = await self.owners(client)
        if len(ids) != len(self.members) or len(owners) != PARTITIONS:
            return False
        share, extra = divmod(PARTITIONS, len(ids))
        expected = []
        for index, member in enumerate(sorted(ids)):
            expected += [member] * (share + (index < extra))
        return [owners[each] for each in range(PARTITIONS)] == expected

    def end(self) -> None:
        for member in self.all_members:
            if member.process.poll() is None:
                member.kill()
            if member.process.stdin is not None:
                member.process.stdin.close()


def show(line: str) -> None:
    """Write a line for `pytest -s`."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def wait_for_rest(group: MixedGroup, client: Client) -> None:
    async with asyncio.timeout(REST_S):
        while not await group.rests(client):  # noqa: ASYNC110 - asks a server
            await asyncio.sleep(0.2)


async def test_members_in_java_and_ours_share_a_group(place: Place) -> None:
    dice = random.Random(SEED)
    show(f"OTTLA_SEED={SEED} OTTLA_ROUNDS={ROUNDS}")
    name = f"mixed-{SEED}"
    async with Admin(place.bootstrap) as admin:
        await admin.create_topics([NewTopic(name, PARTITIONS, 1)])
    group = MixedGroup(place, name)
    highest: dict[int, int] = {}
    actions: Counter[str] = Counter()
    try:
        async with Client(place.coordinator.address) as client:
            for kind in ("java", "ours", "java", "ours"):
                group.join(kind)
            await group.send(120)
            await wait_for_rest(group, client)
            for _ in range(ROUNDS):
                action = dice.choice(["join", "leave", "kill", "pause"])
                member = dice.choice(group.members)
                actions[f"{action} {member.kind}"] += 1
                if action == "pause":
                    member.pause()
                    await asyncio.sleep(6)
                    await group.send(30)
                    member.resume()
                elif action == "join" and len(group.members) < 5:
                    group.join(dice.choice(["java", "ours"]))
                else:
                    group.members.remove(member)
                    await asyncio.to_thread(member.kill if action == "kill" else member.leave)
                    group.join(member.kind)
                await group.send(60)
                await wait_for_rest(group, client)
                now = await group.offsets(client)
                falls = {each: at for each, at in now.items() if at < highest.get(each, 0)}
                show(f"{action} {member.kind} {now}")
                # A paused member in Java writes its old offsets when it wakes up.
                assert not falls or "pause java" in actions, falls
                highest |= {each: max(at, highest.get(each, 0)) for each, at in now.items()}
            await until(lambda: len(group.records()) == group.sent, "every record")
            verdict = run_old_tool(
                "kafka.tools.VerifyConsumerRebalance",
                "--zookeeper.connect",
                place.coordinator.address,
                "--group",
                name,
            )
            assert "Rebalance operation successful" in verdict
            repeats = sum(group.records().values()) - group.sent
            show(f"{actions} records={group.sent} repeats={repeats}")
            assert repeats < group.sent
    finally:
        group.end()

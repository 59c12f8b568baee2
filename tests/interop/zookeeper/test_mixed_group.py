"""One group of Kafka's old consumers and ours: a broker of Kafka 3.9, our coordinator."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from coordination.client import Client
from coordination.errors import NoNodeError
from ottla import Admin, NewTopic, Producer
from tests.integration.coordination.process import Coordinator
from tests.interop.kafka_broker import KafkaBroker, kafka_on_coordinator
from tests.interop.kafka_old_jars import (
    MEMBER,
    compile_java,
    old_jars_or_skip,
    run_old_tool,
    start_java,
)

PARTITIONS = 6
ROUNDS = int(os.environ.get("OTTLA_ROUNDS") or "4")
SEED = int(os.environ.get("OTTLA_SEED") or random.randrange(10_000))
REST_S = 90.0
SEND_INTERVAL_S: Final = 0.1
COMMIT_INTERVAL_MS: Final = 500
"""The setting of both kinds of members."""
COMMIT_MS: Final = 250
"""The longest time from the end of an interval to the written offsets, on a busy machine."""


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
    old_jars_or_skip()
    directory = tmp_path_factory.mktemp("mixed")
    classes = compile_java(MEMBER, directory / "classes")
    with kafka_on_coordinator(directory) as (broker, coordinator):
        yield Place(directory, coordinator, broker, classes)


@dataclass
class Member:
    """A member in a process of its own, which prints each record and the time when it read it."""

    kind: str
    process: "subprocess.Popen[str]"
    output: Path
    was_paused: bool = False
    killed_ms: int | None = None
    """When it was killed, in milliseconds of wall time."""

    def lines(self) -> list[str]:
        return self.output.read_text().splitlines()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        self.was_paused = True

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.killed_ms = time.time_ns() // 1_000_000
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

    def reads(self) -> dict[tuple[int, int], list[tuple[int, Member]]]:
        """Return by partition and offset of a record: when which members read it, in order."""
        found = defaultdict(list)
        for member in self.all_members:
            for line in member.lines():
                parts = line.split()
                # The last line of a killed process may be cut.
                if len(parts) == 4 and parts[3].endswith("."):
                    found[int(parts[0]), int(parts[1])].append((int(parts[2]), member))
        for reads in found.values():
            reads.sort(key=lambda read: read[0])
        return found

    async def send_until(self, stopped: asyncio.Event) -> None:
        """Send a record to each partition in each interval."""
        async with Producer(self.place.bootstrap) as producer:
            while not stopped.is_set():
                for partition in range(PARTITIONS):
                    value = f"value-{self.sent}.".encode()
                    await producer.send(self.name, value, partition=partition)
                    self.sent += 1
                await asyncio.sleep(SEND_INTERVAL_S)

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

    async def ids(self, client: Client) -> set[str]:
        """Return the names of the registered members."""
        try:
            return set(await client.get_children(f"/consumers/{self.name}/ids"))
        except NoNodeError:
            return set()

    async def rests(self, client: Client) -> bool:
        """Whether every partition has an owner, by the formula, among the registered members."""
        ids = await self.ids(client)
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


async def wait_for(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(REST_S):
        while not await condition():  # noqa: ASYNC110 - asks a server, or reads the members' output
            await asyncio.sleep(0.2)


def ages_of_repeats(group: MixedGroup) -> dict[str, list[int]]:
    """Return how long members had read records, in ms, when their loss had others read them again.

    The keys say whether the first reader was killed, or either one paused. Only kills have an age.
    """
    found = defaultdict(list)
    for reads in group.reads().values():
        for (read_ms, reader), (again_ms, again) in pairwise(reads):
            if reader.killed_ms is not None and reader.killed_ms <= again_ms:
                found["killed"].append(reader.killed_ms - read_ms)
            else:
                found["paused" if reader.was_paused or again.was_paused else "others"].append(0)
    return found


async def test_members_in_java_and_ours_share_a_group(place: Place) -> None:
    dice = random.Random(SEED)
    show(f"OTTLA_SEED={SEED} OTTLA_ROUNDS={ROUNDS}")
    name = f"mixed-{SEED}"
    async with Admin(place.bootstrap) as admin:
        await admin.create_topics([NewTopic(name, PARTITIONS, 1)])
    group = MixedGroup(place, name)
    stopped = asyncio.Event()
    sending = asyncio.create_task(group.send_until(stopped))
    highest: dict[int, int] = {}
    before: set[str] = set()
    joined = 0
    actions: Counter[str] = Counter()

    async def has_rest() -> bool:
        # A killed member stays registered until its session ends.
        has_joined = joined == len(group.all_members) or bool(await group.ids(client) - before)
        return has_joined and await group.rests(client)

    async def is_complete() -> bool:
        return len(group.reads()) == group.sent

    async def none_fell() -> bool:
        now = await group.offsets(client)
        return all(now.get(each, 0) >= at for each, at in highest.items())

    try:
        async with Client(place.coordinator.address) as client:
            for kind in ("java", "ours", "java", "ours"):
                group.join(kind)
            await wait_for(has_rest)
            for _ in range(ROUNDS):
                before, joined = await group.ids(client), len(group.all_members)
                action = dice.choice(["join", "leave", "kill", "pause"])
                member = dice.choice(group.members)
                actions[f"{action} {member.kind}"] += 1
                if action == "pause":
                    member.pause()
                    await asyncio.sleep(6)
                    member.resume()
                elif action == "join" and len(group.members) < 5:
                    group.join(dice.choice(["java", "ours"]))
                else:
                    group.members.remove(member)
                    await asyncio.to_thread(member.kill if action == "kill" else member.leave)
                    group.join(member.kind)
                await wait_for(has_rest)
                if member.was_paused and member.kind == "java":
                    # Kafka's client writes its old offsets when it wakes up, before it learns that
                    # its session ended. The next commits of the present owners correct them.
                    await wait_for(none_fell)
                now = await group.offsets(client)
                falls = {each: at for each, at in now.items() if at < highest.get(each, 0)}
                show(f"{action} {member.kind} {now}")
                assert not falls, (falls, highest)
                highest |= now
            stopped.set()
            await sending
            await wait_for(is_complete)
            verdict = run_old_tool(
                "kafka.tools.VerifyConsumerRebalance",
                "--zookeeper.connect",
                place.coordinator.address,
                "--group",
                name,
            )
            assert "Rebalance operation successful" in verdict
            ages = ages_of_repeats(group)
            counts = {each: len(found) for each, found in ages.items()}
            oldest = max(ages["killed"], default=0)
            show(f"{actions} records={group.sent} repeats={counts} oldest={oldest} ms")
            assert oldest < COMMIT_INTERVAL_MS + COMMIT_MS
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        group.end()

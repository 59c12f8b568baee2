"""Jafka 3.0.6 below a chroot of our coordinator: its nodes, and a group with a member of ours."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clusterstate.znodes.jafka_nodes import decode_count, decode_jafka_broker
from coordination.client import Client
from coordination.errors import NoNodeError
from ottla.client.errors import OttlaError
from ottla.zookeeper.assignment import Slot, Strategy
from ottla.zookeeper.membership import Membership
from ottla.zookeeper.rebalance import Phase, Rebalance
from ottla.zookeeper.registration import Layout, Registration, consumer_of, decode_registration
from tests.integration.coordination.process import Coordinator
from tests.ports import free_port
from tests.waiting import until

POM = Path(__file__).parents[1] / "jafka_jars.xml"
JARS = Path(os.environ.get("OTTLA_JAFKA_JARS") or Path.home() / ".cache" / "ottla" / "jafka-jars")
SOURCE = Path(__file__).parent / "JafkaPlace.java"
CHROOT = "/jafka"
TOPIC = "hehe"
REST_S = 90.0


def jars_or_skip() -> None:
    if not any(JARS.glob("jafka-*.jar")) and shutil.which("mvn"):
        copy = ["mvn", "-q", "-f", str(POM), "dependency:copy-dependencies"]
        subprocess.run([*copy, f"-DoutputDirectory={JARS}"], check=False)
    if not any(JARS.glob("jafka-*.jar")) or shutil.which("java") is None:
        pytest.skip("needs java, and the jars of Jafka 3.0.6 (OTTLA_JAFKA_JARS or mvn)")


class Place:
    """A coordinator, and programs of Jafka."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.coordinator = Coordinator(directory / "coordinator")
        self.address = self.coordinator.address + CHROOT
        self.programs: list[subprocess.Popen[str]] = []
        subprocess.run(["javac", "-cp", f"{JARS}/*", "-d", str(directory), str(SOURCE)], check=True)

    def start(self, name: str, *arguments: str) -> Path:
        output = self.directory / f"{name}-{len(self.programs)}"
        with output.open("w") as out, output.with_suffix(".err").open("w") as err:
            self.programs.append(
                subprocess.Popen(
                    [
                        *("java", "-Xmx128m", "-cp", f"{self.directory}:{JARS}/*"),
                        *("JafkaPlace", name, *arguments),
                    ],
                    stdin=subprocess.PIPE,
                    stdout=out,
                    stderr=err,
                    text=True,
                )
            )
        return output

    def end(self) -> None:
        for program in self.programs:
            program.kill()
            program.wait()
            assert program.stdin is not None
            program.stdin.close()
        self.coordinator.kill()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    jars_or_skip()
    place = Place(tmp_path)
    async with Client(place.coordinator.address) as client:
        await client.create(CHROOT, b"")
    yield place
    place.end()


class Holder:
    """A member that does not fetch: Jafka's brokers do not speak Kafka's protocol."""

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


async def owners(client: Client, group: str) -> dict[str, str]:
    parent = f"/consumers/{group}/owners/{TOPIC}"
    try:
        return {
            name: ((await client.get_data(f"{parent}/{name}"))[0] or b"").decode()
            for name in await client.get_children(parent)
        }
    except NoNodeError:
        return {}


async def members(client: Client, group: str) -> dict[str, str]:
    return {name: consumer_of(thread) for name, thread in (await owners(client, group)).items()}


async def test_our_member_shares_a_group_with_jafkas(place: Place) -> None:
    port = free_port()
    broker = place.start("broker", place.address, str(port), str(place.directory / "logs"), TOPIC)
    await until(lambda: "started" in broker.read_text(), "Jafka's broker")
    async with Client(place.address) as client:
        held = decode_jafka_broker((await client.get_data("/brokers/ids/1"))[0])
        assert (held.host, held.port, held.creates_topics) == ("127.0.0.1", port, True)
        assert held.encode() == (await client.get_data("/brokers/ids/1"))[0]
        async with asyncio.timeout(REST_S):
            while await client.exists(f"/brokers/topics/{TOPIC}/1") is None:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert decode_count((await client.get_data(f"/brokers/topics/{TOPIC}/1"))[0]) == 3
        consumer = place.start("consumer", place.address, "china", TOPIC)
        async with asyncio.timeout(REST_S):
            while len(await owners(client, "china")) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        [theirs] = await client.get_children("/consumers/china/ids")
        text = (await client.get_data(f"/consumers/china/ids/{theirs}"))[0]
        assert decode_registration(text, Layout.JAFKA) == Registration({TOPIC: 1})
        assert Registration({TOPIC: 1}).encode(Layout.JAFKA, 1) == text
        await until(lambda: consumer.read_text().count("value-") == 20, "Jafka's records")
        holder = Holder()
        membership = Membership(
            client,
            holder,
            Rebalance(max_tries=20, backoff_ms=1_000),
            group="china",
            consumer="china_zz-1-ab",
            registration=Registration({TOPIC: 1}),
            layout=Layout.JAFKA,
            strategy=Strategy.RANGE,
            exclude_internal=True,
            session_timeout_ms=6_000,
            now_ms=lambda: 1,
        )
        membership.start()
        async with Client(place.address) as observer:
            expected = {"1-0": theirs, "1-1": theirs, "1-2": "china_zz-1-ab"}
            async with asyncio.timeout(REST_S):
                while await members(observer, "china") != expected:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            await until(lambda: membership.machine.phase is Phase.OWNING)
            assert holder.held == {Slot(TOPIC, "1-2")}
            assert set(await observer.get_children(f"/consumers/china/offsets/{TOPIC}")) >= {"1-0"}
            await membership.stop(asyncio.get_running_loop().time() + 30)
            async with asyncio.timeout(REST_S):
                while len(await owners(observer, "china")) < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)

"""Kafka's old tools on our groups and brokers, and ours on theirs."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordination.client import Client
from ottla import Admin, NewTopic, Producer
from ottla.cli.app import make_app
from ottla.client.errors import OttlaError
from ottla.zookeeper.consumer import ZooKeeperConsumer
from tests.conftest import READY_EVENT, BrokerProcess
from tests.integration.coordination.process import Coordinator
from tests.interop.kafka_old_jars import (
    MEMBER,
    checker_jars_or_skip,
    compile_java,
    old_jars_or_skip,
    run_old_tool,
    start_java,
)
from tests.waiting import until, until_sync

TOPIC = "tools"
RECORDS = 40
ONE_REPLICA = {"offsets.topic.replication.factor": "1"}
COMMAND = "kafka.admin.ConsumerGroupCommand"


class Place:
    """A coordinator and a broker of ours."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.coordinator = Coordinator(directory / "coordinator")
        settings = {"zookeeper.connect": self.coordinator.address, "broker.id": "1", **ONE_REPLICA}
        self.broker = BrokerProcess(directory / "broker", settings)

    @property
    def zookeeper(self) -> str:
        return self.coordinator.address

    def end(self) -> None:
        self.broker.kill()
        self.coordinator.kill()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    old_jars_or_skip()
    place = Place(tmp_path_factory.mktemp("tools"))
    try:
        place.broker.wait_for_event(READY_EVENT)
        asyncio.run(fill(place))
        yield place
    finally:
        place.end()


async def fill(place: Place) -> None:
    async with Admin(place.broker.bootstrap) as admin:
        await admin.create_topics([NewTopic(TOPIC, 2)])
    async with Producer(place.broker.bootstrap) as producer:
        for number in range(RECORDS):
            await producer.send(TOPIC, f"value-{number}.".encode(), partition=number % 2)
        await producer.flush()


def consumer(place: Place, group: str) -> ZooKeeperConsumer:
    return ZooKeeperConsumer(
        place.zookeeper,
        group_id=group,
        auto_offset_reset="smallest",
        auto_commit_interval_ms=200,
    )


async def read(one: ZooKeeperConsumer, count: int) -> None:
    seen = 0
    async with asyncio.timeout(60):
        while seen < count:
            seen += len(await one.fetch_batch(count - seen, 1_000))


def tool(*arguments: str, may_fail: bool = False) -> str:
    return run_old_tool(*arguments, may_fail=may_fail)


def ours(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(make_app(), ["groups", *arguments])
    assert result.exit_code == code, result.output
    return result.output


async def test_kafkas_tools_judge_describe_export_and_delete_our_group(place: Place) -> None:
    group, zookeeper = "ours", ("--zookeeper", place.zookeeper)
    async with consumer(place, group) as first, consumer(place, group) as second:
        first.subscribe([TOPIC])
        second.subscribe([TOPIC])
        await until(lambda: len(first.assignment()) == len(second.assignment()) == 1, "halves")
        await asyncio.gather(read(first, RECORDS // 2), read(second, RECORDS // 2))
        await first.commit()
        await second.commit()
        run = asyncio.to_thread
        verdict = await run(
            tool,
            "kafka.tools.VerifyConsumerRebalance",
            "--zookeeper.connect",
            place.zookeeper,
            "--group",
            group,
        )
        assert "Rebalance operation successful" in verdict
        assert await run(ours, "verify", group, "--coordinator", place.zookeeper) == ""
        assert group in (await run(tool, COMMAND, *zookeeper, "--list")).splitlines()
        described = await run(tool, COMMAND, *zookeeper, "--describe", "--group", group)
        rows = [line.split() for line in described.splitlines() if line.startswith(TOPIC)]
        assert sorted(row[:5] for row in rows) == [
            [TOPIC, "0", "20", "20", "0"],
            [TOPIC, "1", "20", "20", "0"],
        ]
        assert {row[5] for row in rows} == {first.consumer_id, second.consumer_id}
        refused = await run(tool, COMMAND, *zookeeper, "--delete", "--group", group)
        assert "is not deleted" in refused or "active" in refused, refused
    theirs, mine = place.directory / "theirs.txt", place.directory / "mine.txt"
    await run(
        tool,
        "kafka.tools.ExportZkOffsets",
        "--zkconnect",
        place.zookeeper,
        "--group",
        group,
        "--output-file",
        str(theirs),
    )
    await run(ours, "export-offsets", str(mine), "--coordinator", place.zookeeper, "--group", group)
    assert sorted(theirs.read_text().split()) == mine.read_text().split()
    assert len(mine.read_text().split()) == 2
    tool(COMMAND, *zookeeper, "--delete", "--group", group)
    async with Client(place.zookeeper) as client:
        assert group not in await client.get_children("/consumers")


def checked(place: Place, group: str) -> list[list[str]]:
    """Return the rows of Kafka's checker: topic, partition, offset, end, lag, owner."""
    printed = run_old_tool(
        "kafka.tools.ConsumerOffsetChecker",
        *("--zookeeper", place.zookeeper, "--group", group),
        jars=checker_jars_or_skip(),
    )
    rows = [line.split() for line in printed.splitlines() if line.startswith(f"{group} ")]
    assert rows, printed
    return sorted(row[1:] for row in rows)


def described(place: Place, group: str) -> list[list[str]]:
    """Return the same of our command."""
    report = json.loads(ours("describe", group, "--coordinator", place.zookeeper, "--json"))
    return [
        [
            each["topic"],
            each["partition"],
            *(str(each[name]) for name in ("committed_offset", "end_offset", "lag")),
            each["thread_id"] or "none",
        ]
        for each in report["partitions"]
    ]


async def test_kafkas_offset_checker_prints_the_same_as_our_command(place: Place) -> None:
    run, group = asyncio.to_thread, "checked"
    async with consumer(place, group) as first, consumer(place, group) as second:
        first.subscribe([TOPIC])
        second.subscribe([TOPIC])
        await until(lambda: len(first.assignment()) == len(second.assignment()) == 1, "halves")
        await asyncio.gather(read(first, 13), read(second, 20))
        await first.commit()
        await second.commit()
        theirs = await run(checked, place, group)
        assert theirs == await run(described, place, group)
        assert sorted(row[2:5] for row in theirs) == [["13", "20", "7"], ["20", "20", "0"]]
        owners = {f"{each.consumer_id}-0" for each in (first, second)}
        assert {row[5] for row in theirs} == owners
    theirs = await run(checked, place, group)
    assert theirs == await run(described, place, group)
    assert {row[5] for row in theirs} == {"none"}


async def test_an_import_by_kafkas_tool_is_where_our_members_start(place: Place) -> None:
    file = place.directory / "import.txt"
    file.write_text(f"/consumers/imported/offsets/{TOPIC}/0:15\n")
    tool("kafka.tools.ImportZkOffsets", "--zkconnect", place.zookeeper, "--input-file", str(file))
    async with consumer(place, "imported") as one:
        one.subscribe([TOPIC])
        offsets: list[int] = []
        async with asyncio.timeout(60):
            while len(offsets) < 25:
                offsets += [
                    each.offset for each in await one.fetch_batch(50, 500) if each.partition == 0
                ] or [-1]
                if offsets.count(-1) > 100 or 19 in offsets:
                    break
    assert min(each for each in offsets if each >= 0) == 15


async def has_coordinator(admin: Admin) -> bool:
    try:
        await admin.list_group_offsets("moving")
    except OttlaError:
        return False
    return True


async def test_offsets_migrate_to_kafkas_group_and_back(place: Place) -> None:
    coordinator = ("--coordinator", place.zookeeper)
    file = place.directory / "migrate.txt"
    file.write_text(
        f"/consumers/moving/offsets/{TOPIC}/0:7\n/consumers/moving/offsets/{TOPIC}/1:8\n"
    )
    run = asyncio.to_thread
    assert "moving: 2 offsets" in await run(ours, "import-offsets", str(file), *coordinator)
    async with Admin(place.broker.bootstrap) as admin:
        async with asyncio.timeout(60):
            while not await has_coordinator(admin):  # noqa: ASYNC110 - asks a server
                await asyncio.sleep(0.1)
        await run(ours, "migrate", "moving", "--to", "kafka", "--dry-run", *coordinator)
        assert await admin.list_group_offsets("moving") == {}
        await run(ours, "migrate", "moving", "--to", "kafka", *coordinator)
        held = await admin.list_group_offsets("moving")
        assert {each.partition: at.offset for each, at in held.items()} == {0: 7, 1: 8}
    await run(ours, "delete", "moving", *coordinator)
    await run(ours, "migrate", "moving", "--to", "znodes", *coordinator)
    shown = await run(ours, "describe", "moving", *coordinator)
    assert [line.split()[:4] for line in shown.splitlines()[2:]] == [
        [TOPIC, "0", "7", "20"],
        [TOPIC, "1", "8", "20"],
    ]


def test_our_tools_describe_a_member_in_java(place: Place) -> None:
    """Its fetches need a broker of Kafka, but its nodes do not."""
    classes = compile_java(MEMBER, place.directory / "classes")
    with (
        (place.directory / "java.out").open("w") as out,
        (place.directory / "java.err").open("w") as err,
    ):
        member = start_java(
            classes, "OldMember", place.zookeeper, "java", TOPIC, "2", stdout=out, stderr=err
        )
        try:
            until_sync(
                lambda: (
                    ours("list", "--coordinator", place.zookeeper).count("java") == 1
                    and "java" in ours("describe", "java", "--coordinator", place.zookeeper)
                    and CliRunner()
                    .invoke(
                        make_app(), ["groups", "verify", "java", "--coordinator", place.zookeeper]
                    )
                    .exit_code
                    == 0
                ),
                "the member's claims",
            )
            described = ours("describe", "java", "--coordinator", place.zookeeper, "--json")
            assert '"pattern": "static"' in described
            assert described.count("java_") >= 2
            refused = ours("delete", "java", "--coordinator", place.zookeeper, code=1)
            assert "1 members" in refused
        finally:
            member.kill()
            member.wait()
            assert member.stdin is not None
            member.stdin.close()

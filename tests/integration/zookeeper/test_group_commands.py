"""`ottla produce`, `consume` and `groups` with `--coordinator`: a broker and a coordinator."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordination.client import Client
from ottla import Admin, NewTopic, Producer
from ottla.cli.app import make_app
from tests.harness.cluster import ClusterProcesses

TOPIC = "orders"
SETTINGS = {
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    # A broker that hangs for a while keeps its session; one that dies lets it end at once.
    "zookeeper.session.timeout.ms": "30000",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    directory = tmp_path_factory.mktemp("commands")
    with ClusterProcesses(directory, broker_count=1, overrides=SETTINGS) as cluster:
        asyncio.run(fill(cluster))
        yield cluster


async def fill(cluster: ClusterProcesses) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topics([NewTopic(TOPIC, 2)])
    async with Producer(cluster.bootstrap) as producer:
        for number in range(10):
            await producer.send(TOPIC, str(number).encode(), partition=number % 2)
        await producer.flush()


def ottla(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(make_app(), list(arguments))
    assert result.exit_code == code, result.output
    return result.output


def test_a_group_is_read_described_and_changed(cluster: ClusterProcesses, tmp_path: Path) -> None:
    at = ("--coordinator", cluster.connect)
    printed = ottla("consume", TOPIC, "--group", "g", "--max-records", "10", *at)
    assert sorted(line for line in printed.splitlines() if line.isdigit()) == list("0123456789")
    assert json.loads(ottla("groups", "list", *at, "--json")) == [{"group_id": "g", "members": 0}]
    shown = ottla("groups", "describe", "g", *at)
    assert [line.split() for line in shown.splitlines()[2:]] == [
        [TOPIC, "0", "5", "5", "0", "-"],
        [TOPIC, "1", "5", "5", "0", "-"],
    ]
    held = json.loads(ottla("groups", "describe", "g", *at, "--json"))
    assert [each["lag"] for each in held["partitions"]] == [0, 0]
    ottla("groups", "verify", "g", *at)
    reset = ottla("groups", "reset-offsets", "g", "--to", "beginning", *at, "--json")
    assert {each["offset"] for each in json.loads(reset)} == {0}
    printed = ottla("consume", "--regex", "ord.*", "--group", "g", "--max-records", "10", *at)
    assert printed.count("\n") >= 10
    file = tmp_path / "offsets.txt"
    assert "2 offsets" in ottla("groups", "export-offsets", str(file), *at, "--group", "g")
    file.write_text(file.read_text().replace("/g/", "/copy/"))
    assert ottla("groups", "import-offsets", str(file), *at) == "copy: 2 offsets\n"
    assert ottla("groups", "delete", "g", "copy", *at).split()[-1] == "copy"
    assert "does not exist" in ottla("groups", "describe", "g", *at, code=1)


def test_lines_are_sent_to_the_brokers_that_the_coordinator_lists(
    cluster: ClusterProcesses, tmp_path: Path
) -> None:
    topic, at = "produced", ("--coordinator", cluster.connect)
    asyncio.run(create(cluster, topic))
    file = tmp_path / "lines"
    file.write_text("a:1\na:2\nb:3\n")
    ottla("produce", topic, str(file), "--key-separator", ":", *at)
    file.write_text("".join(f'{{"value": "{number}"}}\n' for number in range(4, 44)))
    sent = json.loads(ottla("produce", topic, str(file), "--json-lines", "--json", *at))
    assert sent["records"] == 40
    found = ottla("consume", topic, "--no-follow", "--json", "--bootstrap", cluster.bootstrap)
    records = [json.loads(line) for line in found.splitlines() if line.startswith("{")]
    assert sorted(int(each["value"]) for each in records) == list(range(1, 44))
    assert len({each["partition"] for each in records if each["key"] == "a"}) == 1
    # By chance: all 40 in one of four happens once in 10**23 runs.
    assert len({each["partition"] for each in records if each["key"] is None}) > 1


async def create(cluster: ClusterProcesses, topic: str) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topics([NewTopic(topic, 4)])


@pytest.mark.parametrize(
    ("topic", "line", "text", "code"),
    [
        (TOPIC, '{"value": "1", "partition": 0}', "line 1: with --coordinator", 1),
        ("missing", '{"value": "1"}', "UNKNOWN_TOPIC_OR_PARTITION", 1),
        ("a/b", '{"value": "1"}', "not the name of a topic", 2),
        ("..", '{"value": "1"}', "not the name of a topic", 2),
    ],
)
def test_a_record_that_cannot_be_sent_is_one_sentence(
    cluster: ClusterProcesses, tmp_path: Path, topic: str, line: str, text: str, code: int
) -> None:
    file = tmp_path / "lines"
    file.write_text(line)
    at = ("--coordinator", cluster.connect)
    printed = ottla("produce", topic, str(file), "--json-lines", *at, code=code)
    assert text in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("consume", TOPIC), "--group"),
        (("consume", TOPIC, "--group", "g", "--no-follow"), "--no-follow"),
        (("groups", "list", "--bootstrap", "127.0.0.1:1"), "--bootstrap"),
        (("produce", TOPIC, "--bootstrap", "127.0.0.1:1"), "--bootstrap"),
        (("produce", TOPIC, "--partition", "0"), "--partition"),
        (("consume", "--regex", "[a&&b]", "--group", "g"), "read differently"),
        (("consume", "/ord.*/", "--group", "g"), "not the name of a topic"),
        (("groups", "describe", "../g"), "not the name of a group"),
    ],
)
def test_wrong_usage_is_one_sentence(
    cluster: ClusterProcesses, arguments: tuple[str, ...], text: str
) -> None:
    result = CliRunner().invoke(make_app(), [*arguments, "--coordinator", cluster.connect])
    assert result.exit_code == 2
    assert text in result.output
    assert result.output.count("\n") == 1


def test_a_bad_address_is_one_sentence() -> None:
    result = CliRunner().invoke(make_app(), ["groups", "list", "--coordinator", "a:b:c"])
    assert result.exit_code == 2
    assert "--coordinator" in result.output


def test_a_file_that_is_no_file_of_offsets_changes_nothing(
    cluster: ClusterProcesses, tmp_path: Path
) -> None:
    file = tmp_path / "offsets.txt"
    for data in (b"nonsense\n", b"\xff"):
        file.write_bytes(data)
        result = CliRunner().invoke(
            make_app(),
            ["groups", "import-offsets", str(file), "--coordinator", cluster.connect],
        )
        assert result.exit_code in (1, 2)


async def test_a_node_beside_the_brokers_is_no_broker(
    cluster: ClusterProcesses, tmp_path: Path
) -> None:
    await create(cluster, "beside")
    file = tmp_path / "lines"
    file.write_text("1\n")
    # "²" is a digit, but not one of a number.
    async with Client(cluster.connect) as client:
        await client.create("/brokers/ids/²", b"{}")
        try:
            words = ("produce", "beside", str(file), "--json", "--coordinator", cluster.connect)
            sent = json.loads(await asyncio.to_thread(ottla, *words))
        finally:
            await client.delete("/brokers/ids/²")
    assert sent["records"] == 1

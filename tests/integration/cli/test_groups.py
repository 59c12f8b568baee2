"""`ottla groups` against a real broker."""

import json
from collections.abc import Iterator

import confluent_kafka
import pytest

from tests.conftest import READY_EVENT, BrokerProcess
from tests.integration.cli.conftest import RunOttla
from tests.waiting import DEADLINE_S, until_sync

OVERRIDES = {"offsets.topic.num.partitions": "3", "group.initial.rebalance.delay.ms": "0"}
PARTITIONS = 2
RECORDS = 10

At = tuple[str, str]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with the topics `orders` and `small`, with `RECORDS` records in each."""
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), OVERRIDES)
    try:
        broker.wait_for_event(READY_EVENT)
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(RECORDS * PARTITIONS):
            producer.produce("small" if number % PARTITIONS else "orders", b"value")
        assert producer.flush(DEADLINE_S) == 0
        yield broker
    finally:
        broker.stop()


@pytest.fixture
def at(broker: BrokerProcess) -> At:
    return ("--bootstrap", broker.bootstrap)


def commit(broker: BrokerProcess, group: str, **offsets: int) -> None:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, "enable.auto.commit": False}
    )
    wanted = [confluent_kafka.TopicPartition(topic, 0, n) for topic, n in offsets.items()]
    consumer.commit(offsets=wanted, asynchronous=False)
    consumer.close()


def test_list_prints_all_groups(run_ottla: RunOttla, broker: BrokerProcess, at: At) -> None:
    commit(broker, "listed", orders=1)
    rows = [line.split() for line in run_ottla("groups", "list", *at).stdout.splitlines()]
    assert rows[0] == ["group", "state", "type"]
    assert ["listed", "Empty", "-"] in rows
    listed = json.loads(run_ottla("groups", "list", "--json", *at).stdout)
    assert {"group_id": "listed", "protocol_type": "", "state": "Empty"} in listed


def test_describe_prints_the_lag_of_a_group(
    run_ottla: RunOttla, broker: BrokerProcess, at: At
) -> None:
    commit(broker, "lagging", orders=4, small=10)
    head, columns, *rows = run_ottla("groups", "describe", "lagging", *at).stdout.splitlines()
    assert head == "lagging: Empty, 0 members"
    assert columns.split() == ["topic", "partition", "committed", "end", "lag", "member", "host"]
    assert [row.split() for row in rows] == [
        ["orders", "0", "4", "10", "6", "-", "-"],
        ["small", "0", "10", "10", "0", "-", "-"],
    ]
    report = json.loads(run_ottla("groups", "describe", "lagging", "--json", *at).stdout)
    assert [part["lag"] for part in report["partitions"]] == [6, 0]


def test_group_with_members_is_described_and_cannot_be_reset_or_deleted(
    run_ottla: RunOttla, broker: BrokerProcess, at: At
) -> None:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "busy",
            "group.instance.id": "worker-1",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])

    def has_joined() -> bool:
        consumer.poll(0.05)
        return bool(consumer.assignment())

    until_sync(has_joined, "the assignment")
    head, _, row = run_ottla("groups", "describe", "busy", *at).stdout.splitlines()
    assert head == "busy: Stable, 1 members range"
    assert row.split() == ["orders", "0", "-", "10", "-", "worker-1", "127.0.0.1"]
    refused = run_ottla("groups", "reset-offsets", "busy", "--to", "end", *at)
    assert (refused.returncode, "1 members" in refused.stderr) == (1, True)
    refused = run_ottla("groups", "delete", "busy", *at)
    assert (refused.returncode, "still has members" in refused.stderr) == (1, True)
    consumer.close()


@pytest.mark.parametrize(
    ("where", "offset"),
    [("beginning", 0), ("end", 10), ("7", 7), ("99", 10), ("2020-01-01T00:00:00Z", 0)],
)
def test_reset_offsets_commits_the_start_point(
    run_ottla: RunOttla, broker: BrokerProcess, at: At, where: str, offset: int
) -> None:
    commit(broker, "reset", orders=3)
    command = ("groups", "reset-offsets", "reset", "--to", where, "--json", *at)
    expected = [{"topic": "orders", "partition": 0, "offset": offset}]
    assert json.loads(run_ottla(*command, "--dry-run").stdout) == expected
    assert committed(run_ottla, at, "reset") == 3
    assert json.loads(run_ottla(*command).stdout) == expected
    assert committed(run_ottla, at, "reset") == offset


def committed(run_ottla: RunOttla, at: At, group: str) -> int:
    report = json.loads(run_ottla("groups", "describe", group, "--json", *at).stdout)
    return int(report["partitions"][0]["committed_offset"])


def test_reset_of_a_new_group_needs_topics(run_ottla: RunOttla, at: At) -> None:
    refused = run_ottla("groups", "reset-offsets", "fresh", "--to", "end", *at)
    assert (refused.returncode, "--topic" in refused.stderr) == (1, True)
    done = run_ottla("groups", "reset-offsets", "fresh", "--to", "end", "-t", "orders", *at)
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["topic", "partition", "offset"],
        ["orders", "0", "10"],
    ]
    usage = run_ottla("groups", "reset-offsets", "fresh", "--to", "somewhere", *at)
    assert usage.returncode == 2


@pytest.mark.parametrize("command", ["describe", "members", "remove-members"])
def test_a_mistyped_group_is_an_error(run_ottla: RunOttla, at: At, command: str) -> None:
    ended = run_ottla("groups", command, "mistyped", *at)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "ottla: group mistyped does not exist: see `ottla groups list`.\n"


def test_delete_removes_a_group(run_ottla: RunOttla, broker: BrokerProcess, at: At) -> None:
    commit(broker, "doomed", orders=1)
    assert run_ottla("groups", "delete", "doomed", *at) == (0, "deleted doomed\n", "")
    refused = run_ottla("groups", "delete", "doomed", *at)
    assert (refused.returncode, "no such group" in refused.stderr) == (1, True)
    unknown = run_ottla("groups", "describe", "doomed", *at)
    assert (unknown.returncode, "ottla groups list" in unknown.stderr) == (1, True)

"""Kafka's own tools and formatters on the groups of our broker."""

import re
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.conftest import READY_EVENT, BrokerProcess
from tests.interop.kafka_jars import needs_jars, run_java
from tests.unit.kafkawire.test_group_records_golden import GOLDEN

pytestmark = needs_jars

PROGRAM = Path(__file__).with_name("GroupRecords.java")
GROUP_COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FORMATTERS = "org.apache.kafka.tools.consumer"
OVERRIDES = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "200"}
PARTITIONS = 3
JOIN_POLLS = 100


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), OVERRIDES)
    try:
        broker.wait_for_event(READY_EVENT)
        yield broker
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def member(broker: BrokerProcess) -> Iterator[confluent_kafka.Consumer]:
    """The only member of group `workers`, which has committed offsets 5, 6 and 7 of 10."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("orders", PARTITIONS, 1)])["orders"].result(10)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(10 * PARTITIONS):
        producer.produce("orders", b"value", partition=number % PARTITIONS)
    producer.flush(10)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "workers",
            "group.instance.id": "one",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    for _ in range(JOIN_POLLS):
        consumer.poll(0.1)
        if consumer.assignment():
            break
    offsets = [confluent_kafka.TopicPartition("orders", n, 5 + n) for n in range(PARTITIONS)]
    consumer.commit(offsets=offsets, asynchronous=False)
    yield consumer
    consumer.close()


def test_kafka_still_writes_the_golden_bytes() -> None:
    printed = run_java("-Dstdout.encoding=UTF-8", str(PROGRAM)).splitlines()
    said = dict(line.rsplit("=", 1) for line in printed)
    partitions = {f"partition {name}": str(n) for name, n in GOLDEN["partitions"].items()}
    assert said == partitions | GOLDEN["records"]


def test_kafkas_dump_tool_decodes_our_offsets(
    broker: BrokerProcess, member: confluent_kafka.Consumer
) -> None:
    log_file = broker.data_dir / "__consumer_offsets-0" / f"{0:020}.log"
    text = run_java("kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(log_file))
    assert "isvalid: false" not in text
    assert '"group":"workers","topic":"orders","partition":2' in text
    assert re.search(r'"offset":7,"leaderEpoch":-1,"metadata":"[^"]*","commitTimestamp":\d+', text)
    assert '"protocolType":"consumer","generation":1,"protocol":"range"' in text
    assert '"groupInstanceId":"one"' in text
    assert '"clientHost":"/127.0.0.1"' in text
    assert member.assignment()


@pytest.mark.parametrize(
    ("formatter", "expected"),
    [
        ("OffsetsMessageFormatter", r'"topic":"orders","partition":1.*"offset":6'),
        ("GroupMetadataMessageFormatter", r'"group":"workers".*"protocol":"range"'),
    ],
)
def test_kafkas_formatters_read_our_offsets_topic(
    broker: BrokerProcess, member: confluent_kafka.Consumer, formatter: str, expected: str
) -> None:
    assert member.assignment()
    text = run_java(
        CONSOLE_CONSUMER,
        "--bootstrap-server",
        broker.bootstrap,
        "--topic",
        "__consumer_offsets",
        "--from-beginning",
        "--formatter",
        f"{FORMATTERS}.{formatter}",
        "--timeout-ms",
        "8000",
    )
    assert re.search(expected, text), text


def groups_command(broker: BrokerProcess, *options: str) -> str:
    # The default timeout of five seconds is too short for a busy machine.
    timeout = ("--timeout", "60000")
    return run_java(GROUP_COMMAND, "--bootstrap-server", broker.bootstrap, *timeout, *options)


def test_kafka_consumer_groups_describes_our_groups(
    broker: BrokerProcess, member: confluent_kafka.Consumer
) -> None:
    assert "workers" in groups_command(broker, "--list", "--state")
    text = groups_command(broker, "--describe", "--group", "workers")
    rows = re.findall(r"^workers +orders +(\d) +(\d+) +(\d+) +(\d+) +one-", text, re.MULTILINE)
    assert sorted(rows) == [("0", "5", "10", "5"), ("1", "6", "10", "4"), ("2", "7", "10", "3")]
    state = groups_command(broker, "--describe", "--group", "workers", "--state")
    assert re.search(r"workers .* range +Stable +1", state)
    members = groups_command(broker, "--describe", "--group", "workers", "--members", "--verbose")
    assert "(0,1,2)" in members
    assert member.assignment()


def test_kafka_consumer_groups_resets_and_deletes_offsets_and_groups(
    broker: BrokerProcess, member: confluent_kafka.Consumer
) -> None:
    assert member.assignment()
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "idle", "enable.auto.commit": False}
    )
    here = confluent_kafka.TopicPartition("orders", 0, 3)
    consumer.commit(offsets=[here], asynchronous=False)
    reset = ("--reset-offsets", "--group", "idle", "--topic", "orders", "--to-latest", "--execute")
    text = groups_command(broker, *reset)
    assert [each.offset for each in consumer.committed([here])] == [10], text
    groups_command(broker, "--delete-offsets", "--group", "idle", "--topic", "orders:0")
    assert [each.offset for each in consumer.committed([here])] == [confluent_kafka.OFFSET_INVALID]
    consumer.close()
    text = groups_command(broker, "--delete", "--group", "idle", "--group", "workers")
    assert "idle" in text
    assert "NON_EMPTY" in text.upper() or "not empty" in text
    assert "idle" not in groups_command(broker, "--list")

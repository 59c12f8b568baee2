"""A running broker compacts logs to the last record of every key while it serves clients."""

from pathlib import Path

from broker.config.config_change import ConfigOperation
from broker.config.config_entry import ResourceType
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafkawire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkawire.records import iterate_batches, read_records
from storage.disk.checkpoint import read_offsets
from tests.conftest import BrokerProcess, StartBroker
from tests.integration.broker.wire import NOW_MS, Wire
from tests.unit.storage.compacting import keyed_batch

EAGER = {
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.segment.bytes": "1000",
    "log.index.interval.bytes": "100",
}
COMPACT = "compact"


def put(wire: Wire, topic: str, count: int) -> None:
    """Produce `count` batches over three keys; the last value of each is the highest."""
    for number in range(count):
        key = b"key-%d" % (number % 3)
        wire.produce(topic, bytes(keyed_batch([(key, b"%d" % number)], times_ms=[NOW_MS])))


def fetch_all(
    wire: Wire, topic: str, partition: int = 0
) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return all records that a consumer reads from the beginning."""
    found: list[tuple[int, bytes | None, bytes | None]] = []
    offset = 0
    while True:
        answer = wire.fetch(topic, offset, partition=partition)
        assert answer.error_code == 0
        records = answer.records or b""
        assert isinstance(records, bytes | bytearray | memoryview)
        batches = list(iterate_batches(records))
        if not batches:
            return found
        for header, batch in batches:
            found += [record[0:1] + record[2:4] for record in read_records(batch)]
            offset = header.next_offset


def wait_until_clean(broker: BrokerProcess, end_offset: int, partition: str = "t-0") -> None:
    broker.wait_for_event(
        "cleaning.finished",
        where=lambda event: (
            event["partition"] == partition and int(str(event["end_offset"])) >= end_offset
        ),
    )


def test_only_the_last_record_of_each_key_remains(start_broker: StartBroker) -> None:
    broker = start_broker(overrides=EAGER)
    with Wire(broker.port) as wire:
        wire.create_topic("t", cleanup_policy=COMPACT)
        put(wire, "t", 60)
        base_offset = newest_segment(broker)
        wait_until_clean(broker, base_offset)
        found = fetch_all(wire, "t")
        kept = [key for offset, key, _ in found if offset < base_offset]
        assert len(kept) == len(set(kept)) == 3
        assert {key: value for _, key, value in found} == {
            b"key-0": b"57",
            b"key-1": b"58",
            b"key-2": b"59",
        }
    checkpoint = read_offsets(broker.data_dir / "cleaner-offset-checkpoint")
    assert checkpoint[TopicPartition("t", 0)] == base_offset
    broker.kill()
    again = start_broker(broker.data_dir, EAGER)
    with Wire(again.port) as wire:
        assert fetch_all(wire, "t") == found


def newest_segment(broker: BrokerProcess) -> int:
    return max(int(path.stem) for path in (broker.data_dir / "t-0").glob("*.log"))


def test_a_damaged_log_is_left_alone_and_the_others_are_cleaned(start_broker: StartBroker) -> None:
    broker = start_broker(overrides=EAGER | {"log.cleaner.enable": "false"})
    with Wire(broker.port) as wire:
        for topic in ("damaged", "sound"):
            wire.create_topic(topic, cleanup_policy=COMPACT)
            put(wire, topic, 40)
    broker.stop()
    flip_a_bit(broker.data_dir / "damaged-0" / "00000000000000000000.log")
    again = start_broker(broker.data_dir, EAGER)
    event = again.wait_for_event("partition.uncleanable")
    assert (event["partition"], "checksum" in str(event["error"])) == ("damaged-0", True)
    again.wait_for_event("cleaning.finished", where=lambda event: event["partition"] == "sound-0")
    with Wire(again.port) as wire:
        assert len(fetch_all(wire, "sound")) < 40


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(data)


def test_compacted_topics_with_deletion_expire_too(start_broker: StartBroker) -> None:
    broker = start_broker(overrides=EAGER)
    with Wire(broker.port) as wire:
        # The records have timestamps of 2023.
        wire.create_topic("t", cleanup_policy="compact,delete", retention_ms="-1")
        put(wire, "t", 30)
        end_offset = newest_segment(broker)
        wait_until_clean(broker, end_offset)
        kept = [key for offset, key, _ in fetch_all(wire, "t") if offset < end_offset]
        assert len(kept) == len(set(kept)) == 3
        alter(wire, "t", "retention.ms", "1000")
        broker.wait_for_event("log.expired", where=lambda event: event["partition"] == "t-0")
        assert wire.fetch("t", 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def alter(wire: Wire, topic: str, key: str, value: str) -> None:
    """Set one config of a topic."""
    change = AlterableConfig(name=key, config_operation=ConfigOperation.SET, value=value)
    resource = AlterConfigsResource(
        resource_type=ResourceType.TOPIC, resource_name=topic, configs=[change]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    answer = wire.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request, IncrementalAlterConfigsResponse)
    assert [each.error_code for each in answer.responses] == [0]


def test_no_cleaner_and_no_file_of_one_outlives_the_broker(start_broker: StartBroker) -> None:
    slow = EAGER | {"log.cleaner.io.max.bytes.per.second": "10"}
    broker = start_broker(overrides=slow)
    with Wire(broker.port) as wire:
        wire.create_topic("t", cleanup_policy=COMPACT)
        put(wire, "t", 60)
        broker.wait_for_event("cleaning.started")
        put(wire, "t", 3)
    # During the cleaning, or after it if the broker is slower than its cleaner.
    assert broker.stop() == 0
    again = start_broker(broker.data_dir, slow | {"log.cleaner.enable": "false"})
    with Wire(again.port) as wire:
        values = {key: value for _, key, value in fetch_all(wire, "t")}
    assert values == {b"key-%d" % number: b"%d" % number for number in range(3)}
    assert not list((broker.data_dir / "t-0").glob("*.cleaned"))


def test_a_topic_that_is_deleted_while_it_is_cleaned_is_gone(start_broker: StartBroker) -> None:
    broker = start_broker(overrides=EAGER | {"log.cleaner.io.max.bytes.per.second": "10"})
    with Wire(broker.port) as wire:
        wire.create_topic("t", cleanup_policy=COMPACT)
        put(wire, "t", 60)
        broker.wait_for_event("cleaning.started")
        request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=60_000)
        answer = wire.ask(ApiKey.DELETE_TOPICS, 5, request, DeleteTopicsResponse)
        assert [each.error_code for each in answer.responses] == [0]
        broker.wait_for_event("cleaning.aborted")
        wire.create_topic("t", cleanup_policy=COMPACT)
        assert fetch_all(wire, "t") == []

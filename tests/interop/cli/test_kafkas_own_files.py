"""Kafka 3.9.1 and our offline tools read each other's files.

Needs java and Kafka's jars, like tests/interop/coordination.
"""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from logcheck.offset_index_check import PER_BATCH
from ottla.cli.logs.dump_files import dump_file
from ottla.cli.logs.item import FindingItem, Summary
from ottla.cli.logs.partition_result import PartitionResult
from ottla.cli.logs.partition_verification import VerifyOptions
from ottla.cli.logs.verify import verify_directories
from tests.conftest import StartBroker
from tests.integration.coordination.process import Coordinator, wait_until
from tests.interop.kafka_broker import START_TIMEOUT_S, KafkaBroker
from tests.interop.kafka_jars import kafka_jars

BROKERS = (1, 2, 3)
CLEANING_TIMEOUT_S = 60.0
RECORDS = 20_000
KEYS = 200
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SMALL_SEGMENTS = {"segment.bytes": "300000", "index.interval.bytes": "1000"}
EAGER_CLEANING = {
    "cleanup.policy": "compact",
    "segment.bytes": "100000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100",
}


@pytest.fixture
def jars() -> Path:
    found = kafka_jars()
    if found is None or shutil.which("java") is None:
        pytest.skip("needs java, and Kafka's jars (OTTLA_KAFKA_JARS or mvn)")
    return found


@pytest.fixture
def kafka(tmp_path: Path, jars: Path) -> Iterator[list[KafkaBroker]]:
    coordinator = Coordinator(tmp_path / "coordinator")
    brokers = [KafkaBroker(number, tmp_path, coordinator.address, jars) for number in BROKERS]
    yield brokers
    for broker in brokers:
        broker.kill()
    coordinator.kill()


def load(
    addresses: str, topic: str, codec: str, *, acks: str = "all", tombstones: bool = False
) -> None:
    producer = Producer(
        {
            "bootstrap.servers": addresses,
            "acks": acks,
            "compression.type": codec,
            "linger.ms": 2,
            "batch.size": 4_000,
            "enable.idempotence": acks == "all",
        }
    )
    for number in range(RECORDS):
        value = None if tombstones and number % 7 == 0 else b"value %d " % number * 3
        producer.produce(topic, value, key=b"key %d" % (number % KEYS))
        producer.poll(0)
    assert producer.flush(60) == 0


def commit_and_abort(addresses: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": addresses, "transactional.id": "t"})
    producer.init_transactions()
    for number in range(20):
        producer.begin_transaction()
        producer.produce(topic, b"in a transaction", key=b"key %d" % number)
        producer.flush(30)
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()


def was_cleaned(log_directory: Path, topic: str) -> bool:
    checkpoint = log_directory / "cleaner-offset-checkpoint"
    return checkpoint.exists() and topic in checkpoint.read_text()


def test_our_tools_find_kafkas_files_healthy(kafka: list[KafkaBroker], tmp_path: Path) -> None:
    wait_until(lambda: all(broker.has_started() for broker in kafka), START_TIMEOUT_S)
    addresses = ",".join(broker.address for broker in kafka)
    admin = AdminClient({"bootstrap.servers": addresses})
    topics = [
        NewTopic("plain", 2, 3, config=SMALL_SEGMENTS),
        NewTopic("compacted", 1, 3, config=EAGER_CLEANING),
    ]
    for created in admin.create_topics(topics).values():
        created.result(30)
    for codec in CODECS:
        load(addresses, "plain", codec)
        load(addresses, "compacted", codec, tombstones=True)
    commit_and_abort(addresses, "plain")
    # A follower that lags fetches many batches at once.
    kafka[-1].signal(signal.SIGSTOP)
    load(addresses, "plain", "none", acks="1")
    kafka[-1].signal(signal.SIGCONT)
    directories = [tmp_path / f"logs-{number}" for number in BROKERS]
    wait_until(
        lambda: all(was_cleaned(directory, "compacted") for directory in directories),
        CLEANING_TIMEOUT_S,
    )
    live = [
        result
        for directory in directories
        for result in verify_directories([directory], VerifyOptions(with_records=True))
    ]
    assert findings_of(live) == []
    for broker in kafka:
        broker.stop()
    stopped = [
        result
        for directory in directories
        for result in verify_directories([directory], VerifyOptions(with_records=True))
    ]
    assert findings_of(stopped) == []
    assert sum(result.record_count for result in stopped) > 3 * len(CODECS) * RECORDS
    # This version writes one entry per batch, on followers too (KAFKA-806); earlier ones did not.
    assert shapes(directories) == {PER_BATCH}


def findings_of(results: list[PartitionResult]) -> list[str]:
    return [str(finding) for result in results for finding in (*result.findings, *result.notes)]


def shapes(directories: list[Path]) -> set[str]:
    found = set()
    for directory in directories:
        for path in directory.glob("plain-*/*.index"):
            items = list(dump_file(path, with_records=False) or ())
            assert not any(isinstance(item, FindingItem) for item in items)
            found |= {item.shape for item in items if isinstance(item, Summary)}
    return found


def test_kafkas_dump_tool_finds_our_files_healthy(start_broker: StartBroker, jars: Path) -> None:
    broker = start_broker(overrides={"log.segment.bytes": "300000"})
    for codec in CODECS:
        load(broker.bootstrap, "plain", codec)
    assert broker.stop() == 0
    segments = sorted((broker.data_dir / "plain-0").glob("*.log"))
    assert len(segments) > len(CODECS)
    told = kafka_dump(jars, segments, "--deep-iteration")
    assert told.count("isvalid: true") > len(segments)
    assert told.count("| offset: ") == len(CODECS) * RECORDS
    for suffix in (".index", ".timeindex"):
        files = [segment.with_suffix(suffix) for segment in segments]
        checked = kafka_dump(jars, files, "--verify-index-only")
        assert "Mismatches" not in checked
        assert "Found" not in checked


def kafka_dump(jars: Path, files: list[Path], *options: str) -> str:
    names = ",".join(map(str, files))
    command = ["java", "-cp", f"{jars}/*", "kafka.tools.DumpLogSegments", *options]
    told = subprocess.run(
        [*command, "--files", names], capture_output=True, text=True, check=True, timeout=300
    )
    assert "isvalid: false" not in told.stdout
    assert "corrupt" not in told.stdout.lower()
    return told.stdout

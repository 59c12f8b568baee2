"""Our idempotent producer on a Kafka broker, and the files of that broker, read by our log."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient  # type: ignore[import-untyped]

import ottla
from kafkawire.ids import Offset, TopicPartition
from storage.config.log_config import LogConfig
from storage.log.log import Log
from storage.producers.producer_snapshot import decode_snapshot
from tests.integration.coordination.process import Coordinator, wait_until
from tests.interop.duplicates.lossy_proxy import LossyProxy
from tests.interop.duplicates.once import check_once, progress, read_values
from tests.interop.duplicates.writers import OttlaWriter
from tests.interop.kafka_broker import START_TIMEOUT_S, KafkaBroker, kafka_jars_or_skip
from tests.unit.storage.logs import NOW_MS

TOPIC = "once"
LOSSES = 30

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def proxy() -> Iterator[LossyProxy]:
    made = LossyProxy(seed=2, loss_share=0.15)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    server = Coordinator(tmp_path / "coordinator")
    yield server
    server.kill()


@pytest.fixture
def kafka(tmp_path: Path, coordinator: Coordinator, proxy: LossyProxy) -> Iterator[KafkaBroker]:
    jars = kafka_jars_or_skip()
    settings = {
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}",
        "log.segment.bytes": "65536",
    }
    broker = KafkaBroker(1, tmp_path, coordinator.address, jars, settings)
    proxy.target_port = broker.port
    yield broker
    broker.kill()


async def create_topic(address: str) -> None:
    async with ottla.Admin(address) as admin:
        await admin.create_topics([ottla.NewTopic(TOPIC, 3, 1)])


def known_producers(directory: Path, *, was_clean: bool) -> dict[int, tuple[int, int]]:
    """Return epoch and next sequence of each producer, as our log reads them in Kafka's files."""
    log = Log.open(
        directory,
        LogConfig(),
        topic_partition=TopicPartition(TOPIC, 0),
        recovery_point=Offset(0),
        log_start_offset=Offset(0),
        was_clean=was_clean,
        now_ms=NOW_MS,
    )
    return {each.producer_id: (each.epoch, each.next_sequence) for each in log.producers}


def wait_until_gone(coordinator: Coordinator) -> None:
    """Wait until the broker's session has ended, since it cannot register again before."""
    client = KazooClient(coordinator.address)
    client.start()
    wait_until(lambda: client.get_children("/brokers/ids") == [])
    client.stop()
    client.close()


def test_every_record_is_written_once_to_kafka(
    coordinator: Coordinator, kafka: KafkaBroker, proxy: LossyProxy
) -> None:
    wait_until(kafka.has_started, START_TIMEOUT_S)
    address = f"127.0.0.1:{proxy.port}"
    asyncio.run(create_topic(address))
    writer = OttlaWriter(address, TOPIC)
    writer.start()
    try:
        progress([writer], [proxy], records=1_000, losses=LOSSES)
        kafka.kill()
        wait_until_gone(coordinator)
        kafka.start()
        wait_until(kafka.has_started, START_TIMEOUT_S)
        progress([writer], [proxy], records=1_000, losses=LOSSES)
    finally:
        writer.stop()
    writer.check()
    check_once(asyncio.run(read_values(address, TOPIC)), [writer])
    kafka.stop()

    directory = kafka.log_directory / f"{TOPIC}-0"
    snapshots = sorted(directory.glob("*.snapshot"))
    assert len(snapshots) > 1
    [(producer_id, entry)] = [
        (each.producer_id, each) for each in decode_snapshot(snapshots[-1].read_bytes())
    ]
    expected = {producer_id: (entry.epoch, entry.next_sequence)}
    assert known_producers(directory, was_clean=True) == expected
    for path in snapshots:
        path.unlink(missing_ok=True)
    # From the batches alone.
    assert known_producers(directory, was_clean=False) == expected

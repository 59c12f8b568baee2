"""`python -m tests.interop.storage.golden_log_dir` creates the golden log dir with a Kafka broker.

It has a topic of two partitions in several segments, written by plain, idempotent and
transactional producers in every codec, with its first records deleted. The broker was shut down
cleanly.
"""

import base64
import json
import tempfile
from pathlib import Path

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.integration.coordination.process import Coordinator, wait_until
from tests.interop.kafka_broker import KafkaBroker, kafka_jars_or_skip

GOLDEN = Path(__file__).parents[2] / "unit" / "storage" / "golden_log_dir.json"
TOPIC = "orders"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CONFIG = {"segment.bytes": "4000", "index.interval.bytes": "500", "retention.ms": "-1"}
TRANSACTIONS = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
}
TIMEOUT_S = 60.0
DELETED_BELOW = 7


def fill(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    topic = NewTopic(TOPIC, num_partitions=2, replication_factor=1, config=CONFIG)
    admin.create_topics([topic])[TOPIC].result(TIMEOUT_S)
    for round_number in range(4):
        for codec in CODECS:
            produce(address, codec, round_number)
    commit_and_abort(address)
    place = TopicPartition(TOPIC, 0, DELETED_BELOW)
    admin.delete_records([place])[place].result(TIMEOUT_S)


def produce(address: str, codec: str, round_number: int) -> None:
    settings = {
        "bootstrap.servers": address,
        "compression.type": codec,
        "enable.idempotence": round_number % 2 == 1,
    }
    producer = Producer(settings)
    for number in range(8):
        value = f"{codec} {round_number} {number} ".encode() * 8
        producer.produce(TOPIC, value, key=b"%d" % number, partition=number % 2)
    assert producer.flush(TIMEOUT_S) == 0


def commit_and_abort(address: str) -> None:
    producer = Producer({"bootstrap.servers": address, "transactional.id": "golden"})
    producer.init_transactions()
    for commits in (True, False):
        producer.begin_transaction()
        producer.produce(TOPIC, b"commit" if commits else b"abort", partition=0)
        producer.flush(TIMEOUT_S)
        producer.commit_transaction() if commits else producer.abort_transaction()


def files(directory: Path) -> dict[str, str]:
    """Return all files by their names in the log dir."""
    return {
        str(path.relative_to(directory)): base64.b64encode(path.read_bytes()).decode()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        coordinator = Coordinator(Path(folder) / "coordinator")
        kafka = KafkaBroker(
            1, Path(folder), coordinator.address, kafka_jars_or_skip(), TRANSACTIONS
        )
        try:
            wait_until(kafka.has_started, TIMEOUT_S)
            fill(kafka.address)
            kafka.stop()
            golden = files(kafka.log_directory)
        finally:
            kafka.kill()
            coordinator.kill()
    GOLDEN.write_text(json.dumps(golden, indent=1) + "\n")

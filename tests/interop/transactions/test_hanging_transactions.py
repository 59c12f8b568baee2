"""Kafka's command finds and aborts a transaction that nobody ends on our broker."""

from kafkawire.errors import ErrorCode
from tests.conftest import StartBroker
from tests.integration.broker.wire import Wire
from tests.interop.kafka_broker import kafka_jars_or_skip
from tests.interop.kafka_jars import run_java
from tests.unit.storage.produced_batches import produced

COMMAND = "org.apache.kafka.tools.TransactionsCommand"
TOPIC, PRODUCER = "t", 7


def test_kafkas_command_aborts_a_hanging_transaction(start_broker: StartBroker) -> None:
    kafka_jars_or_skip()
    # Without verification, a late batch opens a transaction that no coordinator knows.
    broker = start_broker(
        overrides={
            "transaction.partition.verification.enable": "false",
            "offsets.topic.replication.factor": "1",
        }
    )
    with Wire(broker.port) as wire:
        wire.create_topic(TOPIC)
        batch = bytes(produced(PRODUCER, 0, 2, is_transactional=True))
        assert wire.produce(TOPIC, batch, transactional_id="id").error_code == ErrorCode.NONE
        assert wire.fetch(TOPIC, 0, isolation_level=1).last_stable_offset == 0
        found = command(broker.bootstrap, "find-hanging", "--topic", TOPIC).split("\n")
        assert [TOPIC, "0", str(PRODUCER)] in [line.split()[:3] for line in found]
        place = ("--topic", TOPIC, "--partition", "0", "--start-offset", "0")
        command(broker.bootstrap, "abort", *place)
        data = wire.fetch(TOPIC, 0, isolation_level=1)
        assert (data.last_stable_offset, data.high_watermark) == (3, 3)
        assert data.aborted_transactions is not None
        assert [each.producer_id for each in data.aborted_transactions] == [PRODUCER]
        again = command(broker.bootstrap, "find-hanging", "--topic", TOPIC).split("\n")
        assert TOPIC not in [line.split()[0] for line in again if line.split()]


def command(bootstrap: str, *arguments: str) -> str:
    return run_java(COMMAND, "--bootstrap-server", bootstrap, *arguments)

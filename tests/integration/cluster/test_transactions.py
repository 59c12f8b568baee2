"""Transactions whose coordinator is killed, with librdkafka as producer and as reader."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import confluent_kafka

import ottla
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.harness.cluster import ClusterProcesses
from tests.integration.broker.wire import Wire
from tests.integration.coordination.process import wait_until
from tests.interop.clients.committed_records import committed_values

TOPIC = "t"
PARTITIONS = 3
TRANSACTIONAL_ID = "one"
OVERRIDES = {
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    # Otherwise a decision that only the coordinator has would be lost with it.
    "min.insync.replicas": "2",
}
KILLS = 3
TRANSACTIONS_PER_ROUND = 8
PATIENCE_S = 120.0
CALL_S = 60.0


class Writer(threading.Thread):
    """Writes the numbers 0, 1, 2, ... to each partition, in a transaction each."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.committed: list[str] = []
        self.failure: str | None = None
        self._is_stopped = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": TRANSACTIONAL_ID,
                "transaction.timeout.ms": 60_000,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        try:
            self._repeat(lambda: self._producer.init_transactions(CALL_S))
            number = 0
            while not self._is_stopped.is_set():
                self._write(str(number), is_abort=number % 4 == 3)
                number += 1
        except BaseException as error:
            self.failure = repr(error)
            raise

    def wait_for_more(self, count: int) -> None:
        """Wait until `count` further transactions are committed."""
        wanted = len(self.committed) + count
        wait_until(lambda: len(self.committed) >= wanted or self.failure is not None, PATIENCE_S)
        assert self.failure is None

    def stop(self) -> None:
        self._is_stopped.set()
        self.join(PATIENCE_S)
        assert not self.is_alive(), "the writer hangs"
        assert self.failure is None

    def _write(self, value: str, *, is_abort: bool) -> None:
        """Commit one transaction, after any number of aborted attempts."""
        while True:
            self._producer.begin_transaction()
            try:
                for partition in range(PARTITIONS):
                    self._producer.produce(TOPIC, value, partition=partition)
                if is_abort:
                    self._producer.flush(CALL_S)
                    self._repeat(lambda: self._producer.abort_transaction(CALL_S))
                    is_abort = False
                    continue
                self._repeat(lambda: self._producer.commit_transaction(CALL_S))
            except confluent_kafka.KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                self._repeat(lambda: self._producer.abort_transaction(CALL_S))
                continue
            self.committed.append(value)
            return

    def _repeat(self, call: Callable[[], object]) -> None:
        """Repeat a call after errors that pass."""
        while True:
            try:
                call()
            except confluent_kafka.KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return


def coordinator_of(cluster: ClusterProcesses) -> int:
    """Return the coordinator's id, -1 while there is none."""
    for number in cluster.running:
        with Wire(cluster.ports[number]) as wire:
            request = FindCoordinatorRequest(key_type=1, coordinator_keys=[TRANSACTIONAL_ID])
            found = wire.ask(ApiKey.FIND_COORDINATOR, 4, request, FindCoordinatorResponse)
            if found.coordinators[0].error_code == ErrorCode.NONE:
                node_id = found.coordinators[0].node_id
                if node_id in cluster.running:
                    return node_id
    return -1


async def create_topic(bootstrap: str) -> None:
    async with ottla.Admin(bootstrap) as admin:
        await admin.create_topics([ottla.NewTopic(TOPIC, PARTITIONS, 3)])


def test_each_committed_record_is_read_once_though_coordinators_are_killed(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, overrides=OVERRIDES) as cluster:
        asyncio.run(create_topic(cluster.bootstrap))
        writer = Writer(cluster.bootstrap)
        writer.start()
        for _ in range(KILLS):
            writer.wait_for_more(TRANSACTIONS_PER_ROUND)
            killed = coordinator_of(cluster)
            assert killed in cluster.running
            cluster.kill(killed)
            wait_until(lambda: coordinator_of(cluster) > 0, PATIENCE_S)
            cluster.start_brokers(killed)
        writer.wait_for_more(TRANSACTIONS_PER_ROUND)
        writer.stop()
        values = committed_values(cluster.bootstrap, TOPIC, PARTITIONS)
        assert values == [writer.committed] * PARTITIONS

"""Reads, writes and commits offsets in transactions while brokers are killed, with librdkafka.

Each input is in the output exactly once. The brokers lead the partitions of the data, of the
offsets and of the transactions.
"""

import asyncio
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest

import ottla
from tests.harness.cluster import ClusterProcesses
from tests.integration.coordination.process import wait_until
from tests.interop.clients.committed_records import committed_values

SOURCE, TARGET, ID = "source", "target", "copier"
COUNT = int(os.environ.get("OTTLA_COPIED", "300"))
KILLS = int(os.environ.get("OTTLA_KILLS", "4"))
RECORDS = 5
CALL_S = 15.0
# A call may not return even after its own timeout when the broker that coordinated the group is
# dead (issue 5511 of librdkafka). A timeout that a broker causes arrives in time and is repeated.
STUCK_S = 2 * CALL_S
PATIENCE_S = 240.0
OVERRIDES = {
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    # Otherwise a record that only the leader has would be lost with it.
    "min.insync.replicas": "2",
}


class StuckClientError(Exception):
    """A call of librdkafka does not return, though its own timeout is over."""


class Copier(threading.Thread):
    """Copies all records, some more than once in transactions that are aborted.

    A stuck producer is replaced, as an operator restarts an application that hangs; the new one
    fences the old one.
    """

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.copied = 0
        self.failure: str | None = None
        self._dice = random.Random()
        self._replaced: list[confluent_kafka.Producer] = []
        self._shared = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._producer = self._new_producer()
        self._source = confluent_kafka.TopicPartition(SOURCE, 0, 0)

    def run(self) -> None:
        consumer = confluent_kafka.Consumer(
            {
                **self._shared,
                "group.id": "copiers",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        try:
            consumer.assign([self._source])
            self._repeat(lambda: self._producer.init_transactions(CALL_S))
            while self.copied < COUNT:
                messages = [each for each in consumer.consume(RECORDS, 2) if not each.error()]
                if messages and not self._copy(consumer, messages):
                    self._rewind(consumer)
        except BaseException as error:
            self.failure = repr(error)
            raise
        finally:
            consumer.close()

    def _copy(
        self, consumer: confluent_kafka.Consumer, messages: list[confluent_kafka.Message]
    ) -> bool:
        """Copy records in one transaction; return whether it was committed."""
        last = messages[-1].offset()
        assert last is not None
        try:
            self._producer.begin_transaction()
            for each in messages:
                self._producer.produce(TARGET, each.value(), partition=0)
            offsets = [confluent_kafka.TopicPartition(SOURCE, 0, last + 1)]
            group = consumer.consumer_group_metadata()
            self._repeat(lambda: self._producer.send_offsets_to_transaction(offsets, group, CALL_S))
            if self._dice.random() < 0.2:
                self._producer.flush(CALL_S)
                self._repeat(lambda: self._producer.abort_transaction(CALL_S))
                return False
            self._repeat(lambda: self._producer.commit_transaction(CALL_S))
        except confluent_kafka.KafkaException as error:
            if error.args[0].txn_requires_abort():
                self._repeat(lambda: self._producer.abort_transaction(CALL_S))
            elif error.args[0].fatal():
                self._replace_producer()
            else:
                raise
            return False
        except StuckClientError:
            self._replace_producer()
            return False
        self.copied = last + 1
        return True

    def _rewind(self, consumer: confluent_kafka.Consumer) -> None:
        """Continue at the committed offset."""
        found: list[confluent_kafka.TopicPartition] = []

        def is_found() -> bool:
            try:
                found[:] = consumer.committed([self._source], CALL_S)
            except confluent_kafka.KafkaException:
                # The coordinator of the group is dead, or loads it.
                return False
            return found[0].error is None

        wait_until(is_found, PATIENCE_S)
        self.copied = max(found[0].offset, 0)
        consumer.seek(confluent_kafka.TopicPartition(SOURCE, 0, self.copied))

    def _new_producer(self) -> confluent_kafka.Producer:
        return confluent_kafka.Producer(
            {**self._shared, "transactional.id": ID, "transaction.timeout.ms": 60_000}
        )

    def _replace_producer(self) -> None:
        # The destructor of a stuck producer would wait as well.
        self._replaced.append(self._producer)
        self._producer = self._new_producer()
        self._repeat(lambda: self._producer.init_transactions(CALL_S))

    def _repeat(self, call: Callable[[], object]) -> None:
        """Repeat a call after errors that pass."""
        while True:
            attempt = Attempt(call)
            attempt.start()
            attempt.join(STUCK_S)
            if attempt.is_alive():
                raise StuckClientError
            if attempt.error is None:
                return
            if not is_retriable(attempt.error):
                raise attempt.error


class Attempt(threading.Thread):
    """Calls librdkafka once, in a thread that may stay behind."""

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.error: BaseException | None = None
        self._call = call

    def run(self) -> None:
        try:
            self._call()
        except BaseException as error:
            self.error = error


def is_retriable(error: BaseException) -> bool:
    return isinstance(error, confluent_kafka.KafkaException) and error.args[0].retriable()


async def create_topics(bootstrap: str) -> None:
    async with ottla.Admin(bootstrap) as admin:
        await admin.create_topics([ottla.NewTopic(name, 1, 3) for name in (SOURCE, TARGET)])


@pytest.mark.soak
def test_each_record_is_copied_once_though_brokers_are_killed(tmp_path: Path) -> None:
    dice = random.Random()
    with ClusterProcesses(tmp_path, overrides=OVERRIDES) as cluster:
        asyncio.run(create_topics(cluster.bootstrap))
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})
        for number in range(COUNT):
            producer.produce(SOURCE, str(number), partition=0)
        assert producer.flush(PATIENCE_S) == 0
        copier = Copier(cluster.bootstrap)
        copier.start()
        for kill in range(1, KILLS + 1):
            wanted = kill * COUNT // (KILLS + 1)
            wait_until(
                lambda: copier.copied >= wanted or copier.failure is not None,  # noqa: B023
                PATIENCE_S,
            )
            assert copier.failure is None
            number = dice.choice(cluster.numbers)
            cluster.kill(number)
            cluster.start_brokers(number)
        copier.join(PATIENCE_S)
        assert not copier.is_alive(), "the copier hangs"
        assert copier.failure is None
        values = committed_values(cluster.bootstrap, TARGET, 1)
        assert values == [[str(number) for number in range(COUNT)]]

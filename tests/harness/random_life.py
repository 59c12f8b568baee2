"""Threads that give partitions random lives: data, transactions, deletions, moves. Edge: clients.

They run on brokers that die at any time, of ours or Kafka's. An operation that fails is given up:
the log files are the only result, and they must be sound after any mixture of operations.
"""

import asyncio
import contextlib
import random
from collections.abc import Mapping
from typing import Final

import confluent_kafka

import ottla
from kafkawire.ids import TopicPartition
from logcheck.finding import Damage, Finding, Severity
from logcheck.rule import Rules, parse_rules
from ottla.client.admin_model import NewTopic
from ottla.client.errors import OttlaError
from tests.harness.workload import Worker

Topics = Mapping[str, Mapping[str, str]]
"""The configs of each topic."""
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
POLICIES: Final = ("compact", "compact", "compact,delete", "delete")
WAIT_S: Final = 2.0
"""The limit of one request, which is short because brokers die."""
CREATION_TIMEOUT_MS: Final = 180_000
LONGEST_ABSENCE_MS: Final = 60_000
RULES: Final = ("cleanup.policy", "delete.retention.ms")
# librdkafka waits longer by default before it connects to a broker again.
IMPATIENT: Final = {
    "linger.ms": 0,
    "message.timeout.ms": 5_000,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 200,
    "topic.metadata.refresh.interval.ms": 1_000,
    "log_level": 0,
}


def random_topics(dice: random.Random, count: int) -> dict[str, dict[str, str]]:
    """Return topics whose segments are small, and are cleaned and deleted soon."""
    topics = {}
    for number in range(count):
        policy = POLICIES[number % len(POLICIES)]
        topics[f"life-{number}"] = {
            "cleanup.policy": policy,
            "segment.bytes": str(dice.choice([4_000, 8_000, 20_000])),
            "segment.ms": str(dice.choice([1_000, 5_000, 60_000])),
            "index.interval.bytes": str(dice.choice([0, 200, 4_096])),
            "delete.retention.ms": str(dice.choice([0, 1_000, 60_000, 86_400_000])),
            "min.cleanable.dirty.ratio": "0.01",
            "file.delete.delay.ms": str(dice.choice([100, 2_000, 60_000])),
            "retention.ms": str(dice.choice([-1, 5_000, 20_000]) if "delete" in policy else -1),
            "retention.bytes": str(dice.choice([-1, 30_000])),
            "message.timestamp.type": dice.choice(["CreateTime", "CreateTime", "LogAppendTime"]),
            "compression.type": dice.choice(["producer", "producer", "gzip", "zstd"]),
            "preallocate": dice.choice(["false", "false", "true"]),
        }
    return topics


def rules_of(topics: Topics, now_ms: int) -> Rules:
    """Return the rules that an operator gives to an audit of the topics."""
    pairs = [f"{name}:{key}={configs[key]}" for name, configs in topics.items() for key in RULES]
    return parse_rules([f"now.ms={now_ms}", *pairs])


def is_explained(finding: Finding, topics: Topics) -> bool:
    """Whether a tombstone that came and went while a replica was away explains a warning."""
    is_warning = finding.severity is Severity.WARNING
    is_loss = finding.damage in (Damage.LOST_KEY, Damage.STALE_VALUE)
    retention_ms = topics.get(finding.topic, {}).get("delete.retention.ms", "0")
    return is_warning and is_loss and int(retention_ms) <= LONGEST_ABSENCE_MS


async def create_topics(
    bootstrap: str, topics: Topics, partitions: int, replication_factor: int
) -> None:
    """Create the topics."""
    async with ottla.Admin(bootstrap, request_timeout_ms=CREATION_TIMEOUT_MS) as admin:
        for name, configs in topics.items():
            await admin.create_topics([NewTopic(name, partitions, replication_factor, configs)])


class RandomWriter(Worker):
    """Producers without and with idempotence, and transactional ones, in one thread."""

    def __init__(
        self,
        bootstrap: str,
        topics: Topics,
        partitions: int,
        seed: int,
        *,
        turn_s: float,
        has_transactions: bool = True,
    ) -> None:
        """Write to the partitions of the topics, and rest for `turn_s` after each operation."""
        super().__init__(f"writer-{seed}")
        self._bootstrap = bootstrap
        self._partitions = [(topic, number) for topic in topics for number in range(partitions)]
        self._topics = topics
        self._dice = random.Random(seed)
        self._turn_s = turn_s
        self._transaction_share = 0.4 if has_transactions else 0.0
        self._name = f"writer-{seed}"
        self._open: dict[str, confluent_kafka.Producer] = {}
        """Transactional producers, by transactional id."""
        self.count = 0
        """Acknowledged records."""
        self.committed_count = self.aborted_count = 0

    def work(self) -> None:
        dice = self._dice
        others = [
            self._producer({"enable.idempotence": is_idempotent, "compression.type": codec})
            for is_idempotent in (False, True)
            for codec in dice.sample(CODECS, 2)
        ]
        while not self.is_stopping:
            if dice.random() < self._transaction_share:
                self._transact(f"{self._name}-{dice.randrange(4)}")
            else:
                self._send(dice.choice(others))
            self.pause(self._turn_s)
        for producer in (*others, *self._open.values()):
            producer.purge()

    def _producer(self, settings: Mapping[str, object]) -> confluent_kafka.Producer:
        return confluent_kafka.Producer(
            {"bootstrap.servers": self._bootstrap, **IMPATIENT, **settings}
        )

    def _send(self, producer: confluent_kafka.Producer) -> None:
        """Send batches of random records to a partition."""
        dice = self._dice
        topic, partition = dice.choice(self._partitions)
        is_compacted = "compact" in self._topics[topic]["cleanup.policy"]
        for _ in range(dice.choice([1, 1, 3])):
            for _ in range(dice.choice([1, 2, 10, 30])):
                # Few keys are frequent, and many are rare.
                key = b"%d" % int(dice.paretovariate(0.5) % 100)
                producer.produce(
                    topic,
                    key=key if is_compacted or dice.random() < 0.8 else None,
                    value=None if dice.random() < 0.2 else dice.randbytes(dice.choice([0, 9, 200])),
                    partition=partition,
                    on_delivery=self._note,
                )
            producer.flush(WAIT_S)

    def _note(self, error: object, _message: object) -> None:
        self.count += error is None

    def _transact(self, name: str) -> None:
        """Begin or continue the transaction of a producer, and end it now or later."""
        dice = self._dice
        try:
            producer = self._open.get(name)
            if producer is None:
                codec = dice.choice(CODECS)
                producer = self._producer({"transactional.id": name, "compression.type": codec})
                producer.init_transactions(WAIT_S)
                producer.begin_transaction()
                self._open[name] = producer
            for _ in range(dice.choice([1, 2, 4])):
                self._send(producer)
            if dice.random() < 0.4:
                return
            if dice.random() < 0.6:
                producer.commit_transaction(WAIT_S)
                self.committed_count += 1
            else:
                producer.abort_transaction(WAIT_S)
                self.aborted_count += 1
            producer.begin_transaction()
        except (confluent_kafka.KafkaException, BufferError):
            # The next producer of this name ends the transaction.
            self._open.pop(name, None)


class Operator(Worker):
    """Deletes records, and moves partitions between brokers."""

    def __init__(
        self,
        bootstrap: str,
        topics: Topics,
        partitions: int,
        brokers: list[int],
        seed: int,
        *,
        turn_s: float,
    ) -> None:
        super().__init__(f"operator-{seed}")
        self._bootstrap = bootstrap
        self._partitions = [
            TopicPartition(topic, each) for topic in topics for each in range(partitions)
        ]
        self._topics = topics
        self._brokers = brokers
        self._dice = random.Random(seed)
        self._turn_s = turn_s
        self.deletion_count = self.move_count = 0

    def work(self) -> None:
        asyncio.run(self._operate())

    async def _operate(self) -> None:
        async with ottla.Admin(self._bootstrap, request_timeout_ms=int(WAIT_S * 1000)) as admin:
            while not self.is_stopping:
                with contextlib.suppress(OttlaError, TimeoutError):
                    async with asyncio.timeout(WAIT_S):
                        await self._operation(admin)
                # The rate of the operations; there is no condition to wait for.
                await asyncio.sleep(self._turn_s)

    async def _operation(self, admin: ottla.Admin) -> None:
        dice = self._dice
        where = dice.choice(self._partitions)
        if "delete" in self._topics[where.topic]["cleanup.policy"]:
            found = await admin.list_offsets({where: -1})
            start = (await admin.list_offsets({where: -2}))[where].offset
            before = dice.randint(start, found[where].offset)
            await admin.delete_records({where: before})
            self.deletion_count += 1
        elif len(self._brokers) > 1:
            count = dice.randint(1, min(2, len(self._brokers)))
            await admin.alter_reassignments({where: dice.sample(self._brokers, count)})
            self.move_count += 1

"""Transactions per second, their latency and their cost, beside Kafka with the same client (edge).

librdkafka writes transactions of 100 records over 1 and 10 partitions, one after the other. The
latency is the time from the beginning of a transaction to the response to its commit. The second
part compares producers that commit every 100 ms with producers without transactions: one, which
sends nothing while it waits for its commit, and several, which share the broker.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from benchmarks.loads.broker import broker_process, create_topic
from benchmarks.loads.kafka_server import jars, kafka_process
from benchmarks.loads.process import ServerProcess
from benchmarks.loads.result import Figure, alternate, percentile

PARTITION_COUNTS: Final = (1, 10)
RECORDS: Final = 100
VALUE: Final = b"x" * 100
WARM_UP: Final = 50
TRANSACTIONS: Final = 200
ROUNDS: Final = 5
COMMIT_INTERVAL_S: Final = 0.1
STREAM_PRODUCERS: Final = (1, 4)
STREAM_RECORDS: Final = 400_000
"""Records of all producers together."""
STREAM_PARTITIONS: Final = 6
STREAM_WARM_UP: Final = 10_000
STREAM_LINGER_MS: Final = 5
CALL_TIMEOUT_S: Final = 120.0
POLL_S: Final = 0.01
RECORDS_PER_LOOK: Final = 32
"""Records between two looks at the clock."""
RATE_GOAL: Final = 1.5
LATENCY_GOAL: Final = 0.7
COST_GOAL: Final = 0.95
SETTINGS: Final = (
    "transaction.state.log.num.partitions=4",
    "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1",
)

_numbers = count()


def measure(directory: Path) -> Iterator[Figure]:
    """Yield rates and latencies beside Kafka's, if its jars are there, and the cost of commits."""
    with ExitStack() as stack:
        ours = stack.enter_context(broker_process(directory, overrides=SETTINGS))
        folder, theirs = jars(), None
        if folder is not None:
            kafka = kafka_process(directory / "kafka", folder, overrides=SETTINGS)
            theirs = stack.enter_context(kafka)
        for partition_count in PARTITION_COUNTS:
            yield from _transactions(ours, theirs, partition_count)
        for producer_count in STREAM_PRODUCERS:
            yield _cost("ours", ours, producer_count)
            if theirs is not None:
                yield _cost("Kafka 3.9", theirs, producer_count)


def _transactions(
    ours: ServerProcess, theirs: ServerProcess | None, partition_count: int
) -> Iterator[Figure]:
    latencies: dict[ServerProcess, list[float]] = {}

    def rate(server: ServerProcess) -> float:
        found = latencies.setdefault(server, [])
        return transact(server, partition_count, found)

    if theirs is None:
        value, reference = percentile([rate(ours) for _ in range(ROUNDS)], 0.5), None
    else:
        paired = alternate(partial(rate, ours), partial(rate, theirs), rounds=ROUNDS)
        value, reference = paired.ours, paired.reference
    note = f"{RECORDS} records of {len(VALUE)} B over {partition_count} partitions, librdkafka"
    yield Figure(
        name="transactions",
        unit="1/s",
        value=value,
        reference_name="Kafka 3.9",
        reference=reference,
        better="higher",
        goal=RATE_GOAL if reference else None,
        note=note,
    )
    for share in (0.5, 0.99):
        yield Figure(
            name=f"latency of transactions, p{share * 100:.0f}",
            unit="ms",
            value=percentile(latencies[ours], share),
            reference_name="Kafka 3.9",
            reference=percentile(latencies[theirs], share) if theirs else None,
            better="lower",
            goal=LATENCY_GOAL if theirs and share > 0.5 else None,
            note=note,
        )


def _cost(name: str, server: ServerProcess, producer_count: int) -> Figure:
    paired = alternate(
        partial(stream, server, producer_count, is_transactional=True),
        partial(stream, server, producer_count, is_transactional=False),
        rounds=ROUNDS,
    )
    return Figure(
        name=(
            f"produce with a commit every {COMMIT_INTERVAL_S * 1000:.0f} ms, "
            f"{producer_count} producers, {name}"
        ),
        unit="records/s",
        value=paired.ours,
        reference_name="without transactions",
        reference=paired.reference,
        better="higher",
        goal=COST_GOAL if name == "ours" else None,
        note=f"{len(VALUE)} B, acks=all, {STREAM_PARTITIONS} partitions, librdkafka",
    )


def transact(server: ServerProcess, partition_count: int, latencies_ms: list[float]) -> float:
    """Write transactions to a new topic; return their rate, and add their latencies."""
    topic = _new_topic(server, partition_count)
    producer = _producer(server, topic, 0)
    producer.init_transactions(CALL_TIMEOUT_S)
    found: list[float] = []
    for _ in range(WARM_UP + TRANSACTIONS):
        began_s = time.perf_counter()
        producer.begin_transaction()
        for number in range(RECORDS):
            producer.produce(topic, VALUE, partition=number % partition_count)
        producer.commit_transaction(CALL_TIMEOUT_S)
        found.append(time.perf_counter() - began_s)
    measured = found[WARM_UP:]
    latencies_ms += [each * 1000 for each in measured]
    return len(measured) / sum(measured)


def stream(server: ServerProcess, producer_count: int, *, is_transactional: bool) -> float:
    """Write many records to a new topic; return the rate of all producers together."""
    topic = _new_topic(server, STREAM_PARTITIONS)
    ids = [f"{topic}-{number}" if is_transactional else None for number in range(producer_count)]
    streams = [Stream(topic, _producer(server, each, STREAM_LINGER_MS), each) for each in ids]
    with ThreadPoolExecutor(producer_count) as pool:
        # This connects the clients to the leaders, and adds the partitions of first transactions.
        list(pool.map(Stream.warm_up, streams))
        began_s = time.perf_counter()
        list(pool.map(partial(Stream.run, count=STREAM_RECORDS // producer_count), streams))
        return STREAM_RECORDS / (time.perf_counter() - began_s)


class Stream:
    """One producer of librdkafka, with transactions if it has a transactional id."""

    def __init__(self, topic: str, producer: Producer, transactional_id: str | None) -> None:
        self._topic = topic
        self._producer = producer
        self._is_transactional = transactional_id is not None

    def warm_up(self) -> None:
        """Begin, and send some records."""
        if self._is_transactional:
            self._producer.init_transactions(CALL_TIMEOUT_S)
            self._producer.begin_transaction()
        for number in range(STREAM_WARM_UP):
            self._send(number)
        self._producer.flush(CALL_TIMEOUT_S)

    def run(self, count: int) -> None:
        """Send `count` records, and wait until they are written, or committed."""
        committed_s = time.perf_counter()
        for number in range(count):
            self._send(number)
            is_look_due = number % RECORDS_PER_LOOK == 0
            if is_look_due and time.perf_counter() - committed_s >= COMMIT_INTERVAL_S:
                if self._is_transactional:
                    self._producer.commit_transaction(CALL_TIMEOUT_S)
                    self._producer.begin_transaction()
                committed_s = time.perf_counter()
        if self._is_transactional:
            self._producer.commit_transaction(CALL_TIMEOUT_S)
        elif self._producer.flush(CALL_TIMEOUT_S):
            raise RuntimeError("records were left unsent")

    def _send(self, number: int) -> None:
        while True:
            try:
                partition = number % STREAM_PARTITIONS
                self._producer.produce(self._topic, VALUE, partition=partition)
                return
            except BufferError:
                self._producer.poll(POLL_S)


def _new_topic(server: ServerProcess, partition_count: int) -> str:
    topic = f"transactions-{next(_numbers)}"
    create_topic(server.port, topic, partition_count)
    return topic


def _producer(server: ServerProcess, transactional_id: str | None, linger_ms: int) -> Producer:
    settings: dict[str, str | int | bool] = {
        "bootstrap.servers": server.address,
        "linger.ms": linger_ms,
        "enable.idempotence": True,
        "queue.buffering.max.messages": 400_000,
        "log_level": 0,
    }
    if transactional_id is not None:
        settings["transactional.id"] = transactional_id
    return Producer(settings)

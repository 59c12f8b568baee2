"""Consumers of 1,000 partitions in which nothing happens, beside aiokafka and librdkafka.

`python -m benchmarks idle`. Each consumer runs in a process of its own on one core, against our
broker on another, and both are observed from outside for some seconds. A consumer with fetch
sessions (KIP-227) names its partitions once; others name all of them in each request. Composition;
`python -m benchmarks.idle_consumers CLIENT ADDRESS TOPIC` is one consumer, which never ends.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final

import aiokafka
import confluent_kafka

import ottla
from benchmarks.loads.broker import broker_process, create_topic
from benchmarks.loads.process import GENERATOR_CORE, ServerProcess, cpu_s, end, pin
from benchmarks.loads.result import Figure

TOPIC: Final = "idle"
PARTITIONS: Final = 1_000
ROUNDS: Final = 3
SETTLE_S: Final = 4.0
"""Time to connect, find all ends, and send the first requests."""
OBSERVED_S: Final = 5.0
STOP_TIMEOUT_S: Final = 10.0
POLL_S: Final = 1.0
MAX_RECORDS: Final = 500


async def ottla_consumer(address: str, topic: str) -> None:
    """Wait for records with our client."""
    async with ottla.Consumer(address, auto_offset_reset="latest") as consumer:
        await consumer.assign_topics(topic)
        while True:
            await consumer.fetch_batch(MAX_RECORDS)


async def aiokafka_consumer(address: str, topic: str) -> None:
    """Wait for records with aiokafka."""
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=address, enable_auto_commit=False)
    async with consumer:
        consumer.assign([aiokafka.TopicPartition(topic, number) for number in range(PARTITIONS)])
        while True:
            await consumer.getmany(timeout_ms=int(POLL_S * 1000))


async def librdkafka_consumer(address: str, topic: str) -> None:
    """Wait for records with librdkafka."""
    settings = {"bootstrap.servers": address, "group.id": "idle", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(settings)
    end_offset = confluent_kafka.OFFSET_END
    consumer.assign(
        [confluent_kafka.TopicPartition(topic, number, end_offset) for number in range(PARTITIONS)]
    )
    while True:
        consumer.consume(MAX_RECORDS, POLL_S)


CLIENTS: Final[dict[str, Callable[[str, str], Coroutine[Any, Any, None]]]] = {
    "ottla": ottla_consumer,
    "aiokafka": aiokafka_consumer,
    "librdkafka": librdkafka_consumer,
}


def measure(directory: Path) -> Iterator[Figure]:
    """Yield the share of a core that each consumer needs, and that the broker needs for it."""
    shares: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    with broker_process(directory) as broker:
        create_topic(broker.port, TOPIC, PARTITIONS)
        for _ in range(ROUNDS):
            for client in CLIENTS:
                shares[client].append(_observe(client, broker))
    for place, who in enumerate(("the consumer", "the broker")):
        percent = {
            client: 100 * statistics.median(each[place] for each in found)
            for client, found in shares.items()
        }
        for other in ("aiokafka", "librdkafka"):
            yield Figure(
                name=f"a consumer of {PARTITIONS:,} idle partitions: share of a core of {who}",
                unit="%",
                value=percent["ottla"],
                reference_name=other,
                reference=percent[other],
                better="lower",
            )


def _observe(client: str, broker: ServerProcess) -> tuple[float, float]:
    """Return the shares of a core of a consumer and of its broker."""
    command = [sys.executable, "-m", "benchmarks.idle_consumers", client, broker.address, TOPIC]
    consumer = subprocess.Popen(command)
    try:
        pin(consumer.pid, GENERATOR_CORE)
        time.sleep(SETTLE_S)
        before = cpu_s(consumer.pid), broker.cpu_s()
        time.sleep(OBSERVED_S)
        after = cpu_s(consumer.pid), broker.cpu_s()
        if consumer.poll() is not None:
            raise RuntimeError(f"the consumer of {client} ended with {consumer.returncode}")
    finally:
        end(consumer, STOP_TIMEOUT_S)
    return (after[0] - before[0]) / OBSERVED_S, (after[1] - before[1]) / OBSERVED_S


if __name__ == "__main__":
    asyncio.run(CLIENTS[sys.argv[1]](*sys.argv[2:]))

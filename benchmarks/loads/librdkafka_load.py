"""librdkafka as producer and consumer, beside a plain stream of the same bytes (edge)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.loads.broker import broker_process, create_topic
from benchmarks.loads.process import ServerProcess, free_port
from benchmarks.loads.produce_load import sink_server, stream_mb_s
from benchmarks.loads.result import Figure, alternate, percentile

ROUNDS: Final = 5
TOPIC: Final = "bench-librdkafka"
PARTITIONS: Final = 6
RECORD_BYTES: Final = 1024
RECORDS: Final = 600_000
QUEUE_RECORDS: Final = 400_000
POLL_S: Final = 0.01
CONSUME_BATCH: Final = 10_000
# Records per call, so that the load measures librdkafka and not a Python call per record.
PRODUCE_BATCH: Final = 1_000
CLIENT_TIMEOUT_S: Final = 120.0


def measure(directory: Path) -> Iterator[Figure]:
    """Yield produce and consume rates of librdkafka, and the broker's CPU per GB."""
    port = free_port()
    arguments = ["-m", "benchmarks.loads.bare_broker", str(port), TOPIC, str(PARTITIONS)]
    bare = ServerProcess(arguments, port)
    with broker_process(directory) as broker, sink_server() as sink, bare:
        create_topic(broker.port, TOPIC, PARTITIONS)
        produce_cpu: list[float] = []
        consume_cpu: list[float] = []
        bare_mb_s: list[float] = []

        def produce_mb_s() -> float:
            bare_mb_s.append(_run_client("produce", bare, []))
            return _run_client("produce", broker, produce_cpu)

        paired = alternate(produce_mb_s, lambda: stream_mb_s(sink), rounds=ROUNDS)
        consumed = [_run_client("consume", broker, consume_cpu) for _ in range(ROUNDS)]
    yield Figure(
        name="librdkafka produces 1 KiB records",
        unit="MB/s",
        value=paired.ours,
        reference_name="plain loopback stream",
        reference=paired.reference,
        better="higher",
        goal=0.5,
        note="acks=1, linger 5 ms, 6 partitions",
    )
    yield Figure(
        name="librdkafka produces 1 KiB records, compared with its maximum",
        unit="MB/s",
        value=paired.ours,
        reference_name="the same to a server that answers and stores nothing",
        reference=percentile(bare_mb_s, 0.5),
        better="higher",
    )
    yield Figure(
        name="librdkafka produces 1 KiB records, broker CPU",
        unit="s/GB",
        value=percentile(produce_cpu, 0.5),
        better="lower",
    )
    yield Figure(
        name="librdkafka consumes 1 KiB records",
        unit="MB/s",
        value=percentile(consumed, 0.5),
        reference_name="plain loopback stream",
        reference=paired.reference,
        better="higher",
    )
    yield Figure(
        name="librdkafka consumes 1 KiB records, broker CPU",
        unit="s/GB",
        value=percentile(consume_cpu, 0.5),
        better="lower",
    )


def _run_client(kind: str, broker: ServerProcess, cpu_s_per_gb: list[float]) -> float:
    """Run one client in its own process, and return its payload MB/s."""
    before_s = broker.cpu_s()
    client = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.loads.librdkafka_load", kind, broker.address],
        stdout=subprocess.PIPE,
    )
    # The client has its own threads, and needs more than one core to keep a broker busy.
    os.sched_setaffinity(client.pid, range(os.cpu_count() or 1))
    output, _ = client.communicate(timeout=CLIENT_TIMEOUT_S)
    if client.returncode:
        raise RuntimeError(f"the librdkafka {kind} client failed with {client.returncode}")
    answer = json.loads(output)
    cpu_s_per_gb.append((broker.cpu_s() - before_s) / answer["bytes"] * 1e9)
    return float(answer["bytes"] / answer["elapsed_s"] / 1e6)


def _produce(address: str) -> float:
    producer = Producer(
        {
            "bootstrap.servers": address,
            "acks": 1,
            "linger.ms": 5,
            "queue.buffering.max.messages": QUEUE_RECORDS,
            "queue.buffering.max.kbytes": 1024 * 1024,
        }
    )
    value = os.urandom(RECORD_BYTES)
    producer.list_topics(TOPIC, timeout=10)
    messages = [{"value": value} for _ in range(PRODUCE_BATCH)]
    started_s = time.perf_counter()
    unsent, turn = RECORDS, 0
    while unsent:
        queued = producer.produce_batch(TOPIC, messages[:unsent], partition=turn % PARTITIONS)
        unsent -= queued
        turn += 1
        if queued < PRODUCE_BATCH:
            # The queue is full.
            producer.poll(POLL_S)
    if producer.flush(CLIENT_TIMEOUT_S):
        raise RuntimeError("records were left unsent")
    return time.perf_counter() - started_s


def _consume(address: str) -> float:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "bench",
            "enable.auto.commit": False,
            "check.crcs": False,
            "queued.min.messages": 1_000_000,
            "fetch.message.max.bytes": 8 * 1024 * 1024,
            # By default, a client with enough records in its queue pauses for a second.
            "fetch.queue.backoff.ms": 10,
        }
    )
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    started_s = time.perf_counter()
    missing = RECORDS
    while missing > 0:
        records = consumer.consume(min(CONSUME_BATCH, missing), CLIENT_TIMEOUT_S)
        if not records:
            raise RuntimeError(f"{missing} records never arrived")
        missing -= len(records)
    elapsed_s = time.perf_counter() - started_s
    consumer.close()
    return elapsed_s


def main(arguments: list[str]) -> None:
    """Run one client and print its figures as JSON."""
    kind, address = arguments
    elapsed_s = _produce(address) if kind == "produce" else _consume(address)
    sys.stdout.write(json.dumps({"bytes": RECORDS * RECORD_BYTES, "elapsed_s": elapsed_s}))


if __name__ == "__main__":
    main(sys.argv[1:])

"""One consumer of one kind in a process of its own, for tests that kill or stop it. Edge.

`python -m tests.interop.groups.member KIND BOOTSTRAP GROUP TOPIC PROTOCOL` prints a JSON line for
each run of consecutive records that it received: partition, first and last offset. The client
auto-commits only offsets that were printed before. On SIGTERM it leaves the group cleanly.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

COMMIT_INTERVAL_MS: Final = 300
SESSION_TIMEOUT_MS: Final = 6_000
HEARTBEAT_INTERVAL_MS: Final = 500
POLL_MS: Final = 200


class Settings(NamedTuple):
    """Settings of every kind of consumer."""

    bootstrap: str
    group_id: str
    topic: str
    protocol: str


class Stop:
    """Flag that SIGTERM sets: the process should leave the group."""

    def __init__(self) -> None:
        self.is_requested = False
        signal.signal(signal.SIGTERM, self._request)

    def _request(self, _number: int, _frame: object) -> None:
        self.is_requested = True


def print_runs(partition: int, offsets: Iterable[int]) -> None:
    """Print the received offsets of one partition as runs of consecutive offsets."""
    first = last = None
    for offset in offsets:
        if last is not None and offset == last + 1:
            last = offset
            continue
        _print(partition, first, last)
        first = last = offset
    _print(partition, first, last)
    sys.stdout.flush()


def _print(partition: int, first: int | None, last: int | None) -> None:
    if first is not None:
        sys.stdout.write(json.dumps([partition, first, last]) + "\n")


async def run_ottla(settings: Settings, stop: Stop) -> None:
    from ottla import Consumer
    from ottla.client.errors import OttlaError

    async with Consumer(
        settings.bootstrap,
        group_id=settings.group_id,
        assignors=[settings.protocol],  # type: ignore[list-item]
        auto_commit_interval_ms=COMMIT_INTERVAL_MS,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.subscribe([settings.topic])
        while not stop.is_requested:
            with contextlib.suppress(OttlaError):
                found = await consumer.fetch_by_partition(timeout_ms=POLL_MS)
                for partition, records in found.items():
                    print_runs(partition.partition, (record.offset for record in records))


async def run_aiokafka(settings: Settings, stop: Stop) -> None:
    import aiokafka
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    consumer = aiokafka.AIOKafkaConsumer(
        settings.topic,
        bootstrap_servers=settings.bootstrap,
        group_id=settings.group_id,
        partition_assignment_strategy=(RangePartitionAssignor,),
        auto_commit_interval_ms=COMMIT_INTERVAL_MS,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        auto_offset_reset="earliest",
    )
    await consumer.start()
    while not stop.is_requested:
        for partition, records in (await consumer.getmany(timeout_ms=POLL_MS)).items():
            print_runs(partition.partition, (record.offset for record in records))
    await consumer.stop()


def run_confluent(settings: Settings, stop: Stop) -> None:
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": settings.bootstrap,
            "group.id": settings.group_id,
            "partition.assignment.strategy": settings.protocol,
            "auto.commit.interval.ms": COMMIT_INTERVAL_MS,
            # Otherwise records that are not printed yet could be committed.
            "enable.auto.offset.store": False,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe([settings.topic])
    while not stop.is_requested:
        messages = [m for m in consumer.consume(500, POLL_MS / 1000) if m.error() is None]
        for partition in dict.fromkeys(m.partition() or 0 for m in messages):
            print_runs(partition, (m.offset() or 0 for m in messages if m.partition() == partition))
        for message in messages:
            # Offsets of a partition that was revoked in the meantime cannot be stored.
            with contextlib.suppress(confluent_kafka.KafkaException):
                consumer.store_offsets(message)
    consumer.close()


def run_kafka_python(settings: Settings, stop: Stop) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import kafka
        from kafka.coordinator.assignors.cooperative_sticky import (
            CooperativeStickyAssignor,
        )
        from kafka.coordinator.assignors.range import RangePartitionAssignor

    assignors = {
        "range": RangePartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }
    consumer = kafka.KafkaConsumer(
        settings.topic,
        bootstrap_servers=settings.bootstrap,
        group_id=settings.group_id,
        partition_assignment_strategy=[assignors[settings.protocol]],
        auto_commit_interval_ms=COMMIT_INTERVAL_MS,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        auto_offset_reset="earliest",
    )
    while not stop.is_requested:
        for partition, records in consumer.poll(POLL_MS).items():
            print_runs(partition.partition, (record.offset for record in records))
    consumer.close()


ASYNCHRONOUS: Final = {"ottla": run_ottla, "aiokafka": run_aiokafka}
BLOCKING: Final[Mapping[str, Callable[[Settings, Stop], None]]] = {
    "confluent": run_confluent,
    "kafka-python": run_kafka_python,
}


def main(kind: str, settings: Settings) -> None:
    """Consume until SIGTERM."""
    stop = Stop()
    if kind in ASYNCHRONOUS:
        asyncio.run(ASYNCHRONOUS[kind](settings, stop))
    else:
        BLOCKING[kind](settings, stop)


if __name__ == "__main__":
    main(sys.argv[1], Settings(*sys.argv[2:]))

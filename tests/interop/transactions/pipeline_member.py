"""One member of a read-process-write pipeline in a process of its own. Edge.

`python -m tests.interop.transactions.pipeline_member KIND BOOTSTRAP MEMBER SOURCE TARGET` writes
each record of SOURCE, reversed, to the same partition of TARGET, in transactions with the offsets
of its group, and prints the outcome of each. At random it aborts one after its records were sent.
It exits with an error where its documentation says that the producer is of no further use, and at
SIGTERM it leaves in order. `PipelineMember.java` is the same program for Kafka's client.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

T = TypeVar("T")

MAX_RECORDS: Final = 50
POLL_MS: Final = 300
ABORT_SHARE: Final = 0.1
TRANSACTION_TIMEOUT_MS: Final = 8_000
"""Shorter than the longest pause, so that some transactions time out."""
SESSION_TIMEOUT_MS: Final = 6_000
HEARTBEAT_INTERVAL_MS: Final = 1_000
CALL_S: Final = 15.0
STUCK_S: Final = 45.0
"""A call of another project's client that takes longer ends the process."""
EXIT_STUCK: Final = 3


class Settings(NamedTuple):
    """Arguments of every kind of member."""

    bootstrap: str
    member: str
    source: str
    target: str

    @property
    def group_id(self) -> str:
        """The group of the pipeline."""
        return self.source

    @property
    def transactional_id(self) -> str:
        """The id of this member's producer."""
        return f"{self.source}-{self.member}"


class ChosenAbortError(Exception):
    """The program has chosen to abort."""


class Stop:
    """Flag that SIGTERM sets."""

    def __init__(self) -> None:
        self.is_requested = False
        signal.signal(signal.SIGTERM, self._request)

    def _request(self, _number: int, _frame: object) -> None:
        self.is_requested = True


def report(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def processed(value: bytes) -> bytes:
    """Return the output for an input."""
    return value[::-1]


async def run_ottla(settings: Settings, stop: Stop) -> None:
    """Run the loop of docs/client.md."""
    from ottla import Consumer, Producer
    from ottla.client.errors import CommitFailedError, TransactionAbortableError

    async with (
        Consumer(
            settings.bootstrap,
            group_id=settings.group_id,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        ) as consumer,
        Producer(
            settings.bootstrap,
            transactional_id=settings.transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        ) as producer,
    ):
        consumer.subscribe([settings.source])
        while not stop.is_requested:
            records = await consumer.fetch_batch(MAX_RECORDS, timeout_ms=POLL_MS)
            if not records:
                continue
            try:
                async with producer.transaction():
                    for record in records:
                        await producer.send(
                            settings.target,
                            processed(record.value or b""),
                            partition=record.partition,
                        )
                    await producer.send_offsets_to_transaction(
                        consumer.positions(), consumer.group_metadata()
                    )
                    if random.random() < ABORT_SHARE:
                        await producer.flush()
                        raise ChosenAbortError
            except (TransactionAbortableError, CommitFailedError, ChosenAbortError) as error:
                report(f"aborted {type(error).__name__}")
                consumer.seek_to_committed()
            else:
                report(f"committed {len(records)}")


async def run_aiokafka(settings: Settings, stop: Stop) -> None:
    """Read the partition of the member's number.

    This client sends neither its generation with the offsets nor asks for stable ones (KIP-447), so
    a partition must not move between producers: each member has its own partition.

    It takes a response to OffsetFetch whose error is not in a partition (from version 2 on) as one
    without offsets, so it must not begin at the start of the log in that case. The test has
    committed the first offsets.
    """
    import aiokafka

    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap,
        group_id=settings.group_id,
        enable_auto_commit=False,
        isolation_level="read_committed",
        auto_offset_reset="none",
    )
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=settings.bootstrap,
        transactional_id=settings.transactional_id,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
    )
    # The end of the previous incarnation's transaction comes first, then its offsets.
    await bounded(producer.start())
    await bounded(consumer.start())
    place = aiokafka.TopicPartition(settings.source, int(settings.member))
    consumer.assign([place])
    while not stop.is_requested:
        found = await bounded(consumer.getmany(timeout_ms=POLL_MS, max_records=MAX_RECORDS))
        records = found.get(place, [])
        if not records:
            continue
        try:
            async with asyncio.timeout(STUCK_S), producer.transaction():
                for record in records:
                    await producer.send(
                        settings.target, processed(record.value), partition=place.partition
                    )
                await producer.send_offsets_to_transaction(
                    {place: records[-1].offset + 1}, settings.group_id
                )
                if random.random() < ABORT_SHARE:
                    await producer.flush()
                    raise ChosenAbortError
        except ChosenAbortError as error:
            report(f"aborted {type(error).__name__}")
            consumer.seek(place, records[0].offset)
        else:
            report(f"committed {len(records)}")
    await bounded(consumer.stop())
    await bounded(producer.stop())


async def bounded(call: Awaitable[T]) -> T:
    """Await a call of another project's client, but not forever."""
    return await asyncio.wait_for(call, STUCK_S)


class Watchdog:
    """Ends the process if a call of librdkafka does not return (issue 5511 of librdkafka)."""

    def __enter__(self) -> None:
        self._timer = threading.Timer(STUCK_S, self._end)
        self._timer.daemon = True
        self._timer.start()

    def __exit__(self, *_error: object) -> None:
        self._timer.cancel()

    def _end(self) -> None:
        report("stuck")
        os._exit(EXIT_STUCK)


def run_confluent(settings: Settings, stop: Stop) -> None:
    """Take the group's metadata when partitions are assigned, as records belong to that generation.

    Later the client may have lost its membership, and would send offsets without one.
    """
    import confluent_kafka

    shared = {"bootstrap.servers": settings.bootstrap, "debug": "eos,cgrp"}
    consumer = confluent_kafka.Consumer(
        {
            **shared,
            "group.id": settings.group_id,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
        }
    )
    producer = confluent_kafka.Producer(
        {
            **shared,
            "transactional.id": settings.transactional_id,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        }
    )
    joined: list[Any] = []

    def on_assign(_consumer: object, _partitions: object) -> None:
        joined[:] = [consumer.consumer_group_metadata()]

    def on_revoke(_consumer: object, _partitions: object) -> None:
        joined.clear()

    def repeat(call: Callable[[], object]) -> None:
        while True:
            try:
                with Watchdog():
                    call()
            except confluent_kafka.KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return

    def rewind(starts: Mapping[tuple[str, int], int]) -> None:
        for (topic, partition), offset in starts.items():
            consumer.seek(confluent_kafka.TopicPartition(topic, partition, offset))

    repeat(lambda: producer.init_transactions(CALL_S))
    consumer.subscribe([settings.source], on_assign=on_assign, on_revoke=on_revoke)
    while not stop.is_requested:
        with Watchdog():
            found = consumer.consume(MAX_RECORDS, POLL_MS / 1000)
        messages = [each for each in found if each.error() is None]
        if not messages or not joined:
            # Records of a revoked partition are the next owner's.
            continue
        starts: dict[tuple[str, int], int] = {}
        ends: dict[tuple[str, int], int] = {}
        for each in messages:
            place = (each.topic() or "", each.partition() or 0)
            starts.setdefault(place, each.offset() or 0)
            ends[place] = (each.offset() or 0) + 1
        offsets = [confluent_kafka.TopicPartition(*place, end) for place, end in ends.items()]
        metadata = joined[0]
        try:
            producer.begin_transaction()
            for each in messages:
                producer.produce(
                    settings.target, processed(each.value() or b""), partition=each.partition() or 0
                )
            repeat(
                lambda: producer.send_offsets_to_transaction(
                    offsets,  # noqa: B023
                    metadata,  # noqa: B023
                    CALL_S,
                )
            )
            if random.random() < ABORT_SHARE:
                with Watchdog():
                    producer.flush(CALL_S)
                raise ChosenAbortError
            repeat(lambda: producer.commit_transaction(CALL_S))
        except (confluent_kafka.KafkaException, ChosenAbortError) as error:
            if isinstance(error, ChosenAbortError) or error.args[0].txn_requires_abort():
                repeat(lambda: producer.abort_transaction(CALL_S))
                report(f"aborted {error!r}")
                rewind(starts)
            else:
                raise
        else:
            report(f"committed {len(messages)}")
    with Watchdog():
        consumer.close()


ASYNCHRONOUS: Final = {"ottla": run_ottla, "aiokafka": run_aiokafka}


def main(kind: str, settings: Settings) -> None:
    """Run until SIGTERM."""
    stop = Stop()
    if kind in ASYNCHRONOUS:
        asyncio.run(ASYNCHRONOUS[kind](settings, stop))
    else:
        run_confluent(settings, stop)


if __name__ == "__main__":
    main(sys.argv[1], Settings(*sys.argv[2:]))

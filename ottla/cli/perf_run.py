"""Loads that `ottla perf` runs with our own client (composition)."""

import asyncio
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ottla.cli.command_config import ClusterAccess
from ottla.cli.failure import CommandError
from ottla.cli.transfer import Transfer
from ottla.client.client_config import Acks
from ottla.client.consumer.consumer import Consumer
from ottla.client.producer.producer import Producer
from ottla.client.producer.producer_batch import Delivery

BATCH_RECORDS: Final = 5_000
PAYLOAD: Final = bytes(range(33, 127))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceLoad:
    """Records to send; `rate` is a limit in records per second, None for none."""

    topic: str
    record_count: int
    size_bytes: int
    rate: float | None
    acks: Acks
    compression: str | None
    linger_ms: float
    batch_size_bytes: int


def payload(size_bytes: int) -> bytes:
    """Return a value of printable bytes; it compresses well."""
    return (PAYLOAD * (size_bytes // len(PAYLOAD) + 1))[:size_bytes]


async def produce_load(
    access: ClusterAccess, load: ProduceLoad, transfer: Transfer
) -> Sequence[float]:
    """Send the records and return the latency of each in ms, from `send` to acknowledgement.

    Raises:
        CommandError: a record was not acknowledged.
    """
    value = payload(load.size_bytes)
    latencies_ms = array("d")
    failures: list[BaseException] = []

    def watch(delivery: Delivery) -> None:
        started_s = time.perf_counter()

        def on_done(done: Delivery) -> None:
            if (error := done.exception()) is not None:
                failures.append(error)
            else:
                latencies_ms.append((time.perf_counter() - started_s) * 1_000)
                transfer.add(1, load.size_bytes)

        delivery.add_done_callback(on_done)

    async with Producer(
        access.bootstrap,
        acks=load.acks,
        compression=load.compression,
        linger_ms=load.linger_ms,
        batch_size_bytes=load.batch_size_bytes,
        **access.security,
    ) as producer:
        begun_s = time.perf_counter()
        for number in range(load.record_count):
            if load.rate is not None:
                delay_s = begun_s + number / load.rate - time.perf_counter()
                if delay_s > 0:
                    await asyncio.sleep(delay_s)
            watch(await producer.send(load.topic, value))
        await producer.flush()
    if failures:
        raise CommandError(f"{len(failures)} records failed, the first with: {failures[0]}")
    return latencies_ms


async def consume_load(
    access: ClusterAccess,
    topic: str,
    record_count: int,
    group: str | None,
    timeout_ms: float,
    transfer: Transfer,
) -> None:
    """Read records from the beginning, or as a member of `group`.

    Raises:
        CommandError: no record arrived for `timeout_ms` before all were read.
    """
    async with Consumer(
        access.bootstrap, group_id=group, auto_offset_reset="earliest", **access.security
    ) as consumer:
        if group is None:
            await consumer.assign_topics(topic)
        else:
            consumer.subscribe([topic])
        while transfer.record_count < record_count:
            wanted = min(BATCH_RECORDS, record_count - transfer.record_count)
            records = await consumer.fetch_batch(wanted, timeout_ms)
            if not records:
                raise CommandError(
                    f"{transfer.record_count} of {record_count} records arrived, and then none for "
                    f"{timeout_ms:.0f} ms: ask for fewer, or raise --timeout-ms."
                )
            transfer.add(len(records), sum(len(each.value or b"") for each in records))


async def end_to_end_load(
    access: ClusterAccess,
    topic: str,
    record_count: int,
    size_bytes: int,
    acks: Literal[1, "all"],
    timeout_ms: float,
) -> list[float]:
    """Send records one at a time; return the time in ms until each was read again.

    Raises:
        CommandError: a record did not arrive within `timeout_ms`.
    """
    latencies_ms: list[float] = []
    async with (
        Producer(access.bootstrap, acks=acks, **access.security) as producer,
        Consumer(access.bootstrap, fetch_max_wait_ms=100, **access.security) as consumer,
    ):
        # The topic may be created by this.
        await producer.partitions(topic)
        await consumer.assign_topics(topic)
        await consumer.seek_to_end()
        for number in range(record_count):
            value = b"%d:" % number + payload(size_bytes)
            value = value[: max(size_bytes, len(b"%d:" % number))]
            started_s = time.perf_counter()
            await producer.send_and_wait(topic, value)
            while True:
                records = await consumer.fetch_batch(1, timeout_ms)
                if not records:
                    raise CommandError(f"record {number} did not arrive within {timeout_ms:.0f} ms")
                if records[0].value == value:
                    break
            latencies_ms.append((time.perf_counter() - started_s) * 1_000)
    return latencies_ms

"""One client in its own process, which writes or reads a number of records and prints the time.

`python -m benchmarks.client_drivers JOB` with a `Job` as JSON; prints seconds of wall clock and of
CPU. Each driver imports its client itself, so that the garbage collector of a process never visits
the objects of the other clients. Kind: edge.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from functools import partial
from itertools import cycle, islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import aiokafka

LINGER_MS: Final = 5
DISTINCT_VALUES: Final = 512
TIMEOUT_S: Final = 120.0
CONFLUENT_BATCH: Final = 10_000
POLL_S: Final = 0.01
MAX_RECORDS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The workload of one client."""

    driver: str
    address: str
    topic: str
    partition_count: int
    record_bytes: int
    record_count: int
    acks: str
    compression: str
    uses_uvloop: bool

    def to_json(self) -> str:
        """Return the job as the argument of its process."""
        return json.dumps(asdict(self))


class Stopwatch:
    """Seconds of wall clock and of this process's CPU since the creation."""

    def __init__(self) -> None:
        self._wall_s = time.perf_counter()
        self._cpu_s = time.process_time()

    def read(self) -> dict[str, float]:
        """Return `elapsed_s` and `cpu_s` so far."""
        return {
            "elapsed_s": time.perf_counter() - self._wall_s,
            "cpu_s": time.process_time() - self._cpu_s,
        }


def values(job: Job) -> list[bytes]:
    """Return values like lines of text, which compress to about a half."""
    dice = random.Random(1)
    letters = b"abcdefghijklmnopqrstuvwxyz0123456789     "
    words = [bytes(dice.choices(letters, k=8)) for _ in range(256)]
    lines = [
        b"".join(dice.choices(words, k=job.record_bytes // 8 + 1)) for _ in range(DISTINCT_VALUES)
    ]
    return [line[: job.record_bytes] for line in lines]


def acks_of(job: Job) -> int | str:
    """Return acks in the form that Python clients accept: 'all', or a number."""
    return job.acks if job.acks == "all" else int(job.acks)


async def ottla_produce(job: Job, *, is_idempotent: bool | None = None) -> dict[str, float]:
    """Write the records of `job` with our client; return the time until the last response."""
    import ottla

    async with ottla.Producer(
        job.address,
        acks=acks_of(job),  # type: ignore[arg-type]
        compression=job.compression,
        linger_ms=LINGER_MS,
        enable_idempotence=is_idempotent,
    ) as producer:
        await producer.send_and_wait(job.topic, b"", partition=0)
        lines, partitions = cycle(values(job)), cycle(range(job.partition_count))
        watch = Stopwatch()
        for line, partition in islice(zip(lines, partitions, strict=False), job.record_count):
            await producer.send(job.topic, line, partition=partition)
        await producer.flush()
        return watch.read()


async def aiokafka_produce(job: Job) -> dict[str, float]:
    """Write the records of `job` with aiokafka."""
    import aiokafka

    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=job.address,
        acks=acks_of(job),
        compression_type=None if job.compression == "none" else job.compression,
        linger_ms=LINGER_MS,
    )
    async with producer:
        await producer.send_and_wait(job.topic, b"", partition=0)
        lines, partitions = cycle(values(job)), cycle(range(job.partition_count))
        watch = Stopwatch()
        for line, partition in islice(zip(lines, partitions, strict=False), job.record_count):
            await producer.send(job.topic, line, partition=partition)
        await producer.flush()
        return watch.read()


async def confluent_produce(job: Job, *, is_idempotent: bool = False) -> dict[str, float]:
    """Write the records of `job` with librdkafka, whose own thread empties its queue."""
    import confluent_kafka

    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": job.address,
            "acks": job.acks,
            "enable.idempotence": is_idempotent,
            "compression.type": job.compression,
            "linger.ms": LINGER_MS,
            "queue.buffering.max.messages": 500_000,
        }
    )
    # This connects the client, and with idempotence waits half a second for a producer id.
    producer.produce(job.topic, b"", partition=0)
    producer.flush(TIMEOUT_S)
    lines, partitions = cycle(values(job)), cycle(range(job.partition_count))
    watch = Stopwatch()
    for line, partition in islice(zip(lines, partitions, strict=False), job.record_count):
        while True:
            try:
                producer.produce(job.topic, line, partition=partition)
                break
            except BufferError:
                producer.poll(POLL_S)
    if producer.flush(TIMEOUT_S):
        raise RuntimeError("records were left unsent")
    return watch.read()


async def ottla_iterate(job: Job) -> dict[str, float]:
    """Read the records of `job` one by one; return the time from assignment to last record."""
    import ottla

    async with ottla.Consumer(job.address, auto_offset_reset="earliest") as consumer:
        watch = Stopwatch()
        await consumer.assign_topics(job.topic)
        missing = job.record_count
        async for _ in consumer:
            missing -= 1
            if not missing:
                break
        return watch.read()


async def ottla_batches(job: Job) -> dict[str, float]:
    """Read the records of `job` in lists of up to `MAX_RECORDS`."""
    import ottla

    async with ottla.Consumer(job.address, auto_offset_reset="earliest") as consumer:
        watch = Stopwatch()
        await consumer.assign_topics(job.topic)
        missing = job.record_count
        while missing > 0:
            missing -= len(await consumer.fetch_batch(MAX_RECORDS))
        return watch.read()


def aiokafka_consumer(job: Job) -> aiokafka.AIOKafkaConsumer:
    """Return a consumer without a group, from the start of the log."""
    import aiokafka

    return aiokafka.AIOKafkaConsumer(
        bootstrap_servers=job.address, auto_offset_reset="earliest", enable_auto_commit=False
    )


def aiokafka_partitions(job: Job) -> list[aiokafka.TopicPartition]:
    """Return all partitions of the topic, as aiokafka names them."""
    import aiokafka

    return [aiokafka.TopicPartition(job.topic, number) for number in range(job.partition_count)]


async def aiokafka_iterate(job: Job) -> dict[str, float]:
    """Read the records one by one with aiokafka."""
    async with aiokafka_consumer(job) as consumer:
        watch = Stopwatch()
        consumer.assign(aiokafka_partitions(job))
        missing = job.record_count
        async for _ in consumer:
            missing -= 1
            if not missing:
                break
        return watch.read()


async def aiokafka_batches(job: Job) -> dict[str, float]:
    """Read the records in lists of up to `MAX_RECORDS` with aiokafka."""
    async with aiokafka_consumer(job) as consumer:
        watch = Stopwatch()
        consumer.assign(aiokafka_partitions(job))
        missing = job.record_count
        while missing > 0:
            found = await consumer.getmany(timeout_ms=1_000, max_records=MAX_RECORDS)
            missing -= sum(map(len, found.values()))
        return watch.read()


async def confluent_batches(job: Job) -> dict[str, float]:
    """Read the records in lists with librdkafka, with a check of checksums as in the others."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": job.address,
            "group.id": "bench",
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    watch = Stopwatch()
    consumer.assign(
        [
            confluent_kafka.TopicPartition(job.topic, number, 0)
            for number in range(job.partition_count)
        ]
    )
    missing = job.record_count
    while missing > 0:
        missing -= len(consumer.consume(min(CONFLUENT_BATCH, missing), TIMEOUT_S))
    figures = watch.read()
    consumer.close()
    return figures


DRIVERS: Final[dict[str, Callable[[Job], Awaitable[dict[str, float]]]]] = {
    "ottla produce": ottla_produce,
    "aiokafka produce": aiokafka_produce,
    "confluent produce": confluent_produce,
    "ottla produce plainly": partial(ottla_produce, is_idempotent=False),
    "confluent produce idempotently": partial(confluent_produce, is_idempotent=True),
    "ottla iterate": ottla_iterate,
    "aiokafka iterate": aiokafka_iterate,
    "ottla batches": ottla_batches,
    "aiokafka batches": aiokafka_batches,
    "confluent batches": confluent_batches,
}


async def work(job: Job) -> dict[str, float]:
    """Run the job's driver."""
    return await DRIVERS[job.driver](job)


def main(arguments: list[str]) -> None:
    """Run the job given as JSON, and print its figures."""
    job = Job(**json.loads(arguments[0]))
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    if job.uses_uvloop:
        import uvloop

        loop_factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        figures = runner.run(work(job))
    sys.stdout.write(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1:])

"""The cost of idempotence: records per second of a producer with and without it (edge).

The runs alternate with the same producer, records and settings (acks=all) against one broker, with
many small batches and few large ones. librdkafka's producer does the same. Goal: at most 10 % less.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, cast

from benchmarks.client_drivers import Job
from benchmarks.loads.broker import broker_process
from benchmarks.loads.process import GENERATOR_CORE, pin
from benchmarks.loads.result import Figure, alternate
from ottla import Admin, NewTopic

RECORD_COUNTS: Final = {100: 200_000, 1024: 80_000}
CLIENTS: Final = {
    "ottla": ("ottla produce", "ottla produce plainly"),
    "librdkafka": ("confluent produce idempotently", "confluent produce"),
}
"""The drivers with and without idempotence."""
PARTITION_COUNT: Final = 6
ROUNDS: Final = 5
GOAL: Final = 0.9
TIMEOUT_S: Final = 120.0

_numbers = count()


def measure(directory: Path) -> Iterator[Figure]:
    """Yield a figure for each client and size of records."""
    with broker_process(directory) as broker:
        for client, (idempotent, plain) in CLIENTS.items():
            for record_bytes in RECORD_COUNTS:
                run = partial(rate, broker.address, record_bytes)
                pair = alternate(
                    partial(run, idempotent),
                    partial(run, plain),
                    rounds=ROUNDS,
                )
                yield Figure(
                    name=f"idempotent produce, {client}",
                    unit="records/s",
                    value=pair.ours,
                    reference_name="without idempotence",
                    reference=pair.reference,
                    better="higher",
                    goal=GOAL,
                    note=f"{record_bytes} B, acks=all",
                )


def rate(address: str, record_bytes: int, driver: str) -> float:
    """Return the rate of `driver` in records per second, on a new topic."""
    topic = f"idempotence-{next(_numbers)}"
    job = Job(
        driver=driver,
        address=address,
        topic=topic,
        partition_count=PARTITION_COUNT,
        record_bytes=record_bytes,
        record_count=RECORD_COUNTS[record_bytes],
        acks="all",
        compression="none",
        uses_uvloop=True,
    )
    asyncio.run(_create(address, topic))
    client = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.client_drivers", job.to_json()], stdout=subprocess.PIPE
    )
    pin(client.pid, GENERATOR_CORE)
    output, _ = client.communicate(timeout=TIMEOUT_S)
    if client.returncode:
        raise RuntimeError(f"{driver} failed with {client.returncode}")
    asyncio.run(_delete(address, topic))
    return job.record_count / cast(dict[str, float], json.loads(output))["elapsed_s"]


async def _create(address: str, topic: str) -> None:
    async with Admin(address) as admin:
        await admin.create_topics([NewTopic(topic, PARTITION_COUNT, 1)])


async def _delete(address: str, topic: str) -> None:
    async with Admin(address) as admin:
        await admin.delete_topics([topic])

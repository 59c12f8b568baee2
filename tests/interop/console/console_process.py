"""A three-broker cluster with records, and `ottla console` as a process beside it."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ottla import Admin, Consumer, NewTopic, Producer

TIMEOUT_S: Final = 120.0
CUSTOMERS: Final = 97
SEGMENT_BYTES: Final = 65_536
FLUSH_RECORDS: Final = 100
"""Number of records after which the producer flushes, so that batches fit into segments."""


@contextmanager
def console_process(bootstrap: str, *options: str) -> Iterator[str]:
    """Run a console, and yield its address without the slash at its end."""
    with running_console(bootstrap, *options) as (url, _):
        yield url


@contextmanager
def running_console(bootstrap: str, *options: str) -> Iterator[tuple[str, int]]:
    """Run a console, and yield its address and its process id."""
    command = [sys.executable, "-m", "ottla.cli", "console", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        [*command, "--bootstrap", bootstrap, *options], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("console http://"), line
            yield line.split()[1].rstrip("/"), process.pid
        finally:
            process.terminate()
            assert process.wait(TIMEOUT_S) == 0


async def fill(bootstrap: str, *, record_count: int, now_ms: int) -> None:
    """Create the topics of a small shop, write records over six hours, and commit some offsets."""
    topics = [
        NewTopic("orders", partitions=6, configs={"segment.bytes": str(SEGMENT_BYTES)}),
        NewTopic("payments", partitions=12, configs={"cleanup.policy": "compact"}),
        NewTopic("clickstream", partitions=8),
        NewTopic("emails", partitions=3, configs={"retention.ms": "86400000"}),
    ]
    async with Admin(bootstrap) as admin:
        await admin.create_topics(topics)
    step_ms = 6 * 3_600_000 / record_count
    async with Producer(bootstrap) as producer:
        for number in range(record_count):
            key = f"c-{number % CUSTOMERS}".encode()
            await producer.send(
                "orders",
                order(number),
                key=key,
                headers=[("source", b"web"), ("trace", number.to_bytes(8, "big"))],
                timestamp_ms=round(now_ms - (record_count - number) * step_ms),
            )
            if number % 3 == 0:
                await producer.send("payments", b'{"state": "paid"}', key=b"%d" % number)
            if number % 9 == 0:
                await producer.send("emails", b"Order %d was shipped.\n" % number, key=key)
            if number % FLUSH_RECORDS == 0:
                await producer.flush()
    for group, topic, part in (
        ("billing", "orders", 0.9),
        ("search-index", "orders", 1.0),
        ("mailer", "emails", 0.6),
        ("fraud-check", "payments", 0.99),
    ):
        await commit(bootstrap, group, topic, part)


def order(number: int) -> bytes:
    """Return a record of some hundred bytes."""
    return json.dumps(
        {
            "id": 1_000 + number,
            "customer": f"c-{number % CUSTOMERS}",
            "total": round(number * 1.37 % 400, 2),
            "items": [{"sku": f"A{number % 13}", "count": 1 + number % 4}],
            "note": "Leave it at the door. " * (number % 12),
        }
    ).encode()


async def commit(bootstrap: str, group: str, topic: str, part: float) -> None:
    """Commit offsets at a part of each partition."""
    async with Consumer(bootstrap, group_id=group) as consumer:
        partitions = await consumer.assign_topics(topic)
        ends = await consumer.end_offsets(partitions)
        await consumer.commit({each: int(ends[each] * part) for each in partitions})


async def load(bootstrap: str, stop: asyncio.Event, topics: Sequence[str]) -> None:
    """Write some records per second until `stop`; a consumer of a group follows slowly."""
    number = 0
    async with Producer(bootstrap) as producer, Consumer(bootstrap, group_id="billing") as reader:
        reader.subscribe(["orders"])
        while not stop.is_set():
            for topic in topics:
                for _ in range(20):
                    number += 1
                    await producer.send(topic, order(number), key=b"c-%d" % (number % CUSTOMERS))
            await reader.fetch_batch(30, 10)
            with suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await stop.wait()


def reports_in(folder: Path) -> Path:
    """Write two verdicts below `folder`, in the format of `ottla audit --out`."""
    for name, fields in {
        "compaction-nightly": {
            "audit": "compaction",
            "clean": True,
            "errors": 0,
            "warnings": 0,
            "notes": 3,
            "partitions": 12,
            "replicas": 12,
            "records": 18_412,
            "bytes": 2_412_345,
            "duration_s": 12.4,
            "by_kind": {},
            "summaries": [{"topic": "payments", "partition": 0, "records": 1_201, "bytes": 90_211}],
        },
        "replicas-weekly": {
            "audit": "replicas",
            "clean": False,
            "errors": 2,
            "warnings": 1,
            "notes": 0,
            "partitions": 6,
            "replicas": 18,
            "records": 98_412,
            "bytes": 124_123_450,
            "duration_s": 33.1,
            "by_kind": {"record.lost": 2, "epoch.gap": 1},
            "summaries": [],
        },
    }.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "verdict.json").write_text(json.dumps(fields))
    return folder

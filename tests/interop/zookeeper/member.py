"""A member of a group in the coordinator, as a program that ends at the end of its input.

It prints partition, offset, time in milliseconds and value of each record.
"""

import asyncio
import logging
import sys
import time

from ottla.client.errors import OttlaError
from ottla.zookeeper.consumer import ZooKeeperConsumer


def show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def read(consumer: ZooKeeperConsumer) -> None:
    while True:
        try:
            records = await consumer.fetch_batch(50)
        except OttlaError as error:
            sys.stderr.write(f"error {error}\n")
            continue
        for record in records:
            value = (record.value or b"").decode()
            show(f"{record.partition} {record.offset} {time.time_ns() // 1_000_000} {value}")


async def main(coordinator: str, group: str, topic: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    async with ZooKeeperConsumer(
        coordinator,
        group_id=group,
        auto_offset_reset="smallest",
        auto_commit_interval_ms=500,
        session_timeout_ms=4_000,
        rebalance_backoff_ms=1_100,
        rebalance_max_retries=20,
    ) as consumer:
        consumer.subscribe([topic])
        show("started")
        reading = asyncio.create_task(read(consumer))
        await asyncio.to_thread(sys.stdin.read)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    show("ended")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

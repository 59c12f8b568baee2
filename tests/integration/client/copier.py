"""Copies a topic exactly once: the loop of docs/client.md as a process. It prints each outcome.

`python -m tests.integration.client.copier BOOTSTRAP INSTANCE SOURCE TARGET` copies until it is
killed. At random it aborts a transaction after its records were sent.
"""

import asyncio
import random
import sys

from ottla import Consumer, Producer
from ottla.client.errors import CommitFailedError, OttlaError, TransactionAbortableError

GROUP = "copiers"
ABORT_SHARE = 0.1
MAX_RECORDS = 50


class ChosenAbortError(Exception):
    """The program has chosen to abort."""


async def copy(bootstrap: str, instance: str, source: str, target: str) -> None:
    """Copy records until the producer fails."""
    async with (
        Consumer(
            bootstrap,
            group_id=GROUP,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            session_timeout_ms=3_000,
            heartbeat_interval_ms=300,
        ) as consumer,
        Producer(
            bootstrap, transactional_id=f"copier-{instance}", transaction_timeout_ms=10_000
        ) as producer,
    ):
        consumer.subscribe([source])
        while True:
            records = await consumer.fetch_batch(MAX_RECORDS, timeout_ms=500)
            try:
                async with producer.transaction():
                    for record in records:
                        await producer.send(target, record.value, partition=record.partition)
                    await producer.send_offsets_to_transaction(
                        consumer.positions(), consumer.group_metadata()
                    )
                    if records and random.random() < ABORT_SHARE:
                        await producer.flush()
                        raise ChosenAbortError
            except (TransactionAbortableError, CommitFailedError, ChosenAbortError) as error:
                report(f"aborted {type(error).__name__}")
                consumer.seek_to_committed()
            else:
                report(f"committed {len(records)}")


def report(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Restart after failures, as a supervisor would."""
    while True:
        try:
            asyncio.run(copy(*sys.argv[1:]))
        except OttlaError as error:
            report(f"restarted {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()

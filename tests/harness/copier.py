"""Copies a topic exactly once: the loop of docs/client.md.

`python -m tests.harness.copier BOOTSTRAP INSTANCE SOURCE TARGET` copies until it is killed, and
prints each outcome. At random it aborts a transaction after its records were sent.
"""

import asyncio
import random
import sys
from collections.abc import Callable
from typing import Final

from ottla import Consumer, Producer
from ottla.client.errors import CommitFailedError, OttlaError, TransactionAbortableError

GROUP: Final = "copiers"
ABORT_SHARE: Final = 0.1
MAX_RECORDS: Final = 50
RESTART_S: Final = 0.2
QUICK_SESSION_MS: Final = 3_000


class ChosenAbortError(Exception):
    """The program has chosen to abort."""


class Copier:
    """A program that copies a topic to another one, partition by partition."""

    def __init__(
        self,
        bootstrap: str,
        instance: str,
        *,
        chance: random.Random,
        report: Callable[[str], None],
        is_over: Callable[[], bool] = lambda: False,
        session_timeout_ms: int = QUICK_SESSION_MS,
    ) -> None:
        """Copy with the transactional id of an instance; `report` gets a line for each outcome.

        The program ends after the transaction in which it `is_over`.
        """
        self._bootstrap = bootstrap
        self._instance = instance
        self._chance = chance
        self._report = report
        self._session_timeout_ms = session_timeout_ms
        self._is_over = is_over

    async def run(self, source: str, target: str) -> None:
        """Copy, and restart after failures, as a supervisor would."""
        while not self._is_over():
            try:
                await self._copy(source, target)
            except OttlaError as error:
                self._report(f"restarted {type(error).__name__}: {error}")
                await asyncio.sleep(RESTART_S)

    async def _copy(self, source: str, target: str) -> None:
        """Copy records until the producer fails."""
        async with (
            Consumer(
                self._bootstrap,
                group_id=GROUP,
                enable_auto_commit=False,
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                session_timeout_ms=self._session_timeout_ms,
                heartbeat_interval_ms=self._session_timeout_ms // 10,
            ) as consumer,
            Producer(
                self._bootstrap,
                transactional_id=f"copier-{self._instance}",
                transaction_timeout_ms=10_000,
            ) as producer,
        ):
            consumer.subscribe([source])
            while not self._is_over():
                records = await consumer.fetch_batch(MAX_RECORDS, timeout_ms=500)
                try:
                    async with producer.transaction():
                        for record in records:
                            await producer.send(target, record.value, partition=record.partition)
                        await producer.send_offsets_to_transaction(
                            consumer.positions(), consumer.group_metadata()
                        )
                        if records and self._chance.random() < ABORT_SHARE:
                            await producer.flush()
                            raise ChosenAbortError
                except (TransactionAbortableError, CommitFailedError, ChosenAbortError) as error:
                    self._report(f"aborted {type(error).__name__}")
                    consumer.seek_to_committed()
                else:
                    self._report(f"committed {len(records)}")


def report(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Copy until the process is killed."""
    bootstrap, instance, source, target = sys.argv[1:]
    copier = Copier(bootstrap, instance, chance=random.Random(), report=report)
    asyncio.run(copier.run(source, target))


if __name__ == "__main__":
    main()

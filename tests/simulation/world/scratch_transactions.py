"""Transactions in a topic that is deleted and created again, maybe before they end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

import ottla
from kafkawire.ids import TopicPartition
from ottla.client.errors import OttlaError, TopicExistsError, TransactionAbortableError
from tests.harness.copier import ChosenAbortError
from tests.simulation.world.cluster import Cluster
from tests.simulation.world.judges import Judges
from tests.simulation.world.workload import Client, Promises

SCRATCH: Final = "scratch"
MAX_SENT: Final = 4
ABORT_SHARE: Final = 0.2
DELETE_SHARE: Final = 0.3
PAUSE_S: Final = (0.0, 1.0)
POLL_S: Final = 0.5
TIMEOUT_MS: Final = 8_000


class ScratchTransactions(Client):
    """A transactional producer that also deletes its topic."""

    def __init__(self, cluster: Cluster, name: str, promises: Promises, judges: Judges) -> None:
        super().__init__(cluster, name, promises)
        self._judges = judges

    async def _work(self) -> None:
        while not self.is_over:
            try:
                await self._incarnation()
            except OttlaError:
                self.promises.failed_count += 1
                await asyncio.sleep(self.loop.chance.uniform(*PAUSE_S))

    async def _incarnation(self) -> None:
        """Run transactions until the producer fails."""
        async with (
            ottla.Admin(self.cluster.bootstrap, client_id=self.name) as admin,
            ottla.Producer(
                self.cluster.bootstrap,
                client_id=self.name,
                transactional_id=self.name,
                max_block_ms=TIMEOUT_MS,
                delivery_timeout_ms=TIMEOUT_MS,
                request_timeout_ms=TIMEOUT_MS // 2,
                transaction_timeout_ms=TIMEOUT_MS,
            ) as producer,
        ):
            while not self.is_over:
                await asyncio.sleep(self.loop.chance.uniform(*PAUSE_S))
                await self._create(admin)
                try:
                    async with producer.transaction():
                        await self._write(admin, producer)
                except (TransactionAbortableError, ChosenAbortError):
                    self.promises.failed_count += 1
                await self._maybe_delete(admin)

    async def _create(self, admin: ottla.Admin) -> None:
        with suppress(TopicExistsError):
            await admin.create_topics([ottla.NewTopic(SCRATCH, 1, self.cluster.replica_count)])

    async def _exists(self, admin: ottla.Admin) -> bool:
        """Try to create the topic; there are not enough brokers if the last one is just back."""
        try:
            await self._create(admin)
        except OttlaError:
            return False
        return True

    async def _write(self, admin: ottla.Admin, producer: ottla.Producer) -> None:
        for _ in range(self.loop.chance.randrange(1, MAX_SENT)):
            await producer.send(SCRATCH, b"", partition=0)
        if self.loop.chance.random() < 0.5:
            await producer.flush()
        await self._maybe_delete(admin)
        if self.loop.chance.random() < ABORT_SHARE:
            raise ChosenAbortError

    async def _maybe_delete(self, admin: ottla.Admin) -> None:
        if self.loop.chance.random() < DELETE_SHARE:
            self._judges.deletions[SCRATCH] += 1
            try:
                await admin.delete_topics([SCRATCH])
            except OttlaError:
                self.promises.failed_count += 1

    async def judge(self) -> None:
        """Wait until no open transaction holds back the readers of committed records."""
        partition = TopicPartition(SCRATCH, 0)
        async with (
            ottla.Admin(self.cluster.bootstrap) as admin,
            ottla.Consumer(self.cluster.bootstrap) as plain,
            ottla.Consumer(self.cluster.bootstrap, isolation_level="read_committed") as committed,
        ):
            while not await self._exists(admin):  # noqa: ASYNC110 - polls the cluster
                await asyncio.sleep(POLL_S)
            ends: list[int | None] = [0, None]
            while ends[0] != ends[1]:
                await asyncio.sleep(POLL_S)
                found = [await each.end_offsets([partition]) for each in (plain, committed)]
                ends = [each[partition] for each in found]

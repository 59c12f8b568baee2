"""Takes samples of a cluster for as long as the console runs (edge).

One task per kind of sample. Each has a pause of its own, so that a slow kind never delays the
others, and a failover shows although sizes cannot be read meanwhile.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from kafkawire.ids import TopicPartition
from ottla.client.admin.admin import Admin
from ottla.client.admin_model import GroupListing, OffsetSpec
from ottla.client.errors import OttlaError
from ottla.console.observation.observation import (
    LogRange,
    Observation,
    ObservedGroup,
    Probe,
)
from ottla.console.observation.pace import Durations, Pace

PACES: Final[Mapping[Probe, Pace]] = {
    Probe.METADATA: Pace(1.0),
    Probe.OFFSETS: Pace(2.0),
    Probe.LOG_DIRS: Pace(5.0),
    Probe.GROUPS: Pace(3.0),
}
RECONNECT_PAUSE_S: Final = 1.0
SAMPLE_TIMEOUT_MS: Final = 10_000
MAX_GROUP_REQUESTS: Final = 8
"""Number of groups about which requests are in flight at the same time."""
CLOSE_TIMEOUT_S: Final = 2.0


class Collector:
    """Fills an `Observation` until its task is cancelled. `admin` is None without a connection."""

    def __init__(
        self,
        observation: Observation,
        connect: Callable[[int], Admin],
        now_ms: Callable[[], int],
    ) -> None:
        """Connect by `connect`, a function that makes an admin client with a timeout in ms."""
        self.observation = observation
        self.admin: Admin | None = None
        self._connect = connect
        self._now_ms = now_ms
        self._loop = asyncio.get_running_loop()
        self._shown_s = self._loop.time()
        self._changed = asyncio.Event()
        self._interest = asyncio.Event()

    def show(self) -> None:
        """Note that a browser shows the samples now: they are taken more often for a while."""
        self._shown_s = self._loop.time()
        self._interest.set()

    async def changed(self, version: int, timeout_s: float) -> bool:
        """Wait for a sample after `version`; return whether there is one before the timeout."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.observation.version <= version:
                    await self._changed.wait()
        return self.observation.version > version

    async def refresh(self) -> None:
        """Take a sample of the metadata now, after a change."""
        if self.admin is not None:
            with contextlib.suppress(OttlaError):
                await self._metadata(self.admin)
                self._notify()

    async def run(self) -> None:
        """Connect, and take samples until cancelled."""
        while self.admin is None:
            try:
                self.admin = await self._connected()
            except OttlaError as error:
                self._fail(Probe.METADATA, error)
                await asyncio.sleep(RECONNECT_PAUSE_S)
        samples: dict[Probe, Callable[[Admin], Awaitable[None]]] = {
            Probe.METADATA: self._metadata,
            Probe.OFFSETS: self._offsets,
            Probe.LOG_DIRS: self._log_dirs,
            Probe.GROUPS: self._groups,
        }
        try:
            async with asyncio.TaskGroup() as tasks:
                for probe, take in samples.items():
                    tasks.create_task(self._repeat(probe, take, self.admin), name=probe)
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self.admin.close()

    async def _connected(self) -> Admin:
        """Return an admin client that has reached a broker.

        Raises:
            OttlaError: there is none, or a certificate file is missing while it is replaced.
        """
        admin = self._connect(SAMPLE_TIMEOUT_MS)
        try:
            await admin.start()
        except OttlaError:
            await admin.close()
            raise
        return admin

    async def _repeat(
        self, probe: Probe, take: Callable[[Admin], Awaitable[None]], admin: Admin
    ) -> None:
        while probe is not Probe.METADATA and self.observation.cluster is None:
            # The other samples need the partitions.
            await self._next_change()
        durations = Durations()
        while True:
            began_s = self._loop.time()
            try:
                await take(admin)
                self._notify()
            except OttlaError as error:
                self._fail(probe, error)
            usual_s = durations.add(self._loop.time() - began_s)
            await self._pause(PACES[probe], usual_s)

    async def _pause(self, pace: Pace, duration_s: float) -> None:
        began_s = self._loop.time()
        pause_s = pace.pause_s(duration_s, began_s - self._shown_s)
        self._interest.clear()
        try:
            async with asyncio.timeout(pause_s):
                await self._interest.wait()
        except TimeoutError:
            return
        # A browser came: the pause may be shorter now.
        wanted_s = pace.pause_s(duration_s, 0.0)
        await asyncio.sleep(max(0.0, began_s + wanted_s - self._loop.time()))

    async def _metadata(self, admin: Admin) -> None:
        cluster, topics = await asyncio.gather(
            admin.describe_cluster(), admin.describe_all_topics()
        )
        self.observation.on_metadata(cluster, topics)

    async def _offsets(self, admin: Admin) -> None:
        partitions = self.observation.led_partitions()
        starts, ends = await asyncio.gather(
            admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST)),
            admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST)),
        )
        ranges: dict[TopicPartition, LogRange] = {
            each: LogRange(starts[each].offset, ends[each].offset) for each in partitions
        }
        self.observation.on_offsets(self._now_ms(), ranges)

    async def _log_dirs(self, admin: Admin) -> None:
        log_dirs = await admin.describe_log_dirs()
        self.observation.on_log_dirs(self._now_ms(), log_dirs)

    async def _groups(self, admin: Admin) -> None:
        gate = asyncio.Semaphore(MAX_GROUP_REQUESTS)

        async def observe(listing: GroupListing) -> tuple[str, ObservedGroup]:
            async with gate:
                described = await admin.describe_group(listing.group_id)
                committed = await admin.list_group_offsets(listing.group_id)
            return listing.group_id, ObservedGroup(described, committed)

        listings = await admin.list_groups()
        groups = dict(await asyncio.gather(*map(observe, listings)))
        self.observation.on_groups(self._now_ms(), groups)

    def _fail(self, probe: Probe, error: OttlaError) -> None:
        self.observation.on_failure(probe, str(error))
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _next_change(self) -> None:
        await self._changed.wait()

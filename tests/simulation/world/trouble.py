"""Makes the faults of a script in a simulated world."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from random import Random
from typing import Any, Final

import structlog

from broker.errors import StartupError
from tests.simulation.world.cluster import SESSION_TIMEOUT_MS, BrokerHost, Cluster, Host
from tests.simulation.world.script import BROKERS, Fault
from tests.simulation.world.workload import Client

MAX_CALLS_TO_LOSS: Final = 60
CALL_S: Final = 5.0

DISK_FAULTS: Final = frozenset({"fill_disk", "lack_descriptors", "break_log_dir", "fill_log_dir"})
"""Faults after which an orderly stop may not sync all."""
LOSSES: Final = frozenset({"lose_power", "lose_disk"})
"""Faults that lose acknowledged records of one broker."""

_DICE: Final[ContextVar[Random]] = ContextVar("dice")

log = structlog.get_logger("world")


class Trouble:
    """Makes faults, some of them at the same time. Each one draws from dice of its own."""

    def __init__(self, cluster: Cluster, clients: Sequence[Client] = ()) -> None:
        """Make faults of the hosts in `cluster`; pause and kill the processes of `clients`."""
        self.counts: Counter[str] = Counter()
        self._spared: Sequence[BrokerHost] = ()
        self._afflicted: Counter[str] = Counter()
        """Brokers that are down, paused or cut off."""
        self._running: dict[asyncio.Task[None], str] = {}
        self._cluster = cluster
        self._clients = clients
        self._loop = cluster.loop

    async def run(self, faults: Sequence[Fault]) -> None:
        """Make faults; then mend everything."""
        begin_s = self._loop.time()
        for fault in faults:
            await asyncio.sleep(max(0.0, begin_s + fault.at_s - self._loop.time()))
            for done in [each for each in self._running if each.done()]:
                del self._running[done]
                done.result()
            if self._may_start(fault.kind):
                log.info("FAULT", kind=fault.kind, at=self._loop.time())
                self.counts[fault.kind] += 1
                context = copy_context()
                context.run(_DICE.set, Random(fault.dice))
                task = self._loop.create_task(self._make(fault.kind), context=context)
                self._running[task] = fault.kind
        for task in self._running:
            await task
        self._loop.network.blocked.clear()
        for host in self._cluster.hosts:
            host.disk.heal()
            if not host.is_up:
                await self._boot(host)

    async def _make(self, kind: str) -> None:
        make: Callable[[], Coroutine[Any, Any, None]] = getattr(self, f"_{kind}")
        with self._loop.overlaps.during(kind):
            await make()

    @property
    def _chance(self) -> Random:
        """The dice of the running fault."""
        return _DICE.get()

    def _may_start(self, name: str) -> bool:
        """Whether the promise holds if a fault of this kind is added to the running ones."""
        running = set(self._running.values())
        if name in LOSSES:
            is_alone = running.isdisjoint(LOSSES | {"black_out"})
            return is_alone and self._cluster.keeps_all_replicas and self._cluster.is_in_sync()
        if name == "black_out":
            return running.isdisjoint(DISK_FAULTS | LOSSES)
        return name not in DISK_FAULTS or "black_out" not in running

    async def _some_time(self) -> None:
        await asyncio.sleep(
            self._chance.choice((0.01, 0.3, 2.0, 8.0, 20.0)) * self._chance.random()
        )

    def _up_broker(self) -> BrokerHost | None:
        up = [each for each in self._cluster.brokers if each.is_up and each not in self._spared]
        return self._chance.choice(up) if up else None

    @contextmanager
    def _afflict(self, *names: str) -> Iterator[None]:
        self._afflicted.update(names)
        try:
            yield
        finally:
            self._afflicted.subtract(names)

    async def _boot(self, host: Host) -> None:
        """Start a program; repeat it as a supervisor does if the start fails for a known reason."""
        while not host.is_up:
            task = host.boot()
            process = host.process
            assert process is not None
            if not await process.outlives(task) or process.is_dead:
                return
            try:
                task.result()
            except StartupError:
                host.kill()
                await asyncio.sleep(1.0)

    async def _kill_broker(self) -> None:
        host = self._up_broker()
        if host is not None:
            with self._afflict(host.name):
                host.kill()
                await self._some_time()
                if not host.is_up:
                    await self._boot(host)

    async def _stop_broker(self) -> None:
        host = self._up_broker()
        if host is None or host.process is None or host.process.is_paused or not host.may_stop:
            return
        with self._afflict(host.name):
            await self._stop(host)
            if not host.is_up:
                await self._some_time()
                if not host.is_up:
                    await self._boot(host)

    async def _stop(self, host: BrokerHost) -> None:
        assert host.process is not None
        stopping = self._loop.create_task(host.stop())
        if await host.process.outlives(stopping):
            stopping.result()

    async def _pause_broker(self) -> None:
        host = self._up_broker()
        if host is not None and host.process is not None:
            process = host.process
            with self._afflict(host.name):
                process.pause()
                await self._some_time()
                process.resume()

    def _controller(self) -> BrokerHost | None:
        """Return the broker that controls the cluster, if it runs and may be afflicted."""
        for host in self._cluster.brokers:
            member = getattr(host.program, "_member", None)
            is_well = host.is_up and host.has_started and host not in self._spared
            if is_well and member is not None and member.controller.is_active:
                return host
        return None

    async def _pause_controller(self) -> None:
        host = self._controller()
        if host is not None and host.process is not None:
            process = host.process
            with self._afflict(host.name):
                process.pause()
                await self._some_time()
                process.resume()

    async def _bounce_behind_the_controller(self) -> None:
        """Restart a broker so fast that a paused controller sees its next incarnation only."""
        controller, host = self._controller(), self._up_broker()
        if controller is None or host is None or host is controller or controller.process is None:
            return
        process = controller.process
        with self._afflict(controller.name, host.name):
            process.pause()
            host.kill()
            booting = self._loop.create_task(self._boot(host))
            await self._some_time()
            process.resume()
            await booting

    async def _pause_client(self) -> None:
        process = self._chance.choice(self._clients).process
        process.pause()
        await asyncio.sleep(self._chance.choice((1.0, 10.0, 15.0)) * self._chance.random())
        process.resume()

    async def _kill_client(self) -> None:
        self._chance.choice(self._clients).restart()

    async def _isolate(self) -> None:
        """Cut a broker off from all other hosts, or let it only hear or only speak."""
        host = self._up_broker()
        if host is None:
            return
        others = [each.name for each in self._cluster.hosts if each is not host]
        ways = self._chance.choice((1, 2, 3))
        routes = {(host.name, each) for each in others if ways & 1}
        routes |= {(each, host.name) for each in others if ways & 2}
        with self._afflict(host.name):
            self._loop.network.blocked |= routes
            await self._some_time()
            self._loop.network.blocked -= routes

    async def _kill_coordinator(self) -> None:
        host = self._cluster.coordinator
        if host.is_up:
            host.kill()
            await self._some_time()
            await self._boot(host)

    async def _pause_coordinator(self) -> None:
        process = self._cluster.coordinator.process
        assert process is not None
        process.pause()
        await self._some_time()
        process.resume()

    async def _let_coordinator_stutter(self) -> None:
        """Pause the coordinator again and again, each time until the clients give up.

        In between it runs so shortly that a session begins, but not all of its first requests are
        answered.
        """
        process = self._cluster.coordinator.process
        assert process is not None
        for _ in range(self._chance.randrange(2, 4)):
            process.pause()
            await asyncio.sleep(SESSION_TIMEOUT_MS / 1000 * self._chance.uniform(1.2, 1.7))
            process.resume()
            await asyncio.sleep(self._chance.choice((0.05, 0.05, 1.0)) * self._chance.random())

    async def _part(self) -> None:
        await self._block(both_ways=True)

    async def _part_one_way(self) -> None:
        await self._block(both_ways=False)

    async def _block(self, *, both_ways: bool) -> None:
        names = [each.name for each in self._cluster.hosts if each not in self._spared]
        one, other = self._chance.sample(names, 2)
        routes = {(one, other)} | ({(other, one)} if both_ways else set())
        with self._afflict(one, other):
            self._loop.network.blocked |= routes
            await self._some_time()
            self._loop.network.blocked -= routes

    async def _reset(self) -> None:
        self._loop.network.reset_one()

    async def _step_clock(self) -> None:
        host = self._chance.choice(self._cluster.brokers)
        clock = self._loop.clock
        clock.offsets_s[host.name] = self._chance.choice((0.0, 3600.0, -3600.0, 5.0, -5.0))

    async def _lose_power(self) -> None:
        """Lose the power of a broker's host, if the other replicas hold all that it holds.

        Brokers do not sync each append, so an acknowledged record survives the loss of one host's
        unsynced data. The next host may lose its power once the last one is in sync again.
        """
        host = self._chance.choice(self._cluster.brokers)
        if self._spare_some_beside(host):
            host.disk.may_lose_power = self._cluster.is_in_sync
            await self._lose_power_of(host)
            self._spared = ()

    async def _lose_disk(self) -> None:
        """Kill a broker and replace its disk, if the other replicas hold all that it holds."""
        host = self._chance.choice(self._cluster.brokers)
        if self._spare_some_beside(host):
            host.kill()
            host.disk.replace()
            await self._some_time()
            await self._boot(host)
            self._spared = ()

    def _spare_some_beside(self, host: BrokerHost) -> bool:
        """Let no fault fell brokers that hold all that `host` holds until it is back.

        If all others leave an in-sync set before the coordinator notices that `host` is dead, then
        `host` is its last member, and must lead. Return False if some of these others are not well.
        """
        others = [each for each in self._cluster.brokers if each is not host]
        well = [each for each in others if not self._afflicted[each.name]]
        states = self._cluster.partition_states().values()
        in_sync = [each.isr for each in states if host.number in each.isr]

        def hold_all(brokers: Sequence[BrokerHost]) -> bool:
            return all(any(each.number in isr for each in brokers) for isr in in_sync)

        if len(others) < BROKERS:
            for each in self._chance.sample(well, len(well)):
                if hold_all(fewer := [other for other in well if other is not each]):
                    well = fewer
        elif len(well) < len(others):
            # Replicas may move from one broker to another meanwhile.
            return False
        if not hold_all(well):
            return False
        self._spared = well
        return True

    async def _black_out(self) -> None:
        """Lose the power of all hosts after an orderly stop of all brokers, which syncs all."""
        hosts = self._cluster.brokers
        if not all(host.may_stop for host in hosts):
            return
        runs = [host.process for host in hosts]
        await asyncio.gather(*(self._stop(host) for host in hosts))
        if runs == [host.process for host in hosts] and all(host.has_stopped for host in hosts):
            self.counts["black-out"] += 1
            for each in self._cluster.hosts:
                each.lose_power()
        await self._some_time()
        for each in self._cluster.hosts:
            await self._boot(each)

    async def _lose_coordinator_power(self) -> None:
        if self._cluster.coordinator.is_up:
            await self._lose_power_of(self._cluster.coordinator)

    async def _lose_power_of(self, host: Host) -> None:
        """Lose the power between two steps of the program, or in a call of its disk."""
        process = host.process
        assert process is not None
        if self._chance.random() < 0.5 and host.disk.may_lose_power():
            host.lose_power()
        else:
            host.disk.calls_to_loss = self._chance.randrange(1, MAX_CALLS_TO_LOSS)
            await asyncio.wait((asyncio.ensure_future(process.death.wait()),), timeout=CALL_S)
            host.disk.calls_to_loss = None
        self.counts["power lost"] += process.is_dead
        await self._some_time()
        await self._boot(host)

    def _disk_host(self) -> BrokerHost:
        """Return a broker whose disk may fail. A follower with such a disk is not in sync."""
        return self._chance.choice([h for h in self._cluster.brokers if h not in self._spared])

    async def _fill_disk(self) -> None:
        host = self._disk_host()
        with self._afflict(host.name):
            host.disk.free_bytes = self._chance.choice((0, 10_000, 1_000_000))
            await self._some_time()
            host.disk.free_bytes = None
            await self._restart_if_offline(host)

    async def _fill_log_dir(self) -> None:
        """Leave no space to one of two log dirs."""
        host = self._disk_host()
        if len(host.log_dirs) > 1:
            with self._afflict(host.name):
                host.disk.full = self._chance.choice(host.log_dirs)
                await self._some_time()
                host.disk.full = None
                await self._restart_if_offline(host)

    async def _restart_if_offline(self, host: BrokerHost) -> None:
        """Restart a broker whose start found no space to recover a log dir, as operators do."""
        logs = getattr(host.program, "_logs", None) if host.is_up else None
        if logs is not None and logs.table.offline_paths:
            host.kill()
            await self._boot(host)

    async def _slow_disk(self) -> None:
        host = self._chance.choice([h for h in self._cluster.hosts if h not in self._spared])
        with self._afflict(host.name):
            self._loop.slow_hosts[host.name] = self._chance.choice(((0.0, 0.5), (0.0, 3.0)))
            await self._some_time()
            self._loop.slow_hosts.pop(host.name, None)

    async def _lack_descriptors(self) -> None:
        host = self._disk_host()
        with self._afflict(host.name):
            host.disk.has_descriptors = False
            await self._some_time()
            host.disk.has_descriptors = True

    async def _break_log_dir(self) -> None:
        """Let every call on one of two log dirs fail until the broker is restarted."""
        host = self._up_broker()
        if host is None or len(host.log_dirs) == 1 or host.disk.broken is not None:
            return
        host.disk.broken = self._chance.choice(host.log_dirs)
        with self._afflict(host.name):
            await self._some_time()
            if host.is_up:
                host.kill()
            host.disk.broken = None
            await self._boot(host)

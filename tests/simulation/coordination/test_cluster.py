"""Clients, a coordinator and a faulty network in one simulated loop: invariants for every seed.

Faults: lost connections, an unreachable coordinator, and a crashed coordinator that recovers from
the synced part of its log. A minute of virtual time takes seconds.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from coordination.client import Client, SessionState, WatchEvent, ops, patterns
from coordination.errors import (
    BadVersionError,
    ConnectionLossError,
    NodeExistsError,
    SessionExpiredError,
)
from coordination.protocol.messages import EventType
from coordination.server.connection_outputs import Outputs
from coordination.server.coordinator_config import Address, CoordinatorConfig
from coordination.server.server import Server
from coordination.server.state.service import Service
from coordination.server.state.sessions import Passwords, first_session_id
from coordination.server.state.tree import State
from coordination.server.state.txns import Entry
from tests.simulation.coordination.virtual_loop import VirtualLoop

ADDRESS: Final = "server:1"
CLIENTS: Final = 4
RUN_S: Final = 60.0
TIMEOUT_MS: Final = 3000
SYNC_S: Final = (0.0001, 0.02)


class CrashableLog:
    """Log that keeps the synced entries; the others are lost in a crash."""

    def __init__(self, loop: VirtualLoop, durable: list[Entry]) -> None:
        self._loop = loop
        self.durable = durable
        self._written: list[Entry] = []
        self._is_dead = False

    def append(self, entries: Sequence[Entry]) -> None:
        self._written = list(entries)

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        self._loop.call_later(self._loop.chance.uniform(*SYNC_S), self._synced, done)

    def _synced(self, done: Callable[[OSError | None], None]) -> None:
        if not self._is_dead:
            self.durable += self._written
            done(None)

    def die(self) -> None:
        self._is_dead = True

    def idle(self) -> None:
        pass

    def close(self) -> None:
        pass


class World:
    """State of one run."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.durable: list[Entry] = []
        self.versions: dict[int, str] = {}
        self.created: set[str] = set()
        self.pairs: set[str] = set()
        self.crash_count = self.outage_count = 0
        self.expired_count = self.loss_count = self.seen_count = 0
        self.is_over = False
        self.server: Server
        self.log: CrashableLog

    async def start_server(self) -> None:
        state = State()
        for entry in self.durable:
            state.apply(entry)
        wall_ms = int(self.loop.time() * 1000)
        self.log = CrashableLog(self.loop, self.durable)
        self.server = Server(
            Service(state, first_session_id(1, wall_ms, state.last_session_id)),
            self.log,
            CoordinatorConfig(listen=Address("server", 1)),
            Passwords(b"s" * 32, zookeeper_compatible=False),
            wall_clock_ms=lambda: int(self.loop.time() * 1000),
            on_fatal=self.fail,
            new_nonce=lambda: "nonce",
        )
        await self.server.start()

    def fail(self, error: BaseException) -> None:
        raise AssertionError("this log never fails") from error

    async def crash_server(self) -> None:
        self.crash_count += 1
        self.log.die()
        assert self.server._timer is not None
        self.server._timer.cancel()
        self.server.listeners.close()
        self.loop.network.cut_all()
        await asyncio.sleep(self.loop.chance.uniform(0.01, 2.0))
        await self.start_server()

    async def torment(self) -> None:
        chance, network = self.loop.chance, self.loop.network
        while not self.is_over:
            await asyncio.sleep(chance.uniform(0.05, 3.0))
            match chance.randrange(6):
                case 0:
                    await self.crash_server()
                case 1:
                    self.outage_count += 1
                    network.unreachable.add(ADDRESS)
                    await asyncio.sleep(chance.uniform(0.1, 6.0))
                    network.unreachable.discard(ADDRESS)
                case _:
                    network.cut_one()

    async def live(self, number: int) -> None:
        """Run one client, which sends requests and restarts after lost connections and sessions."""
        client = Client(
            ADDRESS,
            session_timeout_ms=TIMEOUT_MS,
            has_heartbeat_thread=False,
            random=self.loop.chance,
        )
        order = Order(self, client)
        while not self.is_over:
            try:
                if client.state in (SessionState.DISCONNECTED, SessionState.EXPIRED):
                    await client.connect(timeout_s=60)
                    order.begin()
                    await client.add_watch("/counter", order.on_event)
                await self.work(client, number, order)
            except SessionExpiredError:
                self.expired_count += 1
            except ConnectionLossError:
                self.loss_count += 1
                await asyncio.sleep(0.05)
        await client.abandon()

    async def work(self, client: Client, number: int, order: "Order") -> None:
        match self.loop.chance.randrange(5):
            case 0:
                self.created.add(await client.create("/n-", sequential=True))
            case 1:
                await self.write_pair(client)
            case 2:
                await self.increment(client, number, order)
            case 3:
                await self.own(client, number)
            case _:
                order.on_read((await client.get_data("/counter"))[1].version)

    async def write_pair(self, client: Client) -> None:
        name = f"/pair-{len(self.pairs)}-{self.loop.chance.getrandbits(40)}"
        await client.multi([ops.create(f"{name}-a"), ops.create(f"{name}-b")])
        self.pairs.add(name)

    async def increment(self, client: Client, number: int, order: "Order") -> None:
        _, stat = await client.get_data("/counter")
        order.on_read(stat.version)
        value = f"{number}-{self.loop.chance.getrandbits(40)}"
        try:
            after = await patterns.set_data(client, "/counter", value.encode(), stat.version)
        except BadVersionError:
            return
        assert after.version not in self.versions, "two writers won the same version"
        self.versions[after.version] = value

    async def own(self, client: Client, number: int) -> None:
        try:
            stat = await patterns.create_ephemeral(client, f"/own-{number}", b"")
        except NodeExistsError:
            # The previous session of this client still owns it.
            return
        assert stat.ephemeral_owner == client.session_id

    async def check_end(self) -> None:
        async with Client(ADDRESS, has_heartbeat_thread=False) as client:
            names = {f"/{name}" for name in await client.get_children("/")}
            _, stat = await client.get_data("/counter")
        assert self.created <= names, "an acknowledged create is lost"
        assert {f"{pair}-{half}" for pair in self.pairs for half in "ab"} <= names
        halves = [name for name in names if name.startswith("/pair-")]
        assert all(f"{name[:-1]}{'b' if name[-1] == 'a' else 'a'}" in names for name in halves)
        assert stat.version >= max(self.versions)
        owners = self.server.service.state.tree.ephemerals
        assert set(owners) <= set(self.server.service.state.timeouts_ms)


class Order:
    """Checks that a session never reads an older version of the counter than before."""

    def __init__(self, world: World, client: Client) -> None:
        self._world = world
        self._client = client
        self._version = -1

    def begin(self) -> None:
        """Start a new session, which may read older versions, as in an ensemble."""
        self._version = -1

    def on_read(self, version: int) -> None:
        assert version >= self._version, f"read {version} after {self._version}"
        self._version = version

    def on_event(self, event: WatchEvent) -> None:
        assert event.type is EventType.NODE_DATA_CHANGED
        self._world.seen_count += 1


async def run(loop: VirtualLoop) -> World:
    world = World(loop)
    await world.start_server()
    async with Client(ADDRESS, has_heartbeat_thread=False) as client:
        await client.create("/counter")
    tasks: list[asyncio.Task[Any]] = [
        asyncio.create_task(world.live(number)) for number in range(CLIENTS)
    ]
    torment = asyncio.create_task(world.torment())
    await asyncio.sleep(RUN_S)
    world.is_over = True
    await torment
    await asyncio.gather(*tasks)
    await world.check_end()
    await world.server.stop()
    return world


@pytest.mark.fresh_seeds(2)
def test_acknowledged_writes_survive_and_reads_never_go_back(seed: int) -> None:
    survive(seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200), ids=lambda seed: f"seed{seed}")
def test_acknowledged_writes_survive_in_many_histories(seed: int) -> None:
    survive(seed)


def survive(seed: int) -> None:
    loop = VirtualLoop(seed)
    errors: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _loop, context: errors.append(context))
    try:
        world = loop.run_until_complete(run(loop))
    finally:
        loop.close()
    assert errors == []
    # The run was not vacuous.
    assert len(world.versions) > 20
    assert len(world.created) > 20
    assert len(world.pairs) > 20
    assert world.crash_count + world.outage_count + loop.network.cut_count > 0
    assert world.loss_count > 0
    assert world.seen_count > 0


def test_the_simulation_detects_replies_sent_before_the_sync(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add = Outputs.add
    monkeypatch.setattr(
        Outputs,
        "add",
        lambda self, packet, tag, zxid: add(self, packet, 0 if packet else tag, zxid),
    )
    loop = VirtualLoop(0)
    try:
        with pytest.raises(AssertionError, match=r"lost|counter|after|same version"):
            loop.run_until_complete(run(loop))
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def test_the_loop_detects_a_deadlock() -> None:
    loop = VirtualLoop(1)
    with pytest.raises(RuntimeError, match="deadlock"):
        loop.run_until_complete(asyncio.Event().wait())
    loop.close()

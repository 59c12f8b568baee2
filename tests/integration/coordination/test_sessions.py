"""Sessions and ephemeral nodes after hangs, restarts and lost connections, and in large numbers."""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coordination.client import Client, SessionState, patterns, session_file
from coordination.errors import ConnectionLossError
from coordination.protocol.messages import OPEN_ACL, ConnectResponse, CreateFlag, CreateRequest
from tests.integration.coordination.conftest import StartCoordinator
from tests.integration.coordination.lost_time import LostTime
from tests.integration.coordination.process import (
    ROOT,
    Coordinator,
    RawClient,
    four_letter,
    session_of,
)
from tests.waiting import until_sync

DEADLINE_S = 120.0
IDLE_MS = 3_600_000
ENDING_MS = 3000
"""Timeout of a session that ends, or nearly does: a busy machine needs a part of it."""
SYNC_S = 2.0
"""Time for the end of a session after its deadline: a tick, and a sync of a busy disk."""
# A client that creates an ephemeral node, prints "ready", and waits to be killed.
OWNER = """
import asyncio, sys
from pathlib import Path
from coordination.client import Client
async def main():
    address, path, timeout_ms, linger, file = sys.argv[1:6]
    client = Client(address, session_timeout_ms=int(timeout_ms), has_linger=linger == "linger",
                    session_file_path=Path(file))
    await client.connect()
    await client.create(path, ephemeral=True)
    print("ready", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


class Owner:
    """Process that owns one ephemeral node."""

    def __init__(
        self, server: Coordinator, path: str, timeout_ms: int, tmp_path: Path, linger: str = "no"
    ) -> None:
        self.file = tmp_path / "session"
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWNER, server.address, path, str(timeout_ms), linger, self.file],
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


async def gone_after_s(client: Client, path: str, begin_s: float) -> float:
    """Wait for the deletion of `path`; return the time from `begin_s` to its event."""
    gone = asyncio.Event()
    if await client.exists(path, lambda _event: gone.set()) is not None:
        async with asyncio.timeout(DEADLINE_S):
            await gone.wait()
    return time.monotonic() - begin_s


def stalled_s(server: Coordinator) -> float:
    """Return the time by which the coordinator has extended its sessions, as it did not run."""
    lines = server.log.read_text().splitlines()
    stalls = [json.loads(line) for line in lines if "coordinator.stalled" in line]
    return sum(float(each["duration_ms"]) for each in stalls) / 1000


def assert_after_timeout(took_s: float, late_s: float) -> None:
    """Check that a session has ended at its timeout, on a machine that was late by `late_s`."""
    timeout_s = ENDING_MS / 1000
    # Its last ping may be a third of the timeout old, and more in a process that is late, too.
    assert timeout_s / 3 < took_s < timeout_s + SYNC_S + late_s


async def test_a_suspended_client_loses_its_session_after_the_timeout(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    owner = Owner(coordinator, "/e", ENDING_MS, tmp_path)
    async with Client(coordinator.address) as watcher, LostTime() as lost:
        begin_s = time.monotonic()
        os.kill(owner.process.pid, signal.SIGSTOP)
        took_s = await gone_after_s(watcher, "/e", begin_s)
    owner.end()
    assert_after_timeout(took_s, lost.total_s + stalled_s(coordinator))


async def test_the_node_of_a_killed_client_is_deleted_after_the_timeout(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    owner = Owner(coordinator, "/e", ENDING_MS, tmp_path)
    async with Client(coordinator.address) as watcher, LostTime() as lost:
        begin_s = time.monotonic()
        owner.end()
        took_s = await gone_after_s(watcher, "/e", begin_s)
    assert_after_timeout(took_s, lost.total_s + stalled_s(coordinator))


async def test_with_linger_the_node_of_a_killed_client_is_deleted_at_once(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    owner = Owner(coordinator, "/e", 20_000, tmp_path, "linger")
    async with Client(coordinator.address) as watcher, LostTime() as lost:
        begin_s = time.monotonic()
        owner.end()
        took_s = await gone_after_s(watcher, "/e", begin_s)
    late_s = lost.total_s + stalled_s(coordinator)
    assert 0.2 < took_s < 0.5 + SYNC_S + late_s


async def test_a_supervisor_closes_the_session_of_a_dead_process_before_it_expires(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    owner = Owner(coordinator, "/e", 40_000, tmp_path)
    assert owner.file.stat().st_mode & 0o777 == 0o600
    async with Client(coordinator.address) as watcher:
        owner.end()
        assert await watcher.exists("/e") is not None
        assert await patterns.end_dead_session(owner.file, DEADLINE_S)
        assert await watcher.exists("/e") is None
    assert "zk_expired_session_count\t0" in four_letter(coordinator.port, "mntr")
    assert await session_file.load(owner.file) is None


@pytest.mark.parametrize("stop_s", [4, pytest.param(10, marks=pytest.mark.soak)])
async def test_a_suspended_coordinator_expires_no_session(
    coordinator: Coordinator, stop_s: float
) -> None:
    clients = [RawClient(coordinator.port, ENDING_MS) for _ in range(3)]
    sessions = [session_of(client.shake_hands()) for client in clients]
    coordinator.signal(signal.SIGSTOP)
    # The pause itself is the experiment, not a wait for a condition.
    await asyncio.sleep(stop_s)
    coordinator.signal(signal.SIGCONT)
    # Their pings are unread in the sockets, or not sent yet.
    for client in clients:
        assert client.ask(1, 11)[0].err == 0
    assert f"zk_global_sessions\t{len(sessions)}" in four_letter(coordinator.port, "mntr")
    assert "zk_expired_session_count\t0" in four_letter(coordinator.port, "mntr")
    for client in clients:
        client.socket.close()


@pytest.mark.parametrize("end", ["kill", "stop"])
async def test_a_restart_keeps_the_nodes_of_clients_that_reconnect(
    coordinator: Coordinator, end: str
) -> None:
    states: list[SessionState] = []
    # The timeout exceeds the restart of the coordinator on a busy machine.
    async with Client(coordinator.address, session_timeout_ms=20_000) as owner:
        owner.on_state_change(states.append)
        await owner.create("/mine", b"1", ephemeral=True)
        session_id, stat = owner.session_id, await owner.exists("/mine")
        with RawClient(coordinator.port, 1000) as other:
            lost_id, _ = session_of(other.shake_hands())
            other.ask(1, 1, create_ephemeral("/theirs"))
        coordinator.kill() if end == "kill" else coordinator.stop()
        coordinator.start()
        assert await patterns.retry_read(lambda: owner.exists("/mine")) == stat
        assert owner.session_id == session_id
        assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]

        await gone_after_s(owner, "/theirs", time.monotonic())
        assert lost_id != session_id
        assert await owner.exists("/mine") == stat


def create_ephemeral(path: str) -> tuple[object, ...]:
    return CreateRequest(path, b"", OPEN_ACL, CreateFlag.EPHEMERAL)


async def test_a_client_is_notified_that_its_session_expired(
    coordinator: Coordinator,
) -> None:
    client = Client(coordinator.address)
    await client.connect()
    expired = asyncio.Event()
    client.on_state_change(lambda state: expired.set() if state is SessionState.EXPIRED else None)
    with RawClient(coordinator.port) as thief:
        thief.shake_hands(client.session_id, client.session.password)
        thief.ask(1, -11)
    async with asyncio.timeout(DEADLINE_S):
        await expired.wait()
    with pytest.raises(Exception, match="session_expired"):
        await client.exists("/")
    await client.connect()
    assert await client.exists("/") is not None
    await client.close()


async def test_a_client_without_a_server_becomes_suspect_and_then_expired(
    coordinator: Coordinator,
) -> None:
    # A loop that is late by a third of the timeout skips the state SUSPECT.
    client = Client(coordinator.address, session_timeout_ms=3000)
    await client.connect()
    states: list[SessionState] = []
    expired = asyncio.Event()
    client.on_state_change(states.append)
    client.on_state_change(lambda state: expired.set() if state is SessionState.EXPIRED else None)
    waiting = client.get_data("/")
    await waiting
    await asyncio.to_thread(coordinator.kill)
    async with asyncio.timeout(DEADLINE_S):
        await expired.wait()
    assert states == [SessionState.SUSPENDED, SessionState.SUSPECT, SessionState.EXPIRED]
    await client.close()


async def test_a_pending_request_of_a_lost_connection_is_reported_as_lost(
    coordinator: Coordinator,
) -> None:
    # The timeout exceeds the restart of the coordinator on a busy machine.
    client = Client(coordinator.address, session_timeout_ms=20_000)
    await client.connect()
    coordinator.signal(signal.SIGSTOP)
    sent = client.create("/a")
    await asyncio.sleep(0.05)
    coordinator.kill()
    with pytest.raises(ConnectionLossError) as caught:
        await sent
    assert caught.value.maybe_applied
    coordinator.start()
    assert await patterns.retry_read(lambda: client.exists("/a")) is None
    await client.close()


@pytest.mark.parametrize("wanted", [1000, pytest.param(10_000, marks=pytest.mark.soak)])
async def test_many_idle_sessions_use_little_memory(
    start_coordinator: StartCoordinator, wanted: int
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Earlier tests of this process may have left open files to the garbage collector.
    needed = open_file_count() + wanted + 200
    if hard < needed:
        pytest.skip(f"needs {needed} open files, the hard limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    # They send nothing, and live until the last one has begun.
    coordinator = start_coordinator(f"--max-session-timeout={IDLE_MS}")
    before = resident_bytes(coordinator)
    clients: list[RawClient] = []
    try:
        for _ in range(wanted):
            client = RawClient(coordinator.port, IDLE_MS)
            clients.append(client)
            answer = client.shake_hands()
            assert answer is not None
            assert isinstance(answer.record, ConnectResponse)
            assert answer.record.session_id
        grown = resident_bytes(coordinator) - before
        async with Client(coordinator.address) as other:
            before_s = processor_s(coordinator)
            await other.create("/x")
            # Its processor time: its disk, and other processes, may take much longer.
            assert processor_s(coordinator) - before_s < 1
        assert f"zk_global_sessions\t{wanted}" in four_letter(coordinator.port, "mntr")
        assert grown / wanted < 16_000
    finally:
        for client in clients:
            client.socket.close()
        coordinator.kill()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_coordinator_raises_its_limit_of_open_files(tmp_path: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limited = ["sh", "-c", 'ulimit -Sn 256 && exec "$@"', "sh", sys.executable, "-m"]
    arguments = ["coordination", "--listen=127.0.0.1:0", f"--data-dir={tmp_path}"]
    with subprocess.Popen(
        [*limited, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready ")
        limits = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        process.terminate()
    assert limits == (hard, hard)


def open_file_count() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def processor_s(server: Coordinator) -> float:
    """Return the processor time of all threads. Source: proc(5)."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(server: Coordinator) -> int:
    status = Path(f"/proc/{server.pid}/statm").read_text()
    return int(status.split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_an_idle_coordinator_uses_little_memory(coordinator: Coordinator) -> None:
    async with Client(coordinator.address) as client:
        await client.create("/a")
    assert resident_bytes(coordinator) <= 50 * 1024 * 1024


async def test_a_busy_loop_keeps_its_session_and_a_hung_one_loses_it(
    coordinator: Coordinator,
) -> None:
    async with Client(coordinator.address, session_timeout_ms=ENDING_MS) as client:
        states: list[SessionState] = []
        client.on_state_change(states.append)
        assert client.session._heartbeat is not None
        for _ in range(2):
            # Blocks the loop, like a long computation.
            time.sleep(0.45 * ENDING_MS / 1000)  # noqa: ASYNC251
            await client.exists("/")
        assert client.session._heartbeat.sent_count > 0
        assert states == []
        expired = asyncio.Event()
        client.on_state_change(lambda now: expired.set() if now is SessionState.EXPIRED else None)
        # Blocks the loop until the coordinator has ended the session.
        until_sync(lambda: "zk_expired_session_count\t1" in four_letter(coordinator.port, "mntr"))
        async with asyncio.timeout(DEADLINE_S):
            await expired.wait()

"""A broker's session with the coordinator that expires at a bad moment."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.cluster import coordinator_session
from broker.cluster.coordinator_session import CoordinatorSession
from broker.cluster.member import ClusterMember
from broker.config.broker_config import BrokerConfig
from broker.errors import StartupError
from broker.live_configs.live_configs import LiveConfigs
from broker.node import Node
from broker.security.acl_nodes import AclNodes
from broker.security.token_nodes import TokenNodes
from clusterstate.znodes import paths
from coordination.client import Client
from coordination.errors import SessionExpiredError
from coordination.protocol.messages import OpCode
from kafkawire.ids import BrokerId
from tests.integration.coordination.process import DEADLINE_S, Coordinator, RawClient, kill_all
from tests.ports import free_port
from tests.waiting import until

TIMEOUT_MS = 8_000
ID = BrokerId(1)


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    started = Coordinator(tmp_path / "coordinator")
    yield started
    kill_all([started])


def end(session: CoordinatorSession, port: int) -> None:
    """End the session at the coordinator; its owner notices only after this returns."""
    with RawClient(port) as other:
        assert other.shake_hands(session.client.session_id, session.client.session.password)
        other.ask(1, OpCode.CLOSE_SESSION)


async def test_a_session_that_ends_before_the_registration_is_followed_by_another(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    session = CoordinatorSession(
        coordinator.address,
        tmp_path / "session",
        timeout_ms=TIMEOUT_MS,
        connect_timeout_ms=TIMEOUT_MS,
    )
    heard: list[str] = []
    epochs: list[int] = []
    await session.open()
    session.watch(paths.BROKER_IDS, lambda: heard.append("look again"))
    session.on_registered = epochs.append
    first = session.client.session_id
    end(session, coordinator.port)
    with pytest.raises(SessionExpiredError):
        await session.register(ID, lambda: b"{}")
    assert (heard, epochs) == ([], [])

    await session.renew()
    assert session.client.session_id != first
    assert heard == ["look again"]
    await session.register(ID, lambda: b"{}")
    assert epochs == [session.broker_epoch]
    stat = await session.client.exists(paths.broker(ID))
    assert stat is not None
    assert (stat.czxid, stat.ephemeral_owner) == (epochs[0], session.client.session_id)
    await session.close()


@pytest.mark.parametrize(
    ("part", "step"),
    [
        (ClusterMember, "_identify"),
        (LiveConfigs, "load"),
        (AclNodes, "load"),
        (TokenNodes, "load"),
    ],
)
async def test_a_broker_starts_although_its_session_ends_within_a_step(
    coordinator: Coordinator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    part: type,
    step: str,
) -> None:
    plain: Callable[..., Awaitable[object]] = getattr(part, step)
    sessions: list[int] = []

    async def end_first(*arguments: object) -> object:
        session = node._member.session
        sessions.append(session.client.session_id)
        if len(sessions) == 1:
            end(session, coordinator.port)
        return await plain(*arguments)

    monkeypatch.setattr(part, step, end_first)
    properties = {
        "broker.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(tmp_path / "logs"),
        "zookeeper.connect": coordinator.address,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
        "delegation.token.secret.key": "s3cret",
    }
    node = Node(BrokerConfig.from_properties(properties), asyncio.get_running_loop())
    await node.start()
    try:
        assert node.is_registered
        assert len(set(sessions)) == len(sessions) == 2
    finally:
        await node.stop()


class NoCandidate:
    """A controller component that never was controller; `reelected` is set by `reelect`."""

    def __init__(self) -> None:
        self.reelected = asyncio.Event()

    async def expire(self) -> None:
        return None

    def reelect(self) -> None:
        self.reelected.set()


async def test_a_broker_recognizes_registrations_of_its_earlier_sessions(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    session = CoordinatorSession(
        coordinator.address,
        tmp_path / "session",
        timeout_ms=TIMEOUT_MS,
        connect_timeout_ms=TIMEOUT_MS,
    )
    sessions: list[int] = []
    doubts: list[bool] = []

    def encode() -> bytes:
        sessions.append(session.client.session_id)
        doubts.append(session.is_in_doubt)
        if len(sessions) == 2:
            # The second session is closed before the response to its registration.
            session.client.session.expire()
        return b"{}"

    candidate, failures = NoCandidate(), list[str]()
    await session.open()
    await session.register(ID, encode)
    session.keep_registered(ID, encode, candidate, failures.append)
    # Only the client closes it, like after a pause of the coordinator, which keeps the session.
    session.client.session.expire()
    async with asyncio.timeout(DEADLINE_S):
        await candidate.reelected.wait()
    assert failures == []
    assert len(set(sessions)) == 3
    assert doubts == [False, True, True]
    stat = await session.client.exists(paths.broker(ID))
    assert stat is not None
    assert stat.ephemeral_owner == sessions[-1] == session.client.session_id
    await asyncio.sleep(0)
    assert not session.is_in_doubt
    await session.close()


async def test_a_slow_answer_to_a_registration_is_not_taken_for_another_process(
    coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every answer takes longer.
    monkeypatch.setattr(coordinator_session, "REGISTRATION_WAIT_S", 0)
    first, second = (
        CoordinatorSession(
            coordinator.address,
            tmp_path / f"session-{number}",
            timeout_ms=TIMEOUT_MS,
            connect_timeout_ms=TIMEOUT_MS,
        )
        for number in range(2)
    )
    await first.open()
    await first.register(ID, lambda: b"{}")
    await second.open()
    with pytest.raises(StartupError, match="broker 1 is registered already"):
        await second.register(ID, lambda: b"{}")
    await first.close()
    await second.close()


async def test_a_missing_chroot_is_created(coordinator: Coordinator, tmp_path: Path) -> None:
    connect = f"{coordinator.address}/a/chroot"
    for number in range(2):
        session = CoordinatorSession(
            connect,
            tmp_path / f"session-{number}",
            timeout_ms=TIMEOUT_MS,
            connect_timeout_ms=TIMEOUT_MS,
        )
        await session.open()
        assert await session.client.exists(paths.BROKER_IDS) is not None
        await session.close()
    async with Client(coordinator.address) as outside:
        assert "ids" in await outside.get_children("/a/chroot/brokers")


async def test_a_coordinator_that_lost_its_data_is_named(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    session = CoordinatorSession(
        coordinator.address,
        tmp_path / "session",
        timeout_ms=TIMEOUT_MS,
        connect_timeout_ms=TIMEOUT_MS,
    )
    failure: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    await session.open()
    await session.register(ID, lambda: b"{}")
    session.keep_registered(ID, lambda: b"{}", NoCandidate(), failure.set_result)
    coordinator.kill()
    shutil.rmtree(coordinator.directory)
    coordinator.start()
    async with asyncio.timeout(DEADLINE_S):
        assert (await failure).startswith("the coordinator has lost /brokers/ids: restore")
    await session.close()


async def test_a_broker_logs_the_reason_why_it_reaches_no_coordinator(tmp_path: Path) -> None:
    session = CoordinatorSession(
        f"127.0.0.1:{free_port()}",
        tmp_path / "session",
        timeout_ms=TIMEOUT_MS,
        connect_timeout_ms=100,
    )
    with capture_logs() as captured:
        renewal = asyncio.create_task(session.renew())
        await until(lambda: any(each["event"] == "coordinator.not_reached" for each in captured))
        renewal.cancel()
        await asyncio.gather(renewal, return_exceptions=True)
    reasons = [each["error"] for each in captured if each["event"] == "coordinator.not_reached"]
    assert reasons[0].endswith("connection refused")
    await session.close()

"""Brokers at a coordinator with TLS, logins and access control lists."""

import asyncio
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from coordination.client import Client, Login
from coordination.errors import NoAuthError, OperationError
from coordination.protocol.messages import OPEN_ACL, Acl
from tests.certificates import Authority, needs_openssl
from tests.conftest import READY_TIMEOUT_S, BrokerProcess, StartBroker
from tests.integration.broker.wire import Wire, batch
from tests.integration.coordination.process import Coordinator, kill_all
from tests.ports import free_port

BROKER = Login(user="broker", password="planted-s3cret")
DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule required"
READ = Acl(1, "world", "anyone")


class StartCoordinator(Protocol):
    """Starts a coordinator and returns it once it is ready."""

    def __call__(self, *options: str) -> Coordinator:
        """Start with these command-line options."""


@pytest.fixture
def start_coordinator(tmp_path: Path) -> Iterator[StartCoordinator]:
    started: list[Coordinator] = []

    def start(*options: str) -> Coordinator:
        started.append(Coordinator(tmp_path / f"coordinator-{len(started)}", *options))
        return started[-1]

    yield start
    kill_all(started)


@pytest.fixture
def login_config(tmp_path: Path) -> Path:
    """Return a login file for both sides."""
    path = tmp_path / "login.conf"
    path.touch(mode=stat.S_IRUSR | stat.S_IWUSR)
    path.write_text(
        f'Server {{ {DIGEST} user_broker="{BROKER.password}"; }};\n'
        f'Client {{ {DIGEST} username="{BROKER.user}" password="{BROKER.password}"; }};\n'
    )
    return path


async def acls(client: Client) -> dict[str, tuple[Acl, ...]]:
    """Return the list of each node."""
    found, waiting = {}, ["/"]
    while waiting:
        path = waiting.pop()
        found[path] = (await client.get_acl(path))[0]
        names = await client.get_children(path)
        waiting += [f"{path.rstrip('/')}/{name}" for name in names]
    return {path: acl for path, acl in found.items() if not path.startswith("/zookeeper")}


def produce(broker: BrokerProcess) -> None:
    with Wire(broker.port) as wire:
        wire.create_topic("t")
        wire.produce("t", batch(b"a"))


def check_acls(found: dict[str, tuple[Acl, ...]], own: Acl) -> None:
    for path, acl in found.items():
        if path in ("/", "/consumers"):
            assert acl == OPEN_ACL, path
        elif path.startswith(("/config/users", "/config/brokers")):
            assert acl == (own,), path
        else:
            assert acl == (own, READ), path
    assert {"/brokers/ids/1", "/brokers/topics/t/partitions/0/state", "/controller"} <= set(found)


async def test_a_broker_that_logs_in_owns_its_znodes(
    start_coordinator: StartCoordinator, start_broker: StartBroker, login_config: Path
) -> None:
    coordinator = start_coordinator(f"--login-config={login_config}")
    broker = start_broker(
        None,
        {
            "broker.id": "1",
            "zookeeper.connect": coordinator.address,
            "zookeeper.set.acl": "true",
            "java.security.auth.login.config": str(login_config),
        },
    )
    await asyncio.to_thread(produce, broker)
    async with Client(coordinator.address, login=BROKER) as client:
        check_acls(await acls(client), Acl(31, "sasl", "broker"))
    async with Client(coordinator.address) as anonymous:
        assert (await anonymous.get_data("/brokers/ids/1"))[0]
        for attempt in (
            anonymous.set_data("/brokers/topics/t", b"{}"),
            anonymous.delete("/brokers/ids/1"),
            anonymous.create("/config/users/eve", b"{}"),
            anonymous.get_data("/config/users"),
        ):
            with pytest.raises(NoAuthError):
                await attempt
    for text in (broker.log_tail(), coordinator.log.read_text()):
        assert "planted-s3cret" not in text


@needs_openssl
async def test_a_broker_is_known_by_its_certificate(
    start_coordinator: StartCoordinator, start_broker: StartBroker, tmp_path: Path
) -> None:
    authority, port = Authority.make(tmp_path), free_port()
    own, server = authority.issue("broker", "/O=Org/CN=broker"), authority.issue("server")
    start_coordinator(
        f"--tls-listen=127.0.0.1:{port}",
        f"--tls-cert={server.certificate}",
        f"--tls-key={server.key}",
        f"--tls-ca={authority.own.certificate}",
        "--enforce-auth-schemes=x509",
    )
    broker = start_broker(
        None,
        {
            "broker.id": "1",
            "zookeeper.connect": f"127.0.0.1:{port}/kafka",
            "zookeeper.set.acl": "true",
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.keystore.location": str(own.store),
            "zookeeper.ssl.truststore.location": str(authority.own.store),
        },
    )
    await asyncio.to_thread(produce, broker)
    async with Client(f"127.0.0.1:{port}/kafka", tls=authority.context(own)) as client:
        found = await acls(client)
    assert found.pop("/") == (Acl(31, "x509", "CN=broker,O=Org"), READ), "the chroot"
    check_acls(found, Acl(31, "x509", "CN=broker,O=Org"))


def test_the_reason_of_a_refused_login_is_logged(
    start_coordinator: StartCoordinator, login_config: Path, tmp_path: Path
) -> None:
    users = tmp_path / "users.conf"
    users.write_text(f'Server {{ {DIGEST} user_broker="other"; }};')
    coordinator = start_coordinator(f"--login-config={users}")
    broker = BrokerProcess(
        tmp_path / "broker",
        {
            "zookeeper.connect": coordinator.address,
            "zookeeper.connection.timeout.ms": "1000",
            "java.security.auth.login.config": str(login_config),
        },
    )
    assert broker.process.wait(READY_TIMEOUT_S) == 1
    broker.kill()
    assert "the server refuses the login of user broker" in broker.log_tail()
    assert "planted-s3cret" not in broker.log_tail()


async def test_the_coordinator_of_a_single_broker_serves_nobody_else(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()
    port = broker.wait_for_event("coordinator.started")["listen"]
    client = Client(f"127.0.0.1:{port}")
    await client.connect()
    with pytest.raises(OperationError, match="session_closed_require_sasl"):
        await client.get_children("/")
    await client.abandon()
    stranger = Client(f"127.0.0.1:{port}", login=BROKER)
    with pytest.raises(OperationError):
        await stranger.connect(timeout_s=1)

"""TLS, DIGEST-MD5 and lists of znodes between Ottla and Java: Kafka 3.9.1, ZooKeeper 3.8.4.

Kafka's brokers and ZooKeeper's shell use our coordinator, and our broker uses ZooKeeper.
"""

import asyncio
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from clusterstate.znodes.access import secure_acl
from coordination.client import Client, Login
from coordination.errors import NodeExistsError
from coordination.protocol.messages import OPEN_ACL, READ_ONLY_ACL, Acl
from tests.certificates import Authority, Certificate, needs_openssl
from tests.conftest import READY_EVENT, BrokerProcess
from tests.integration.broker.wire import Wire, batch
from tests.integration.coordination.process import Coordinator, ZooKeeper, wait_until
from tests.interop.kafka_broker import START_TIMEOUT_S, KafkaBroker
from tests.interop.kafka_jars import JARS, TIMEOUT_S, needs_jars
from tests.ports import free_port

pytestmark = [*needs_jars, needs_openssl]

DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule required"
BROKER = Login(user="broker", password="planted-s3cret")
OWN = Acl(31, "sasl", BROKER.user)
NETTY = "org.apache.zookeeper.ClientCnxnSocketNetty"


@dataclass
class Files:
    """Certificates, and a login file for both sides."""

    authority: Authority
    server: Certificate
    broker: Certificate
    login: Path

    def broker_settings(self) -> Mapping[str, str]:
        """Return Kafka's keys for the connection to the coordinator."""
        return {
            "zookeeper.set.acl": "true",
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": NETTY,
            "zookeeper.ssl.keystore.location": str(self.broker.store),
            "zookeeper.ssl.keystore.type": "PEM",
            "zookeeper.ssl.truststore.location": str(self.authority.own.certificate),
            "zookeeper.ssl.truststore.type": "PEM",
        }


@pytest.fixture
def files(tmp_path: Path) -> Files:
    authority = Authority.make(tmp_path)
    login = tmp_path / "login.conf"
    login.touch(mode=0o600)
    login.write_text(
        f'Server {{ {DIGEST} user_broker="{BROKER.password}"; }};\n'
        f'Client {{ {DIGEST} username="{BROKER.user}" password="{BROKER.password}"; }};\n'
    )
    return Files(authority, authority.issue("localhost"), authority.issue("broker"), login)


@pytest.fixture
def secured(files: Files, tmp_path: Path) -> Iterator[tuple[Coordinator, int]]:
    """Return our coordinator and its TLS port; it serves only users."""
    port = free_port()
    coordinator = Coordinator(
        tmp_path / "coordinator",
        f"--login-config={files.login}",
        "--enforce-auth-schemes=sasl",
        f"--tls-listen=127.0.0.1:{port}",
        f"--tls-cert={files.server.certificate}",
        f"--tls-key={files.server.key}",
        f"--tls-ca={files.authority.own.certificate}",
    )
    yield coordinator, port
    coordinator.kill()


async def lists(client: Client) -> dict[str, tuple[Acl, ...]]:
    """Return the list of each node."""
    found, waiting = {}, ["/"]
    while waiting:
        path = waiting.pop()
        found[path] = (await client.get_acl(path))[0]
        names = await client.get_children(path)
        waiting += [f"{path.rstrip('/')}/{name}" for name in names]
    return {path: acl for path, acl in found.items() if not path.startswith("/zookeeper")}


def expected(path: str, identities: tuple[Acl, ...]) -> set[Acl]:
    """Return the list of a path if its creator has `identities`."""
    wanted = tuple(secure_acl(path))
    if wanted == OPEN_ACL:
        return set(wanted)
    return {*identities, *(READ_ONLY_ACL if len(wanted) > 1 else ())}


def check_lists(found: Mapping[str, tuple[Acl, ...]], identities: tuple[Acl, ...]) -> None:
    different = {
        path: acl
        for path, acl in found.items()
        if path != "/" and set(acl) != expected(path, identities)
    }
    assert different == {}
    assert {"/consumers", "/config/users", "/controller", "/brokers/topics/t"} <= set(found)


async def test_kafka_and_ottla_own_the_same_znodes_of_our_coordinator(
    files: Files, secured: tuple[Coordinator, int], tmp_path: Path
) -> None:
    coordinator, port = secured
    identities = (Acl(31, "x509", "CN=broker"), OWN)
    kafka = KafkaBroker(
        1, tmp_path, f"127.0.0.1:{port}", JARS, files.broker_settings(), login_config=files.login
    )
    ours: BrokerProcess | None = None
    try:
        await asyncio.to_thread(wait_until, kafka.has_started, START_TIMEOUT_S)
        ours = BrokerProcess(
            tmp_path / "ours",
            {
                **files.broker_settings(),
                "broker.id": "2",
                "zookeeper.connect": f"127.0.0.1:{port}",
                "java.security.auth.login.config": str(files.login),
            },
        )
        await asyncio.to_thread(ours.wait_for_event, READY_EVENT)
        # The controller, which creates topics.
        with Wire(kafka.port) as wire:
            await asyncio.to_thread(wire.create_topic, "t")
        context = files.authority.context(files.broker)
        async with Client(f"127.0.0.1:{port}", tls=context, login=BROKER) as client:
            async with asyncio.timeout(START_TIMEOUT_S):
                while "t" not in await client.get_children(
                    "/brokers/topics"
                ) or not await client.exists("/brokers/topics/t/partitions/0/state"):
                    await client.sync("/")
            found = await lists(client)
        check_lists(found, identities)
        assert {"/brokers/ids/1", "/brokers/ids/2"} <= set(found)
    finally:
        kafka.kill()
        if ours is not None:
            ours.kill()
    for log in (kafka.log.read_text(), ours.log_tail(), coordinator.log.read_text()):
        assert BROKER.password not in log


async def test_our_broker_owns_its_znodes_of_zookeeper(files: Files, tmp_path: Path) -> None:
    port = free_port()
    zookeeper = ZooKeeper(
        tmp_path / "zookeeper",
        f"secureClientPort={port}",
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        f"ssl.keyStore.location={files.server.store}",
        f"ssl.trustStore.location={files.authority.own.store}",
        "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        "enforce.auth.enabled=true",
        "enforce.auth.schemes=sasl",
        classpath=f"{JARS}/*",
        properties=[f"java.security.auth.login.config={files.login}"],
    )
    broker: BrokerProcess | None = None
    try:
        await asyncio.to_thread(zookeeper.start)
        broker = BrokerProcess(
            tmp_path / "ours",
            {
                **files.broker_settings(),
                "broker.id": "1",
                "zookeeper.connect": f"127.0.0.1:{port}",
                "java.security.auth.login.config": str(files.login),
            },
        )
        await asyncio.to_thread(broker.wait_for_event, READY_EVENT)
        with Wire(broker.port) as wire:
            await asyncio.to_thread(wire.create_topic, "t")
            await asyncio.to_thread(wire.produce, "t", batch(b"a"))
        context = files.authority.context(files.broker)
        async with Client(f"127.0.0.1:{port}", tls=context, login=BROKER) as client:
            check_lists(await lists(client), (Acl(31, "x509", "CN=broker"), OWN))
        own = files.authority.issue("stranger")
        stranger = Client(f"127.0.0.1:{port}", tls=files.authority.context(own), login=BROKER)
        async with stranger:
            # The same user is enough, another certificate does not matter.
            await stranger.set_data("/brokers/topics/t", None)
        assert broker.stop() == 0
    finally:
        zookeeper.kill()
        if broker is not None:
            broker.kill()


def shell(port: int, files: Files, login: Path, commands: str) -> str:
    """Run ZooKeeper's shell over TLS, with a login."""
    options = {
        "java.security.auth.login.config": login,
        "zookeeper.client.secure": "true",
        "zookeeper.clientCnxnSocket": NETTY,
        "zookeeper.ssl.keyStore.location": files.broker.store,
        "zookeeper.ssl.trustStore.location": files.authority.own.store,
    }
    done = subprocess.run(
        [
            "java", "-Xmx128m", "-cp", f"{JARS}/*",
            *(f"-D{name}={value}" for name, value in options.items()),
            "org.apache.zookeeper.ZooKeeperMain", "-waitforconnection",
            "-server", f"127.0.0.1:{port}",
        ],
        input=commands, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_zookeepers_shell_logs_in_over_tls(
    files: Files, secured: tuple[Coordinator, int], tmp_path: Path
) -> None:
    coordinator, port = secured
    output = shell(
        port,
        files,
        files.login,
        "create /own mine auth::cdrwa\ngetAcl /own\nwhoami\nget /own\ndelete /own\nquit\n",
    )
    assert "Created /own" in output
    assert "'sasl,'broker\n: cdrwa" in output
    assert "'x509,'CN=broker\n: cdrwa" in output
    assert "mine" in output
    wrong = tmp_path / "wrong.conf"
    wrong.write_text(f'Client {{ {DIGEST} username="broker" password="s3cret-guess"; }};')
    refused = shell(port, files, wrong, "create /other x\nquit\n")
    assert "Created" not in refused
    assert "SASL: user 'broker' is unknown, or the password is wrong" in coordinator.log.read_text()


async def test_kafkas_migration_tool_changes_the_lists_of_existing_znodes(
    files: Files, secured: tuple[Coordinator, int]
) -> None:
    coordinator, _ = secured
    paths = ("/brokers/topics/t", "/config/users/u", "/controller", "/consumers/g")
    async with Client(coordinator.address, login=BROKER) as client:
        for path in paths:
            parts = path.split("/")[1:]
            for depth in range(1, len(parts) + 1):
                try:
                    await client.create("/" + "/".join(parts[:depth]), b"")
                except NodeExistsError:
                    continue
        await asyncio.to_thread(migrate, coordinator, files, "secure")
        for path in paths:
            found = (await client.get_acl(path))[0]
            if not path.startswith("/consumers"):
                assert set(found) == expected(path, (OWN,)), path
        await asyncio.to_thread(migrate, coordinator, files, "unsecure")
        for path in paths:
            assert (await client.get_acl(path))[0] == OPEN_ACL


def migrate(coordinator: Coordinator, files: Files, target: str) -> None:
    done = subprocess.run(
        [
            "java", "-Xmx128m", "-cp", f"{JARS}/*",
            f"-Djava.security.auth.login.config={files.login}",
            "kafka.admin.ZkSecurityMigrator", f"--zookeeper.acl={target}",
            f"--zookeeper.connect={coordinator.address}",
        ],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr

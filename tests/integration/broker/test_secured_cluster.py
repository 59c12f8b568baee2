"""A cluster whose brokers reach each other over TLS and SASL only."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import ottla
from clusterstate.znodes.config import encode_config
from clusterstate.znodes.scram_credential import encode_credential
from coordination.client import Client
from kafkawire.scram import Credential
from tests.certificates import Authority, needs_openssl
from tests.conftest import READY_EVENT, BrokerProcess
from tests.integration.coordination.process import Coordinator
from tests.ports import free_port
from trust.jaas import PLAIN_MODULE, SCRAM_MODULE

IDS = (1, 2, 3)
PASSWORD = "s3cret-of-the-brokers"
SESSION_MS = 3_000

pytestmark = needs_openssl


class SecuredCluster:
    """Three brokers with one listener each, which clients share with the brokers."""

    def __init__(self, directory: Path, protocol: str, mechanism: str) -> None:
        self.protocol, self.mechanism = protocol, mechanism
        self.authority = Authority.make(directory)
        self.coordinator = Coordinator(directory / "coordinator")
        self.ports = {broker_id: free_port() for broker_id in IDS}
        self.brokers: dict[int, BrokerProcess] = {}
        self._directory = directory

    def start(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.brokers[broker_id] = BrokerProcess(
                self._directory / f"broker-{broker_id}", self._overrides(broker_id)
            )
        for broker_id in broker_ids:
            self.brokers[broker_id].wait_for_event(READY_EVENT)

    def stop(self) -> str:
        """Stop everything; return the logs."""
        for broker in self.brokers.values():
            broker.kill()
        self.coordinator.kill()
        return "".join(line for broker in self.brokers.values() for line in broker.output)

    def options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"security_protocol": self.protocol}
        if self.protocol.endswith("SSL"):
            options["ssl_cafile"] = str(self.authority.own.certificate)
        if self.protocol == "SSL":
            client = self.authority.issue("client")
            options |= {"ssl_certfile": str(client.certificate), "ssl_keyfile": str(client.key)}
        if self.protocol.startswith("SASL"):
            options["sasl_mechanism"] = self.mechanism
            options["sasl_plain_username"] = "broker"
            options["sasl_plain_password"] = PASSWORD
        return options

    @property
    def bootstrap(self) -> list[str]:
        return [f"127.0.0.1:{port}" for port in self.ports.values()]

    def _overrides(self, broker_id: int) -> Mapping[str, str]:
        module = PLAIN_MODULE if self.mechanism == "PLAIN" else SCRAM_MODULE
        prefix = f"listener.name.inner.{self.mechanism.lower()}"
        users = f'user_broker="{PASSWORD}"' if self.mechanism == "PLAIN" else ""
        listener = f"INNER://127.0.0.1:{self.ports[broker_id]}"
        settings = {
            "broker.id": str(broker_id),
            "zookeeper.connect": self.coordinator.address,
            "zookeeper.session.timeout.ms": "4000",
            "listeners": listener,
            "listener.security.protocol.map": f"INNER:{self.protocol}",
            "inter.broker.listener.name": "INNER",
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            "connection.failed.authentication.delay.ms": "10",
        }
        if self.protocol.endswith("SSL"):
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.authority.issue(f"broker-{broker_id}").store),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.authority.own.certificate),
                "listener.name.inner.ssl.client.auth": "required",
            }
        if self.protocol == "SASL_SSL":
            # Users have passwords instead of certificates.
            settings["listener.name.inner.ssl.client.auth"] = "none"
        if self.protocol.startswith("SASL"):
            settings |= {
                "sasl.enabled.mechanisms": self.mechanism,
                "sasl.mechanism.inter.broker.protocol": self.mechanism,
                f"{prefix}.connections.max.reauth.ms": str(SESSION_MS),
                f"{prefix}.sasl.jaas.config": (
                    f'{module} required username="broker" password="{PASSWORD}" {users};'
                ),
            }
        return settings


async def add_scram_user(address: str, mechanism: str) -> None:
    """Create the brokers' user before the first broker, as kafka-configs --zookeeper does."""
    name = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
    salted = hashlib.pbkdf2_hmac(name, PASSWORD.encode(), b"salt", 4096)
    credential = encode_credential(Credential.of(mechanism, salted, b"salt", 4096))
    async with Client(address) as client:
        for path in ("/config", "/config/users"):
            await client.create(path, b"")
        await client.create("/config/users/broker", encode_config({mechanism: credential}))


@pytest.fixture(
    params=[("SASL_SSL", "SCRAM-SHA-512"), ("SASL_PLAINTEXT", "PLAIN"), ("SSL", "")],
    ids=lambda each: each[0],
)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SecuredCluster]:
    protocol, mechanism = request.param
    found = SecuredCluster(tmp_path, protocol, mechanism)
    try:
        if mechanism.startswith("SCRAM"):
            asyncio.run(add_scram_user(found.coordinator.address, mechanism))
        found.start(*IDS)
        yield found
    finally:
        log = found.stop()
    assert PASSWORD not in log
    assert "Traceback" not in log


async def test_brokers_replicate_and_survive_the_loss_of_one(cluster: SecuredCluster) -> None:
    options = cluster.options()
    async with ottla.Admin(cluster.bootstrap, **options) as admin:
        await admin.create_topics([ottla.NewTopic("orders", 3, 3)])
        controller = (await admin.describe_cluster()).controller_id
    assert controller is not None
    async with ottla.Producer(cluster.bootstrap, **options) as producer:
        await send(producer, range(30))
        await asyncio.to_thread(cluster.brokers[controller].kill)
        await send(producer, range(30, 60))
        await asyncio.to_thread(cluster.start, controller)
        # The sessions of brokers and clients end meanwhile.
        await asyncio.sleep(SESSION_MS / 1000)
        await send(producer, range(60, 90))
    found = set()
    async with ottla.Consumer(
        cluster.bootstrap, auto_offset_reset="earliest", **options
    ) as consumer:
        await consumer.assign_topics("orders")
        async for record in consumer:
            found.add(int(record.value or b"-1"))
            if len(found) == 90:
                break
    assert found == set(range(90))


async def send(producer: ottla.Producer, numbers: range) -> None:
    """Send records, and wait until all in-sync replicas have them."""
    await asyncio.gather(*[await producer.send("orders", b"%d" % number) for number in numbers])

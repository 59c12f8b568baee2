"""New keys and certificates for a broker whose peers use its TLS listener."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import ottla
from ottla.client.admin_model import ResourceType
from ottla.client.errors import OttlaError
from tests.certificates import Authority, needs_openssl
from tests.conftest import READY_EVENT, BrokerProcess
from tests.ports import free_port

pytestmark = needs_openssl

BROKER_ID = "1"
PREFIX = "listener.name.inner."
TRUST_STORE = f"{PREFIX}ssl.truststore.location"
KEY_STORE = f"{PREFIX}ssl.keystore.location"


class Peer(NamedTuple):
    """A broker, the files of its inter-broker listener, and their authority."""

    broker: BrokerProcess
    authority: Authority
    key_store: Path
    trust_store: Path

    @property
    def address(self) -> str:
        return self.broker.bootstrap

    async def alter(self, key: str, path: Path) -> None:
        async with ottla.Admin(self.address) as admin:
            await admin.alter_configs(ResourceType.BROKER, BROKER_ID, {key: str(path)})


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    authority = Authority.make(tmp_path)
    key_store, trust_store = tmp_path / "key.pem", tmp_path / "trust.pem"
    key_store.write_text(authority.issue("broker").store.read_text())
    trust_store.write_text(authority.own.certificate.read_text())
    broker = BrokerProcess(tmp_path / "data", overrides(key_store, trust_store))
    try:
        broker.wait_for_event(READY_EVENT)
        yield Peer(broker, authority, key_store, trust_store)
    finally:
        broker.kill()
    assert "Traceback" not in "".join(broker.output)


def overrides(key_store: Path, trust_store: Path) -> dict[str, str]:
    listeners = f"PLAINTEXT://127.0.0.1:{free_port()},INNER://127.0.0.1:{free_port()}"
    return {
        "broker.id": BROKER_ID,
        "listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INNER:SSL",
        "inter.broker.listener.name": "INNER",
        f"{PREFIX}ssl.keystore.type": "PEM",
        f"{PREFIX}ssl.truststore.type": "PEM",
        KEY_STORE: str(key_store),
        TRUST_STORE: str(trust_store),
    }


async def test_a_trust_store_that_only_connections_to_peers_need_is_checked(peer: Peer) -> None:
    good = peer.trust_store.read_text()
    peer.trust_store.write_text("no certificate")
    with pytest.raises(OttlaError, match=r"ssl\.truststore\.location.*holds no certificates"):
        await peer.alter(TRUST_STORE, peer.trust_store)
    assert not [event for event in peer.broker.events if event.get("event") == "certificates.kept"]
    peer.trust_store.write_text(good)
    await peer.alter(TRUST_STORE, peer.trust_store)
    peer.broker.wait_for_event("certificates.loaded")

"""New keys and certificates for a broker whose peers use its TLS listener."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import ottla
from ottla.client.admin_model import ResourceType
from ottla.client.errors import OttlaError
from tests.certificates import Authority, needs_openssl
from tests.conftest import READY_EVENT, READY_TIMEOUT_S, BrokerProcess
from tests.ports import free_port

pytestmark = needs_openssl

BROKER_ID = "1"
HOSTS = "IP:127.0.0.1,DNS:localhost"
PREFIX = "listener.name.inner."
TRUST_STORE = f"{PREFIX}ssl.truststore.location"
KEY_STORE = f"{PREFIX}ssl.keystore.location"


class Peer(NamedTuple):
    """A broker, and the authority, trust store and port of its inter-broker listener."""

    broker: BrokerProcess
    authority: Authority
    trust_store: Path
    port: int

    @property
    def address(self) -> str:
        return self.broker.bootstrap

    def shown_certificate(self) -> str:
        """Return the certificate that clients of the listener get now."""
        return ssl.get_server_certificate(("127.0.0.1", self.port), timeout=READY_TIMEOUT_S)

    async def alter(self, key: str, path: Path) -> None:
        async with ottla.Admin(self.address) as admin:
            await admin.alter_configs(ResourceType.BROKER, BROKER_ID, {key: str(path)})


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    authority = Authority.make(tmp_path)
    key_store, trust_store = tmp_path / "key.pem", tmp_path / "trust.pem"
    key_store.write_text(authority.issue("broker").store.read_text())
    trust_store.write_text(authority.own.certificate.read_text())
    port = free_port()
    broker = BrokerProcess(tmp_path / "data", overrides(key_store, trust_store, port))
    try:
        broker.wait_for_event(READY_EVENT)
        yield Peer(broker, authority, trust_store, port)
    finally:
        broker.kill()
    assert "Traceback" not in "".join(broker.output)


def overrides(key_store: Path, trust_store: Path, port: int) -> dict[str, str]:
    listeners = f"PLAINTEXT://127.0.0.1:{free_port()},INNER://127.0.0.1:{port}"
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


@pytest.mark.parametrize(
    ("subject", "hosts", "rule"),
    [
        ("/CN=other", HOSTS, r"for CN=other in place of CN=broker: ssl\.allow\.dn\.changes"),
        ("/CN=broker", "IP:127.0.0.1", r"without DNS:localhost: ssl\.allow\.san\.changes"),
    ],
)
async def test_a_certificate_for_another_broker_is_refused(
    peer: Peer, subject: str, hosts: str, rule: str
) -> None:
    before = peer.shown_certificate()
    other = peer.authority.issue("other", subject=subject, hosts=hosts)
    with pytest.raises(OttlaError, match=rule):
        await peer.alter(KEY_STORE, other.store)
    assert peer.shown_certificate() == before


async def test_a_change_of_another_config_lets_no_foreign_certificate_in(
    peer: Peer, tmp_path: Path
) -> None:
    before = peer.shown_certificate()
    stranger = Authority.make(tmp_path, "stranger")
    (tmp_path / "key.pem").write_text(stranger.issue("broker").store.read_text())
    async with ottla.Admin(peer.address) as admin:
        wanted = {"log.cleaner.threads": "2"}
        await admin.alter_configs(ResourceType.BROKER, BROKER_ID, wanted)
    kept = peer.broker.wait_for_event("certificates.kept")
    assert "is not accepted by brokers" in str(kept["error"])
    assert peer.shown_certificate() == before


async def test_a_certificate_that_peers_do_not_trust_is_refused(peer: Peer, tmp_path: Path) -> None:
    before = peer.shown_certificate()
    stranger = Authority.make(tmp_path, "stranger")
    with pytest.raises(OttlaError, match=r"accept the present one \(.*certificate"):
        await peer.alter(KEY_STORE, stranger.issue("broker").store)
    # Neither would this broker accept its peers any more.
    with pytest.raises(OttlaError, match=r"accept the present one \(.*certificate"):
        await peer.alter(TRUST_STORE, stranger.own.certificate)
    assert peer.shown_certificate() == before
    await peer.alter(KEY_STORE, peer.authority.issue("broker", hosts=f"{HOSTS},DNS:more").store)
    assert peer.shown_certificate() != before

"""A broker with TLS and SASL, and clients of all libraries."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import aiokafka
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

import ottla
from kafkawire.apis import ApiKey
from kafkawire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kafkawire.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.client.admin_model import ResourceType
from ottla.client.errors import AuthenticationFailedError, OttlaError
from tests.certificates import Authority, needs_openssl
from tests.conftest import READY_EVENT, READY_TIMEOUT_S, BrokerProcess
from tests.integration.broker.network_support import Client
from tests.integration.broker.wire import TlsWire, Wire
from tests.ports import free_port
from tests.waiting import until
from trust.jaas import PLAIN_MODULE, SCRAM_MODULE

PASSWORD = "s3cret-of-alice"
OWN_PASSWORD = "s3cret-of-the-broker"
SESSION_MS = 2_000
BUSY_CLIENTS = 4
ROTATIONS = 3
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")

pytestmark = needs_openssl


class Secured(NamedTuple):
    """A broker with a listener of each protocol."""

    broker: BrokerProcess
    authority: Authority
    stranger: Authority
    ports: dict[str, int]

    def address(self, protocol: str) -> str:
        return f"127.0.0.1:{self.ports[protocol]}"

    def options(self, protocol: str, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
        """Return the options of our client."""
        options: dict[str, Any] = {
            "security_protocol": protocol,
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "alice",
            "sasl_plain_password": password,
        }
        if protocol == "SASL_SSL":
            options["ssl_cafile"] = str(self.authority.own.certificate)
        return options


def overrides(authority: Authority, ports: dict[str, int]) -> dict[str, str]:
    """Return the configuration of the broker."""
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    settings = {
        "listeners": listeners,
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("broker", hosts="IP:127.0.0.1").store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.own.certificate),
        "socket.listen.backlog.size": "1000",
        "listener.name.ssl.ssl.client.auth": "requested",
        "listener.name.ssl.ssl.keystore.location": str(authority.issue("rotating").store),
        "listener.name.ssl.ssl.principal.mapping.rules": "RULE:^.*CN=(.*?)$/$1/L",
        "listener.name.sasl_ssl.plain.connections.max.reauth.ms": str(SESSION_MS),
    }
    for name in ("sasl_plaintext", "sasl_ssl"):
        settings[f"listener.name.{name}.plain.sasl.jaas.config"] = (
            f'{PLAIN_MODULE} required username="own" password="{OWN_PASSWORD}" '
            f'user_own="{OWN_PASSWORD}" user_alice="{PASSWORD}";'
        )
        settings[f"listener.name.{name}.scram-sha-256.sasl.jaas.config"] = (
            f"{SCRAM_MODULE} required;"
        )
    return settings


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    authority = Authority.make(directory)
    ports = {name: free_port() for name in ("PLAINTEXT", "SSL", *PROTOCOLS)}
    broker = BrokerProcess(directory / "data", overrides(authority, ports))
    try:
        broker.wait_for_event(READY_EVENT)
        asyncio.run(add_user(f"127.0.0.1:{ports['PLAINTEXT']}"))
        yield Secured(broker, authority, Authority.make(directory, "stranger"), ports)
    finally:
        broker.kill()
    log = "".join(broker.output)
    for secret in (PASSWORD, OWN_PASSWORD):
        assert secret not in log
    assert "Traceback" not in log


async def add_user(address: str) -> None:
    """Give alice SCRAM credentials, and create the topic of the tests."""
    async with ottla.Admin(address) as admin:
        await admin.create_topics([ottla.NewTopic("orders", 1, 1)])
    port = int(address.rpartition(":")[2])
    await asyncio.to_thread(alter_users, port, [upsertion("alice", number) for number in (1, 2)])


def upsertion(user: str, number: int, password: str = PASSWORD) -> ScramCredentialUpsertion:
    """Return the change that sets a password; `number` is Kafka's of the mechanism."""
    name = {1: "sha256", 2: "sha512"}[number]
    return ScramCredentialUpsertion(
        name=user,
        mechanism=number,
        iterations=4096,
        salt=b"pepper",
        salted_password=hashlib.pbkdf2_hmac(name, password.encode(), b"pepper", 4096),
    )


def alter_users(
    port: int,
    upsertions: list[ScramCredentialUpsertion],
    deletions: Sequence[ScramCredentialDeletion] = (),
) -> dict[str, int]:
    """Change credentials; return the error code of each user."""
    request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
    with Wire(port) as wire:
        response = wire.ask(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request, AlterUserScramCredentialsResponse
        )
    return {each.user: each.error_code for each in response.results}


async def can_read_back(address: str, options: dict[str, Any]) -> bool:
    """Produce a record and consume it."""
    async with ottla.Producer(address, **options) as producer:
        sent = await (await producer.send("orders", b"paid"))
    async with ottla.Consumer(address, **options) as consumer:
        consumer.assign([ottla.TopicPartition("orders", 0)])
        consumer.seek(ottla.TopicPartition("orders", 0), sent.offset)
        async for record in consumer:
            return bool(record.value == b"paid")
    return False


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_records_go_through_an_authenticated_connection(
    secured: Secured, protocol: str, mechanism: str
) -> None:
    assert await can_read_back(secured.address(protocol), secured.options(protocol, mechanism))


async def test_records_go_through_tls(secured: Secured) -> None:
    options: dict[str, Any] = {
        "security_protocol": "SSL",
        "ssl_cafile": str(secured.authority.own.certificate),
    }
    assert await can_read_back(secured.address("SSL"), options)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", ["alice", "nobody"])
async def test_a_wrong_password_and_an_unknown_user_are_refused_alike(
    secured: Secured, protocol: str, mechanism: str, user: str
) -> None:
    options = secured.options(protocol, mechanism, "wrong-s3cret")
    options["sasl_plain_username"] = user
    with pytest.raises(OttlaError, match="refused the"):
        async with ottla.Admin(secured.address(protocol), **options):
            pass


async def test_a_mechanism_that_is_not_offered_is_refused(secured: Secured) -> None:
    class Tokens:
        async def token(self) -> str:
            return "x"

    with pytest.raises(OttlaError, match="does not offer the mechanism OAUTHBEARER"):
        async with ottla.Admin(
            secured.address("SASL_PLAINTEXT"),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Tokens(),
        ):
            pass


async def test_users_come_and_go_while_the_broker_runs(secured: Secured) -> None:
    port, address = secured.ports["PLAINTEXT"], secured.address("SASL_PLAINTEXT")
    options = secured.options("SASL_PLAINTEXT", "SCRAM-SHA-256", "first")
    options["sasl_plain_username"] = "b%,=* b"

    async def may_log_in(password: str) -> bool:
        try:
            async with ottla.Admin(address, **{**options, "sasl_plain_password": password}):
                return True
        except OttlaError:
            return False

    name = str(options["sasl_plain_username"])
    changes = [
        ([upsertion(name, 1, "first")], [], "first"),
        ([upsertion(name, 1, "second")], [], "second"),
        ([], [ScramCredentialDeletion(name=name, mechanism=1)], ""),
    ]
    for upsertions, deletions, valid in changes:
        result = await asyncio.to_thread(alter_users, port, upsertions, deletions)
        assert result == {name: 0}
        logins = [await may_log_in(password) for password in ("first", "second")]
        assert logins == [valid == "first", valid == "second"]


async def test_an_untrusted_certificate_and_a_wrong_host_are_refused(secured: Secured) -> None:
    options = secured.options("SASL_SSL", "PLAIN")
    stranger = str(secured.stranger.own.certificate)
    with pytest.raises(OttlaError, match="not trusted"):
        async with ottla.Admin(secured.address("SASL_SSL"), **{**options, "ssl_cafile": stranger}):
            pass
    with pytest.raises(OttlaError, match="not trusted"):
        async with ottla.Admin(f"localhost:{secured.ports['SASL_SSL']}", **options):
            pass


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_client_with_an_untrusted_certificate_fails_at_once(
    secured: Secured, version: ssl.TLSVersion
) -> None:
    context = secured.authority.context(secured.stranger.issue("eve"))
    context.maximum_version = version
    options: dict[str, Any] = {"security_protocol": "SSL", "ssl_context": context}
    with pytest.raises(AuthenticationFailedError, match="refuses the TLS handshake: unknown ca"):
        await ottla.Admin(secured.address("SSL"), **options).start()


async def test_a_plain_client_on_a_tls_port_is_logged_in_one_line(secured: Secured) -> None:
    with socket.create_connection(("127.0.0.1", secured.ports["SSL"]), timeout=60) as client:
        client.sendall(b"\0\0\0\x0e\0\x12\0\0\0\0\0\1\0\4test")
        while client.recv(100):
            continue
    event = await asyncio.to_thread(
        secured.broker.wait_for_event, "connection.handshake_failed", READY_TIMEOUT_S, is_about_tls
    )
    assert event["listener_name"] == "SSL"


@pytest.mark.parametrize(
    ("ciphers", "is_served"),
    [
        ("ECDHE-ECDSA-AES256-SHA384:ECDHE-ECDSA-AES128-SHA", False),
        ("ECDHE-ECDSA-AES128-GCM-SHA256", True),
        ("ECDHE-ECDSA-CHACHA20-POLY1305", True),
    ],
)
async def test_tls_1_2_is_served_with_authenticated_encryption_only(
    secured: Secured, ciphers: str, is_served: bool
) -> None:
    context = secured.authority.context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(ciphers)

    def connect() -> bool:
        try:
            with TlsWire(secured.ports["SSL"], context):
                return True
        except ssl.SSLError:
            return False

    assert await asyncio.to_thread(connect) is is_served


@contextlib.asynccontextmanager
async def tls_client(port: int, context: ssl.SSLContext) -> AsyncIterator[Client]:
    """Connect with TLS; wait at the end until the broker has closed its side, too."""
    client = Client(*await asyncio.open_connection("127.0.0.1", port, ssl=context))
    try:
        yield client
    finally:
        await client.close()


def is_about_tls(event: Mapping[str, object]) -> bool:
    return event["reason"] == "the client does not speak TLS"


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
async def test_a_tls_client_on_a_plain_port_is_logged_in_one_line(
    secured: Secured, protocol: str
) -> None:
    with pytest.raises(OSError, match=r".*"):
        await asyncio.open_connection(
            "127.0.0.1", secured.ports[protocol], ssl=secured.authority.context()
        )
    await asyncio.to_thread(
        secured.broker.wait_for_event,
        "connection.dropped",
        READY_TIMEOUT_S,
        lambda event: (
            event["reason"] == "the client speaks TLS, and this listener does not"
            and event["listener_name"] == protocol
        ),
    )


async def test_the_certificate_of_a_client_names_its_principal(secured: Secured) -> None:
    known = secured.authority.issue("alice", "/O=Ottla/CN=Alice")
    nameless = secured.authority.issue("nameless", "/O=nobody")
    async with tls_client(secured.ports["SSL"], secured.authority.context(known)):
        pass
    # The rules of the listener match no name without CN.
    async with tls_client(secured.ports["SSL"], secured.authority.context(nameless)) as client:
        assert await client.reader.read() == b""
    event = await asyncio.to_thread(
        secured.broker.wait_for_event,
        "connection.dropped",
        READY_TIMEOUT_S,
        lambda event: "no rule of ssl.principal" in str(event["reason"]),
    )
    assert event["reason"] == "no rule of ssl.principal.mapping.rules applies to O=nobody"


async def test_a_certificate_is_replaced_while_connections_stay(secured: Secured) -> None:
    key = "listener.name.ssl.ssl.keystore.location"
    store = secured.authority.own.key.parent / "rotating.pem"
    port, context = secured.ports["SSL"], secured.authority.context()

    async def certificate() -> bytes:
        async with tls_client(port, context) as client:
            tls: ssl.SSLObject = client.writer.get_extra_info("ssl_object")
            found = tls.getpeercert(binary_form=True)
        assert found is not None
        return found

    options: dict[str, Any] = {"security_protocol": "SSL", "ssl_context": context}
    async with ottla.Admin(f"127.0.0.1:{port}", **options) as admin:
        broker_id = str((await admin.describe_cluster()).controller_id)
        before = await certificate()
        secured.authority.issue("rotating")
        assert await certificate() == before, "the file is read on request only"
        await admin.alter_configs(ResourceType.BROKER, broker_id, {key: str(store)})
        after = await certificate()
        assert after != before
        # The same value again, because the file has changed again.
        secured.authority.issue("rotating")
        await admin.alter_configs(ResourceType.BROKER, broker_id, {key: str(store)})
        assert await certificate() not in (before, after)
        good = await certificate()
        store.write_text("no certificate")
        with pytest.raises(OttlaError, match=r"ssl\.keystore\.location"):
            await admin.alter_configs(ResourceType.BROKER, broker_id, {key: str(store)})
        assert await certificate() == good
        # This connection was opened with the first certificate.
        assert await admin.list_topics()


async def test_certificates_are_replaced_under_load_without_losing_a_connection(
    secured: Secured,
) -> None:
    key = "listener.name.ssl.ssl.keystore.location"
    store = secured.authority.own.key.parent / "rotating.pem"
    port, context = secured.ports["SSL"], secured.authority.context()
    certificates: set[bytes] = set()
    answers = [0] * BUSY_CLIENTS
    is_over = threading.Event()

    def ask_again_and_again(number: int) -> None:
        with TlsWire(port, context) as wire:
            while not is_over.is_set():
                wire.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]), MetadataResponse)
                answers[number] += 1

    def connect_again_and_again() -> int:
        count = 0
        while not is_over.is_set():
            with TlsWire(port, context) as wire:
                certificates.add(wire.certificate)
                wire.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]), MetadataResponse)
            count += 1
        return count

    async def progress() -> None:
        before = list(answers)
        await until(lambda: all(now > was for now, was in zip(answers, before, strict=True)))

    async def new_certificate(known_count: int) -> None:
        await until(lambda: len(certificates) > known_count)

    options: dict[str, Any] = {"security_protocol": "SSL", "ssl_context": context}
    async with ottla.Admin(f"127.0.0.1:{port}", **options) as admin:
        broker_id = str((await admin.describe_cluster()).controller_id)
        busy = [asyncio.to_thread(ask_again_and_again, number) for number in range(BUSY_CLIENTS)]
        running = asyncio.gather(*busy, asyncio.to_thread(connect_again_and_again))
        try:
            for _ in range(ROTATIONS):
                await progress()
                await new_certificate(0)
                known_count = len(certificates)
                await asyncio.to_thread(secured.authority.issue, "rotating")
                await admin.alter_configs(ResourceType.BROKER, broker_id, {key: str(store)})
                await new_certificate(known_count)
            # The key and the certificate of different pairs: the rotation is refused.
            other = await asyncio.to_thread(secured.authority.issue, "other")
            good = store.read_text()
            store.write_text(other.key.read_text() + good[good.index("-----BEGIN CERT") :])
            with pytest.raises(OttlaError, match=r"ssl\.keystore\.location"):
                await admin.alter_configs(ResourceType.BROKER, broker_id, {key: str(store)})
            await progress()
        finally:
            is_over.set()
            # Raises the error of a client whose connection was lost.
            *_, connection_count = await running
            assert connection_count is not None
        # Stays valid for later tests.
        store.write_text(good)
        await admin.alter_configs(ResourceType.BROKER, broker_id, {key: str(store)})
    assert connection_count > ROTATIONS


async def test_many_silent_clients_delay_no_other_one(secured: Secured) -> None:
    port, loop = secured.ports["SSL"], asyncio.get_running_loop()
    silent = []
    try:
        for _ in range(1_000):
            client = socket.socket()
            client.setblocking(False)
            silent.append(client)
            await loop.sock_connect(client, ("127.0.0.1", port))
        async with tls_client(port, secured.authority.context()):
            pass
    finally:
        for client in silent:
            client.close()


async def test_a_session_is_renewed_in_time(secured: Secured) -> None:
    options = secured.options("SASL_SSL", "PLAIN")
    async with ottla.Producer(secured.address("SASL_SSL"), **options) as producer:
        ends_s = asyncio.get_running_loop().time() + 1.5 * SESSION_MS / 1000
        offsets = []
        while asyncio.get_running_loop().time() < ends_s:
            offsets.append((await (await producer.send("orders", b"x"))).offset)
            await asyncio.sleep(0.05)
    assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_librdkafka_logs_in(secured: Secured, protocol: str, mechanism: str) -> None:
    def produce(password: str) -> list[object]:
        errors: list[object] = []
        producer = Producer(
            {
                "bootstrap.servers": secured.address(protocol),
                "security.protocol": protocol,
                "sasl.mechanism": mechanism,
                "sasl.username": "alice",
                "sasl.password": password,
                "ssl.ca.location": str(secured.authority.own.certificate),
                "message.timeout.ms": 60_000,
                "error_cb": errors.append,
                "log_level": 0,
            }
        )
        delivered: list[object] = []
        producer.produce("orders", b"x", on_delivery=lambda error, _: delivered.append(error))
        if password == PASSWORD:
            producer.flush(60)
            return delivered
        for _ in range(100):
            producer.poll(0.1)
            if errors:
                break
        return [error.name() for error in errors if hasattr(error, "name")][:1]

    assert await asyncio.to_thread(produce, PASSWORD) == [None]
    assert await asyncio.to_thread(produce, "wrong-s3cret") == ["_AUTHENTICATION"]


async def test_a_quota_of_a_user_slows_this_user_only(secured: Secured) -> None:
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": PASSWORD,
    }

    def throttle_times(protocol: str, options: Mapping[str, str]) -> list[float]:
        """Return the throttle times in the responses to a producer, in seconds."""
        times: list[float] = []
        producer = Producer(
            {
                "bootstrap.servers": secured.address(protocol),
                "throttle_cb": lambda event: times.append(event.throttle_time),
                **options,
            }
        )
        for _ in range(2):
            producer.produce("orders", bytes(30_000))
            assert producer.flush(60) == 0
        return times

    async with ottla.Admin(secured.address("PLAINTEXT")) as admin:
        await admin.alter_client_quotas({"user": "alice"}, {"producer_byte_rate": 5_000.0})
        try:
            slowed = await asyncio.to_thread(throttle_times, "SASL_PLAINTEXT", login)
            assert slowed
            assert await asyncio.to_thread(throttle_times, "PLAINTEXT", {}) == []
        finally:
            await admin.alter_client_quotas({"user": "alice"}, {"producer_byte_rate": None})


async def test_librdkafka_changes_users(secured: Secured) -> None:
    admin = AdminClient({"bootstrap.servers": secured.address("PLAINTEXT")})
    kind = ScramMechanism.SCRAM_SHA_512
    credential = ScramCredentialInfo(kind, 4096)

    def change(alteration: UserScramCredentialAlteration) -> None:
        [changed] = admin.alter_user_scram_credentials([alteration]).values()
        changed.result(30)

    def described() -> list[tuple[object, int]]:
        users: Any = admin.describe_user_scram_credentials(["carol"])
        found = users["carol"].result(30)
        return [(each.mechanism, each.iterations) for each in found.scram_credential_infos]

    password = PASSWORD.encode()
    await asyncio.to_thread(change, UserScramCredentialUpsertion("carol", credential, password))
    assert await asyncio.to_thread(described) == [(kind, 4096)]
    await asyncio.to_thread(change, UserScramCredentialDeletion("carol", kind))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka_logs_in(secured: Secured, protocol: str, mechanism: str) -> None:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=secured.address(protocol),
        security_protocol=protocol,
        sasl_mechanism=mechanism,
        sasl_plain_username="alice",
        sasl_plain_password=PASSWORD,
        ssl_context=secured.authority.context() if protocol == "SASL_SSL" else None,
    )
    async with producer:
        sent = await producer.send_and_wait("orders", b"x")
    assert sent.partition == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_kafka_python_logs_in(secured: Secured, protocol: str, mechanism: str) -> None:
    from kafka import KafkaAdminClient

    def topics() -> list[str]:
        with closing(
            KafkaAdminClient(
                bootstrap_servers=secured.address(protocol),
                security_protocol=protocol,
                sasl_mechanism=mechanism,
                sasl_plain_username="alice",
                sasl_plain_password=PASSWORD,
                ssl_cafile=str(secured.authority.own.certificate),
            )
        ) as admin:
            return list(admin.list_topics())

    assert "orders" in await asyncio.to_thread(topics)


def test_passwords_are_not_described(secured: Secured) -> None:
    resource = DescribeConfigsResource(resource_type=4, resource_name="", configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    with Wire(secured.ports["PLAINTEXT"]) as wire:
        node = wire.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]), MetadataResponse)
        resource.resource_name = str(node.brokers[0].node_id)
        response = wire.ask(ApiKey.DESCRIBE_CONFIGS, 4, request, DescribeConfigsResponse)
    entries = {each.name: each for each in response.results[0].configs}
    assert entries["ssl.key.password"].is_sensitive
    assert "s3cret" not in repr(response)

"""Passwords, keys and tokens planted in configurations and requests appear nowhere else.

The broker logs at level debug. Its clients log in and fail in every way, its configs are read and
changed, its configuration and that of the command line are wrong in many ways, and it crashes with
a traceback. `tests/integration/cli/up/test_secured.py` searches the processes of `ottla up
--secure`, and `tests/integration/coordination/test_login.py` the log of a coordinator.
"""

from __future__ import annotations

import base64
import secrets
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

import ottla
from broker.config.properties import format_properties
from kafkawire.apis import ApiKey
from kafkawire.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kafkawire.messages.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkawire.sasl_clients import ScramClient
from ottla.client.admin_model import ResourceType, ScramUpsertion
from ottla.client.errors import AuthenticationFailedError, OttlaError
from ottla.client.security import SecurityOptions
from tests.certificates import Authority, needs_openssl
from tests.integration.broker.wire import TlsWire
from tests.oauth_tokens import claims_of, unsecured
from tests.ports import free_port
from tests.programs import Program
from trust.jaas import OAUTH_MODULE, PLAIN_MODULE, SCRAM_MODULE

pytestmark = needs_openssl

TIMEOUT_S = 60.0
PLANTED = {
    name: f"s3cret-{name}-{secrets.token_hex(8)}"
    for name in (
        "alice", "broker", "bob", "key", "store", "secret_key", "unknown", "wrong", "malformed",
        "dynamic", "command",
    )
}  # fmt: skip
PREFIX = "listener.name.sasl_ssl."
JAAS_KEY = f"{PREFIX}plain.sasl.jaas.config"
CRASH = """
import sys
from pathlib import Path
import structlog
from broker.daemon import read_config
from broker.log_setup import set_up_logging

set_up_logging("debug", sys.stderr)
config = read_config(Path(sys.argv[1]), [])
log = structlog.get_logger()
log.info("config.shown", config=config, listeners=repr(config.listener_security))

def fail(config):
    password = config.listener_security["SASL_SSL"].mechanisms["PLAIN"].module
    raise ValueError(f"failed with {config} and {password}")

try:
    fail(config)
except ValueError:
    log.exception("task.failed")
fail(config)
"""


class Planted(NamedTuple):
    """A running broker whose output goes to a file."""

    folder: Path
    authority: Authority
    port: int
    tls_port: int
    properties: Mapping[str, str]
    process: subprocess.Popen[bytes]

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text()

    def login(self, user: str, password: str, mechanism: str = "PLAIN") -> SecurityOptions:
        """Return the options of our client."""
        return {
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(self.authority.own.certificate),
            "sasl_mechanism": "SCRAM-SHA-512" if mechanism != "PLAIN" else "PLAIN",
            "sasl_plain_username": user,
            "sasl_plain_password": password,
        }

    def run_with(self, **changes: str) -> str:
        """Return the output of a broker whose configuration has these keys, and cannot start."""
        renamed = {key.replace("__", "."): value for key, value in changes.items()}
        return self.run_properties({**self.properties, **renamed})

    def run_properties(self, properties: Mapping[str, str]) -> str:
        """Return the output of a broker that cannot start."""
        file = self._write(properties)
        output = self.folder / "output of a failed start"
        with output.open("w") as stream:
            process = Program("broker", [str(file)], stdout=stream, stderr=stream)
        try:
            assert process.wait(TIMEOUT_S) != 0
        finally:
            process.kill()
        return output.read_text()

    def run_crash(self) -> str:
        """Return the output of a program that fails with the configuration in its traceback."""
        done = subprocess.run(
            [sys.executable, "-c", CRASH, str(self._write(self.properties))],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode != 0
        return done.stdout + done.stderr

    def _write(self, properties: Mapping[str, str]) -> Path:
        file = self.folder / "wrong.properties"
        file.write_text(format_properties(properties))
        return file


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    folder = tmp_path_factory.mktemp("planted")
    authority, port, tls_port = Authority.make(folder), free_port(), free_port()
    properties = {
        "listeners": f"SASL_SSL://127.0.0.1:{port},SSL://127.0.0.1:{tls_port}",
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        f"{PREFIX}oauthbearer.sasl.jaas.config": (
            f'{OAUTH_MODULE} required unsecuredValidatorRequiredScope="";'
        ),
        "delegation.token.secret.key": PLANTED["secret_key"],
        "listener.name.ssl.ssl.keystore.type": "PKCS12",
        "listener.name.ssl.ssl.keystore.location": str(encrypted_pkcs12(authority)),
        "listener.name.ssl.ssl.keystore.password": PLANTED["store"],
        "listener.name.ssl.ssl.key.password": PLANTED["store"],
        "broker.id": "1",
        "log.dirs": str(folder / "data"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(encrypted_store(authority)),
        "ssl.key.password": PLANTED["key"],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.own.certificate),
        JAAS_KEY: f'{PLAIN_MODULE} required username="broker" password="{PLANTED["broker"]}" '
        f'user_broker="{PLANTED["broker"]}" user_alice="{PLANTED["alice"]}";',
        "some.future.password": PLANTED["unknown"],
    }
    file = folder / "server.properties"
    file.write_text(format_properties(properties))
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "broker", str(file), "--log-level", "debug"],
            stdout=output,
            stderr=output,
        )
    made = Planted(folder, authority, port, tls_port, properties, process)
    try:
        end_s = time.monotonic() + TIMEOUT_S
        while "broker.started" not in made.output:
            assert process.poll() is None, made.output
            assert time.monotonic() < end_s
            time.sleep(0.05)
        yield made
    finally:
        process.kill()
        process.wait()


def encrypted_store(authority: Authority) -> Path:
    """Return a store whose key is encrypted."""
    made = authority.issue("broker")
    path = made.store.with_name("encrypted.pem")
    key = subprocess.run(
        ["openssl", "pkcs8", "-topk8", "-in", str(made.key), "-passout", "stdin"],
        input=PLANTED["key"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    path.write_text(key + made.certificate.read_text())
    return path


def encrypted_pkcs12(authority: Authority) -> Path:
    """Return a PKCS12 store with a password."""
    made = authority.issue("store")
    path = made.store.with_suffix(".p12")
    subprocess.run(
        ["openssl", "pkcs12", "-export", "-in", str(made.store), "-passout", "stdin", "-out", path],
        input=PLANTED["store"],
        check=True,
        capture_output=True,
        text=True,
    )
    return path


def found_in(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the places of planted secrets: text and name of the secret."""
    return [
        (place, name)
        for place, text in texts.items()
        for name, secret in PLANTED.items()
        if secret in text
    ]


def test_search_finds_each_planted_secret(planted: Planted) -> None:
    text = format_properties(planted.properties)
    assert {name for _, name in found_in({"file": text})} == {
        "alice", "broker", "key", "store", "secret_key", "unknown",
    }  # fmt: skip


async def test_clients_and_their_failures(planted: Planted) -> None:
    where, texts = f"127.0.0.1:{planted.port}", {}
    bob = ScramUpsertion(user="bob", mechanism="SCRAM-SHA-512", password=PLANTED["bob"])
    async with ottla.Admin(where, **planted.login("alice", PLANTED["alice"])) as admin:
        await admin.alter_user_scram_credentials([bob])
        await admin.create_topics([ottla.NewTopic("orders", 1, 1)])
        for key in ("ssl.key.password", f"{PREFIX}ssl.key.password", JAAS_KEY):
            with pytest.raises(OttlaError) as refused:
                await admin.alter_configs(ResourceType.BROKER, "1", {key: PLANTED["dynamic"]})
            texts[f"altering {key}"] = str(refused.value)
        # As in Kafka, a key that the broker does not know can be set.
        await admin.alter_configs(ResourceType.BROKER, "1", {"new.password": PLANTED["dynamic"]})
        configs = await admin.describe_configs(ResourceType.BROKER, "1")
        assert configs["new.password"].is_sensitive
        texts["configs"] = repr(configs)
    async with ottla.Admin(where, **planted.login("bob", PLANTED["bob"], "SCRAM")) as admin:
        assert await admin.list_topics() == ["orders"]
    for user in ("alice", "bob", "nobody"):
        for mechanism in ("PLAIN", "SCRAM"):
            with pytest.raises(AuthenticationFailedError) as failed:
                await ottla.Admin(where, **planted.login(user, PLANTED["wrong"], mechanism)).start()
            texts[f"{user} {mechanism}"] = f"{failed.value!r} {failed.value.__cause__!r}"
    assert len(texts) == 3 + 1 + 6
    assert found_in(texts) == []


class Tokens:
    """Tokens of OAUTHBEARER, as our client asks for them."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def token(self) -> str:
        return self.text


async def test_tokens_of_an_issuer(planted: Planted) -> None:
    where = f"127.0.0.1:{planted.port}"
    good = unsecured(claims_of("carol", jti=secrets.token_hex(8)))
    bad = unsecured(claims_of("carol", lifetime_s=-1, jti=secrets.token_hex(8)))
    PLANTED["good bearer"], PLANTED["bad bearer"] = good.rstrip("."), bad.rstrip(".")

    def login(token: str) -> SecurityOptions:
        return {
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(planted.authority.own.certificate),
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": Tokens(token),
        }

    async with ottla.Admin(where, **login(good)) as admin:
        await admin.list_topics()
    with pytest.raises(AuthenticationFailedError) as failed:
        await ottla.Admin(where, **login(bad)).start()
    assert found_in({"error": f"{failed.value!r} {failed.value.__cause__!r}"}) == []


def test_delegation_tokens(planted: Planted) -> None:
    with TlsWire(planted.port, planted.authority.context()) as wire:
        wire.send_bytes(handshake() + authenticate(f"\0alice\0{PLANTED['alice']}".encode()))
        wire.receive_frame(), wire.receive_frame()
        made = wire.ask(
            ApiKey.CREATE_DELEGATION_TOKEN,
            2,
            CreateDelegationTokenRequest(max_lifetime_ms=-1),
            CreateDelegationTokenResponse,
        )
        assert made.error_code == 0
        listed = wire.ask(
            ApiKey.DESCRIBE_DELEGATION_TOKEN,
            2,
            DescribeDelegationTokenRequest(owners=None),
            DescribeDelegationTokenResponse,
        )
    assert bytes(listed.tokens[0].hmac) == bytes(made.hmac)
    PLANTED["hmac"] = bytes(made.hmac).hex()
    PLANTED["hmac in base64"] = base64.b64encode(made.hmac).decode()
    client = ScramClient(
        "SCRAM-SHA-512", made.token_id, PLANTED["hmac in base64"], "nonce", is_token=True
    )
    with TlsWire(planted.port, planted.authority.context()) as wire:
        wire.send_bytes(handshake("SCRAM-SHA-512"))
        wire.receive_frame()
        first = wire.ask(
            ApiKey.SASL_AUTHENTICATE,
            2,
            SaslAuthenticateRequest(auth_bytes=client.first()),
            SaslAuthenticateResponse,
        )
        proof = client.answer(bytes(first.auth_bytes)) or b""
        last = wire.ask(
            ApiKey.SASL_AUTHENTICATE,
            2,
            SaslAuthenticateRequest(auth_bytes=proof),
            SaslAuthenticateResponse,
        )
    assert last.error_code == 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "refused the PLAIN credentials"),
        ({"sasl.jaas.config": f'{PLAIN_MODULE} required password="@"'}, "semicolon"),
        ({"ssl.keystore.location": "/etc/hostname", "ssl.keystore.password": "@"}, "keystore"),
    ],
    ids=["password", "login module", "store"],
)
def test_configurations_of_the_command_line(
    planted: Planted, changes: Mapping[str, str], reason: str
) -> None:
    secret = PLANTED["command"]
    properties = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(planted.authority.own.certificate),
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN_MODULE} required username="alice" password="{secret}";',
        **{key: value.replace("@", secret) for key, value in changes.items()},
    }
    file = planted.folder / "client.properties"
    file.write_text(format_properties(properties))
    command = ["topics", "list", "--command-config", str(file)]
    command += ["--bootstrap", f"127.0.0.1:{planted.port}"]
    done = subprocess.run(
        [sys.executable, "-m", "ottla.cli", *command],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode != 0
    assert reason in done.stderr, done.stderr
    assert found_in({"output": done.stdout + done.stderr}) == []


def test_malformed_tokens(planted: Planted) -> None:
    """The frames are not complete requests, or hold secrets where none belongs."""
    secret = PLANTED["malformed"].encode()
    for token in (
        b"\0alice\0" + secret + b"\0more",
        secret,
        b"n,,n=alice,r=" + secret + b",m=" + secret,
        b"\xff" + secret,
    ):
        for frame in (token, handshake() + authenticate(token)):
            answer = send(planted, frame)
            assert secret not in answer
    # A client without TLS: the log quotes none of its bytes.
    with socket.create_connection(("127.0.0.1", planted.port)) as plain:
        plain.sendall(b"\0\0\0\x20" + secret)
        plain.settimeout(TIMEOUT_S)
        assert secret not in plain.recv(1_024)


def handshake(mechanism: str = "PLAIN") -> bytes:
    return framed(17, 1, len(mechanism).to_bytes(2, "big") + mechanism.encode())


def authenticate(token: bytes) -> bytes:
    return framed(36, 1, len(token).to_bytes(4, "big") + token)


def framed(api_key: int, version: int, body: bytes) -> bytes:
    client = b"probe"
    head = api_key.to_bytes(2, "big") + version.to_bytes(2, "big") + (7).to_bytes(4, "big")
    data = head + len(client).to_bytes(2, "big") + client + body
    return len(data).to_bytes(4, "big") + data


def send(planted: Planted, data: bytes) -> bytes:
    """Send bytes over TLS, and return all bytes of the answer."""
    context = planted.authority.context()
    with (
        socket.create_connection(("127.0.0.1", planted.port), TIMEOUT_S) as connection,
        context.wrap_socket(connection, server_hostname="127.0.0.1") as secured,
    ):
        secured.sendall(data)
        # A broker that waits for the rest of a frame sends nothing.
        secured.settimeout(1)
        answer = b""
        try:
            while part := secured.recv(4_096):
                answer += part
        except (TimeoutError, ssl.SSLError, ConnectionError):
            pass
        return answer


def test_wrong_configurations(planted: Planted) -> None:
    jaas = planted.properties[JAAS_KEY]
    texts = {
        "no semicolon": planted.run_properties({**planted.properties, JAAS_KEY: jaas[:-1]}),
        "other module": planted.run_properties(
            {**planted.properties, JAAS_KEY: jaas.replace(PLAIN_MODULE, SCRAM_MODULE)}
        ),
        "open quote": planted.run_properties(
            {**planted.properties, JAAS_KEY: jaas.replace('";', ";")}
        ),
        "without prefix": planted.run_properties({**planted.properties, "sasl.jaas.config": jaas}),
        "no such listener": planted.run_properties(
            {**planted.properties, "listener.name.none.plain.sasl.jaas.config": jaas}
        ),
        "wrong key password": planted.run_with(ssl__key__password=PLANTED["wrong"]),
        "password of PEM": planted.run_with(ssl__keystore__password=PLANTED["wrong"]),
        "inline key": planted.run_with(
            ssl__keystore__location="",
            ssl__keystore__key=PLANTED["wrong"],
            ssl__keystore__certificate__chain=PLANTED["wrong"],
        ),
        "store of Java": planted.run_with(
            ssl__keystore__type="JKS", ssl__keystore__password=PLANTED["wrong"]
        ),
        "port in use": planted.run_properties(
            {**planted.properties, "log.dirs": str(planted.folder / "other")}
        ),
        "other key": planted.run_with(num__partitions="many"),
    }
    assert all(texts.values())
    assert found_in(texts) == []


def test_crashes(planted: Planted) -> None:
    text = planted.run_crash()
    assert text.count("ValueError: failed with") == 2
    assert "config.shown" in text
    assert found_in({"traceback": text}) == []


def test_log_arguments_and_environment(planted: Planted) -> None:
    """Runs last, after all requests of the tests above."""
    process = Path(f"/proc/{planted.process.pid}")
    texts = {kind: (process / kind).read_text(errors="replace") for kind in ("cmdline", "environ")}
    texts["log"] = planted.output
    assert "server.properties" in texts["cmdline"]
    assert '"debug"' in texts["log"]
    assert "authentication failed" in texts["log"]
    assert found_in(texts) == []

"""`ottla up --secure`: clients of several libraries, a restart, and no secret anywhere else."""

import asyncio
import base64
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import confluent_kafka
import pytest

import ottla
from ottla.client.admin_model import ResourceType
from ottla.client.errors import (
    AuthenticationFailedError,
    NotAuthorizedError,
    OttlaError,
)
from ottla.client.security import SecurityOptions
from tests.integration.cli.conftest import RunOttla
from tests.integration.cli.up.conftest import TIMEOUT_S, Up, start

pytest.importorskip("cryptography")

KEY_LINE_BYTES = 40
OF_ALICE = "s3cret-of-alice"
WRONG = "no-password-of-client"


def secrets_in(directory: Path) -> list[str]:
    """Return the passwords of a secured cluster, and a line of each private key."""
    folder = directory / "security"
    passwords = json.loads((folder / "passwords.json").read_text())
    login = (directory / "coordinator-login.conf").read_text()
    passwords["at the coordinator"] = re.findall(r'password="(.*?)"', login)[0]
    keys = [
        re.findall(r"PRIVATE KEY-----\n(.*)\n(.*)\n", path.read_text())[0][1]
        for path in folder.glob("*.pem")
        if path.name != "ca.pem"
    ]
    assert all(len(each) >= KEY_LINE_BYTES for each in keys)
    encoded = [base64.b64encode(f"\0{each}".encode()).decode() for each in passwords.values()]
    return [*passwords.values(), *keys, *encoded]


def found_in(secrets: Iterable[str], texts: dict[str, str]) -> list[str]:
    """Return the names of the texts that hold a secret."""
    return [name for name, text in texts.items() if any(each in text for each in secrets)]


def seen_by_others(pids: Iterable[int]) -> dict[str, str]:
    """Return the arguments and the environment of processes."""
    return {
        f"{pid} {kind}": Path(f"/proc/{pid}/{kind}").read_text(errors="replace")
        for pid in pids
        for kind in ("cmdline", "environ")
    }


def test_secured_cluster_serves_its_users_and_keeps_its_secrets(
    started: list[Up], tmp_path: Path, run_ottla: RunOttla
) -> None:
    up = start(started, tmp_path, "--secure")
    connections = up.wait_for("secured")
    bootstrap = ",".join(up.wait_for("ready")["brokers"])
    texts = seen_by_others([up.process.pid, *up.pids()])

    # The kind of command that the supervisor prints.
    created = run_ottla("topics", "create", "orders", "--command-config", connections["client"])
    assert created.stdout == "created orders\n", created
    made = {"OTTLA_USER_PASSWORD": OF_ALICE}
    users = run_ottla(
        "users", "create", "alice", "--command-config", connections["admin"], env=made
    )
    assert users.stdout == "created alice\n", users
    produce_by_librdkafka(tmp_path)
    asyncio.run(use(bootstrap, tmp_path))
    texts |= asyncio.run(refusals(bootstrap, tmp_path))
    texts |= asyncio.run(configs(bootstrap, tmp_path))

    assert up.end(signal.SIGTERM) == 0
    texts |= {str(path): path.read_text() for path in tmp_path.glob("*/log.jsonl")}
    texts["events"] = json.dumps(up.events)
    # Arguments and environments of 4 processes, errors, configs of 2 brokers, 3 logs, events.
    assert len(texts) == 4 * 2 + 3 + 2 + 3 + 1
    assert all(texts.values())
    assert found_in([*secrets_in(tmp_path), OF_ALICE, WRONG], texts) == []

    # Identities and users outlive a restart; a start without --secure would open the data.
    opened = run_ottla("up", "--dir", tmp_path)
    assert (opened.returncode, "add --secure" in opened.stderr) == (2, True)
    kept = {name: (tmp_path / "security" / name).read_bytes() for name in KEPT}
    again = start(started, tmp_path, "--secure")
    assert kept == {name: (tmp_path / "security" / name).read_bytes() for name in KEPT}
    asyncio.run(use_again(",".join(again.wait_for("ready")["brokers"]), tmp_path))


async def use(bootstrap: str, directory: Path) -> None:
    """Produce and consume as `client`."""
    login = login_of(directory, "client")
    async with ottla.Producer(bootstrap, **login) as producer:
        await producer.send_and_wait("orders", b"1", partition=0)
    values: list[bytes | None] = []
    async with ottla.Consumer(bootstrap, auto_offset_reset="earliest", **login) as consumer:
        consumer.assign([ottla.TopicPartition("orders", 0)])
        while len(values) < 2:
            values += [record.value for record in await consumer.fetch_batch(10)]
    assert sorted(values, key=str) == [b"1", b"2"]


async def refusals(bootstrap: str, directory: Path) -> dict[str, str]:
    """Return the errors of clients with too few rights, wrong passwords or no trust."""
    login = login_of(directory, "client")
    async with ottla.Admin(bootstrap, **login) as limited:
        with pytest.raises(NotAuthorizedError) as denied:
            await limited.delete_topics(["orders"])
        with pytest.raises(NotAuthorizedError):
            await limited.describe_acls()
    wrong: SecurityOptions = {**login, "sasl_plain_password": WRONG}
    with pytest.raises(AuthenticationFailedError, match="credentials") as refused:
        await ottla.Admin(bootstrap, **wrong).start()
    untrusted: SecurityOptions = {**login}
    del untrusted["ssl_cafile"]
    with pytest.raises(AuthenticationFailedError, match="not trusted") as foreign:
        await ottla.Admin(bootstrap, **untrusted).start()
    with pytest.raises(OttlaError):
        await ottla.Admin(bootstrap).start()
    errors = {"denied": denied, "refused": refused, "foreign": foreign}
    return {name: str(caught.value) for name, caught in errors.items()}


async def configs(bootstrap: str, directory: Path) -> dict[str, str]:
    """Return the configs of the brokers, as their administrator sees them."""
    async with ottla.Admin(bootstrap, **login_of(directory, "admin")) as admin:
        found = {
            broker: await admin.describe_configs(ResourceType.BROKER, broker) for broker in "12"
        }
    for entries in found.values():
        password = entries["ssl.keystore.password"]
        assert (password.value, password.is_sensitive) == (None, True)
    return {f"configs of {broker}": repr(entries) for broker, entries in found.items()}


async def use_again(bootstrap: str, directory: Path) -> None:
    """Log in as `client` and as a user from before the restart, without any rights."""
    login = login_of(directory, "client")
    alice: SecurityOptions = {
        **login,
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
        "sasl_plain_password": OF_ALICE,
    }
    async with ottla.Admin(bootstrap, **alice) as stranger:
        assert await stranger.list_topics() == []
    async with ottla.Admin(bootstrap, **login) as user:
        assert await user.list_topics() == ["orders"]


KEPT = ["authority.pem", "ca.pem", "broker-1.pem", "broker-2.pem", "passwords.json", "granted"]


def login_of(directory: Path, user: str) -> SecurityOptions:
    folder = directory / "security"
    password = json.loads((folder / "passwords.json").read_text())[user]
    return {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(folder / "ca.pem"),
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


def produce_by_librdkafka(directory: Path) -> None:
    lines = (directory / "security" / "client.librdkafka.properties").read_text().splitlines()
    settings: dict[str, str | int | float | bool | None] = {}
    for line in lines:
        key, _, value = line.partition("=")
        settings[key] = value
    producer = confluent_kafka.Producer(settings)
    failures: list[object] = []
    producer.produce(
        "orders", b"2", partition=0, on_delivery=lambda error, _: failures.append(error)
    )
    producer.flush(TIMEOUT_S)
    assert failures == [None]


def test_advertised_host_needs_security(run_ottla: RunOttla, tmp_path: Path) -> None:
    for arguments, reason in (
        (("--advertised-host", "kafka.example"), "add --secure"),
        (("--secure", "--advertised-host", "0.0.0.0"), "must be a name or an address"),
        (("--secure", "--override", "super.users=User:x"), "belongs to the security"),
    ):
        refused = run_ottla("up", "--dir", tmp_path, *arguments)
        assert (refused.returncode, reason in refused.stderr) == (2, True), refused


def test_secrets_are_found_where_they_are() -> None:
    """The search above finds a password in an argument."""
    program = [sys.executable, "-c", "input(print('up', flush=True))", "hunter2"]
    sleeper = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert sleeper.stdout is not None
    try:
        # A process that is only just replaced by the program has no arguments for a moment.
        assert sleeper.stdout.readline() == b"up\n"
        texts = seen_by_others([sleeper.pid])
        assert found_in(["hunter2"], texts) == [f"{sleeper.pid} cmdline"]
    finally:
        sleeper.kill()
        sleeper.communicate()

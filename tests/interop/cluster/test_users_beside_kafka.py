"""Users of a SASL listener beside Kafka 3.9: equal answers to every API.

Four clients send each row of the matrix: one that has not logged in, a user without rights, the
same user with exactly the right, and a super user.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kafkawire.acl import AclFilter
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.conftest import READY_EVENT, BrokerProcess
from tests.integration.broker.acl_client import WITH_AUTHORIZER, acl, add, remove
from tests.integration.broker.acl_matrix import (
    CLOSED,
    ROWS,
    Right,
    Row,
    Stage,
    prepare,
    settle,
    summary,
)
from tests.integration.broker.wire import Wire
from tests.integration.coordination.process import Coordinator, wait_until
from tests.interop.kafka_broker import KafkaBroker, kafka_jars_or_skip
from tests.ports import free_port
from trust.jaas import PLAIN_MODULE

START_TIMEOUT_S: Final = 240.0
USER, ROOT, PASSWORD = "client", "root", "s3cret-pw"
OPEN: Final = {ApiKey.API_VERSIONS}
"""Answered before a login."""
DIFFERENCES: Final[dict[tuple[str, str], str]] = {
    ("OffsetFetch v1", "without rights"): (
        "Kafka returns no partition, and so no error: version 1 has errors of partitions only."
    ),
}
"""By row and client: the reason for another answer than Kafka's."""


def settings(ports: dict[str, int]) -> dict[str, str]:
    """Return the configuration of both brokers."""
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    return {
        **WITH_AUTHORIZER,
        "allow.everyone.if.no.acl.found": "false",
        "super.users": f"User:ANONYMOUS;User:{ROOT}",
        "listeners": listeners,
        "advertised.listeners": listeners,
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "connection.failed.authentication.delay.ms": "0",
        "delegation.token.secret.key": "key",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}" user_{ROOT}="{PASSWORD}";'
        ),
    }


def log_in(wire: Wire, user: str) -> None:
    choice = SaslHandshakeRequest(mechanism="PLAIN")
    wire.ask(ApiKey.SASL_HANDSHAKE, 1, choice, SaslHandshakeResponse)
    token = SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{PASSWORD}".encode())
    answer = wire.ask(ApiKey.SASL_AUTHENTICATE, 2, token, SaslAuthenticateResponse)
    assert answer.error_code == ErrorCode.NONE


def send_as(port: int, row: Row, stage: Stage, user: str | None) -> object:
    """Send a request as a user, or without a login; return the summary of its response."""
    with Wire(port) as wire:
        if user is not None:
            log_in(wire, user)
        try:
            wire.send(row.key, row.version, row.message(stage))
            return summary(wire.receive(row.key, row.version)[1])
        except ConnectionError:
            return CLOSED


def grant(admin: Wire, rights: Sequence[Right]) -> None:
    """Give the user exactly these rights."""
    name = f"User:{USER}"
    remove(admin, AclFilter(principal=name))
    acls = [acl(operation, pattern, host="*", principal=name) for operation, pattern in rights]
    assert set(add(admin, *acls)) <= {ErrorCode.NONE}


def answers(ports: dict[str, int]) -> dict[tuple[str, str], object]:
    """Return the answers to all rows, by row and client."""
    port, found = ports["SASL_PLAINTEXT"], {}
    with Wire(ports["PLAINTEXT"]) as admin:
        stage, stage_of_root = prepare(admin, USER, ROOT).values()
        settle(ports["PLAINTEXT"], stage, "127.0.0.1")
        for row in ROWS:
            name = row.name
            found[name, "without a login"] = send_as(port, row, stage, None)
            grant(admin, [])
            found[name, "without rights"] = send_as(port, row, stage, USER)
            if row.is_between_brokers:
                continue
            grant(admin, row.rights(stage))
            found[name, "with its right"] = send_as(port, row, stage, USER)
            found[name, "with all rights"] = send_as(port, row, stage_of_root, ROOT)
    return found


def test_users_get_kafkas_answers(tmp_path: Path) -> None:
    jars = kafka_jars_or_skip()
    coordinator = Coordinator(tmp_path / "coordinator")
    ports = [{name: free_port() for name in ("PLAINTEXT", "SASL_PLAINTEXT")} for _ in range(2)]
    theirs = KafkaBroker(7, tmp_path, coordinator.address, jars, settings(ports[0]))
    ours = BrokerProcess(tmp_path / "ours", settings(ports[1]))
    try:
        ours.wait_for_event(READY_EVENT)
        wait_until(theirs.has_started, START_TIMEOUT_S)
        expected, found = answers(ports[0]), answers(ports[1])
    finally:
        ours.kill()
        theirs.kill()
        coordinator.kill()
    assert found.keys() == expected.keys()
    unequal = {place for place in found if found[place] != expected[place]}
    lines = [
        f"{place}\n  ours:    {found[place]}\n  Kafka's: {expected[place]}"
        for place in sorted(unequal ^ DIFFERENCES.keys())
    ]
    assert not lines, "\n".join(lines)
    strangers = {row.name for row in ROWS if row.key not in OPEN}
    assert {found[name, "without a login"] for name in strangers} == {CLOSED}

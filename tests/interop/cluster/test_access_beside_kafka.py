"""Access control beside Kafka 3.9: equal answers, shared entries, and Kafka's tool for them."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kafkawire.acl import AclFilter, Operation, PatternType
from kafkawire.errors import ErrorCode
from tests.conftest import READY_EVENT, BrokerProcess
from tests.integration.broker.acl_client import (
    ADMIN_HOST,
    CLIENT_HOST,
    WITH_AUTHORIZER,
    Acl,
    acl,
    add,
    group,
    listed,
    remove,
    reserve_for_admin,
    topic,
)
from tests.integration.broker.acl_matrix import ROWS, prepare, send, settle, with_rights
from tests.integration.broker.wire import Wire
from tests.integration.coordination.process import Coordinator, wait_until
from tests.interop.kafka_broker import KafkaBroker, kafka_jars_or_skip
from tests.interop.kafka_jars import run_java

START_TIMEOUT_S = 240.0
SETTINGS = {**WITH_AUTHORIZER, "auto.create.topics.enable": "false"}
DIFFERENCES = {
    ("OffsetFetch v1", "without rights"): (
        "Kafka returns no partition, and so no error: version 1 has errors of partitions only."
    ),
}
"""By row and client: the reason for another answer than Kafka's."""


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    server = Coordinator(tmp_path / "shared-coordinator")
    yield server
    server.kill()


@pytest.fixture
def theirs(tmp_path: Path, coordinator: Coordinator) -> Iterator[KafkaBroker]:
    broker = KafkaBroker(7, tmp_path, coordinator.address, kafka_jars_or_skip(), SETTINGS)
    wait_until(broker.has_started, START_TIMEOUT_S)
    yield broker
    broker.kill()


def answers(port: int) -> dict[tuple[str, str], object]:
    """Return the answers to all rows, by row and client."""
    with Wire(port) as admin:
        stage, stage_of_admin = prepare(admin, "client", "admin").values()
        reserve_for_admin(admin)
        settle(port, stage, ADMIN_HOST)
        found = {}
        for row in ROWS:
            name = row.name
            with_rights(admin, [])
            found[name, "without rights"] = send(port, row, stage, CLIENT_HOST)
            if row.is_between_brokers:
                continue
            with_rights(admin, row.rights(stage))
            found[name, "with its right"] = send(port, row, stage, CLIENT_HOST)
            found[name, "with all rights"] = send(port, row, stage_of_admin, ADMIN_HOST)
    return found


def test_every_answer_is_kafkas(tmp_path: Path, theirs: KafkaBroker) -> None:
    expected = answers(theirs.port)
    ours = BrokerProcess(tmp_path / "ours", SETTINGS)
    try:
        ours.wait_for_event(READY_EVENT)
        found = answers(ours.port)
    finally:
        ours.kill()
    assert found.keys() == expected.keys()
    unequal = {place for place in found if found[place] != expected[place]}
    lines = [
        f"{place}\n  ours:    {found[place]}\n  Kafka's: {expected[place]}"
        for place in sorted(unequal ^ DIFFERENCES.keys())
    ]
    assert not lines, "\n".join(lines)


def test_each_side_obeys_the_entries_of_the_other(
    tmp_path: Path, coordinator: Coordinator, theirs: KafkaBroker
) -> None:
    overrides = {**SETTINGS, "zookeeper.connect": coordinator.address, "broker.id": "1"}
    ours = BrokerProcess(tmp_path / "ours", overrides)
    try:
        ours.wait_for_event(READY_EVENT)
        with Wire(theirs.port) as their_admin, Wire(ours.port) as our_admin:
            reserve_for_admin(our_admin)
            everything = listed(our_admin)
            wait_until(partial(has_entries, their_admin, everything))
            entries = {
                acl(Operation.DESCRIBE),
                acl(Operation.READ, topic("ü", PatternType.PREFIXED)),
                acl(Operation.DESCRIBE_CONFIGS, topic("a.b")),
                acl(Operation.READ, group("g")),
            }
            for here, there in ((their_admin, our_admin), (our_admin, their_admin)):
                assert set(add(here, *entries)) == {ErrorCode.NONE}
                wait_until(partial(has_entries, there, everything | entries))
                [gone] = remove(here, AclFilter(host=CLIENT_HOST))
                assert gone == entries
                wait_until(partial(has_entries, there, everything))
    finally:
        ours.kill()


def has_entries(wire: Wire, expected: set[Acl]) -> bool:
    return listed(wire) == expected


def test_kafkas_tool_lists_adds_and_removes_our_entries(tmp_path: Path) -> None:
    kafka_jars_or_skip()
    ours = BrokerProcess(tmp_path / "ours", SETTINGS)
    try:
        ours.wait_for_event(READY_EVENT)
        with Wire(ours.port) as admin:
            reserve_for_admin(admin)
            before = listed(admin)
            server = ("--bootstrap-server", f"127.0.0.1:{ours.port}")
            subject = ("--allow-principal", "User:ANONYMOUS", "--allow-host", CLIENT_HOST)
            consumer = (*subject, "--consumer", "--topic", "t", "--group", "g")
            run_java("kafka.admin.AclCommand", *server, "--add", *consumer)
            assert listed(admin) - before == {
                acl(Operation.READ, topic("t")),
                acl(Operation.DESCRIBE, topic("t")),
                acl(Operation.READ, group("g")),
            }
            prefixed = ("--topic", "t", "--resource-pattern-type", "prefixed")
            run_java("kafka.admin.AclCommand", *server, "--add", *subject, "--producer", *prefixed)
            output = run_java("kafka.admin.AclCommand", *server, "--list", "--topic", "t")
            assert "name=t, patternType=LITERAL" in output
            assert f"host={CLIENT_HOST}, operation=READ, permissionType=ALLOW" in output
            force = ("--remove", "--force")
            run_java("kafka.admin.AclCommand", *server, *force, *consumer)
            run_java("kafka.admin.AclCommand", *server, *force, *subject, "--producer", *prefixed)
            assert listed(admin) == before
    finally:
        ours.kill()

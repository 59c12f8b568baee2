"""`ottla acls` against a real broker."""

import json
from collections.abc import Iterator

import pytest

from tests.conftest import READY_EVENT, BrokerProcess
from tests.integration.cli.conftest import RunOttla

At = tuple[str, str]
OVERRIDES = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}
HEAD = ["resource", "name", "pattern", "permission", "principal", "host", "operation"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), OVERRIDES)
    try:
        broker.wait_for_event(READY_EVENT)
        yield broker
    finally:
        broker.stop()


@pytest.fixture
def at(broker: BrokerProcess) -> At:
    return ("--bootstrap", broker.bootstrap)


def rows(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines()]


def test_entries_are_added_listed_and_removed(run_ottla: RunOttla, at: At) -> None:
    assert run_ottla("acls", "list", *at).stdout == "no entries\n"
    read = ["Topic", "orders", "Literal", "Allow", "User:a", "*", "Read"]
    deny = ["Topic", "or", "Prefixed", "Deny", "User:b", "10.0.0.1", "All"]
    group = ["Group", "g", "Literal", "Allow", "User:a", "*", "Read"]
    allow = ("--allow-principal", "User:a", "--operation", "read")
    added = run_ottla("acls", "add", *allow, "--topic", "orders", "--group", "g", *at)
    assert rows(added.stdout) == [HEAD, group, read]
    prefixed = ("--topic", "or", "--resource-pattern-type", "prefixed")
    denial = ("--deny-principal", "User:b", "--deny-host", "10.0.0.1")
    assert rows(run_ottla("acls", "add", *denial, *prefixed, *at).stdout) == [HEAD, deny]
    assert rows(run_ottla("acls", "list", *at).stdout) == [HEAD, group, read, deny]
    match = ("--topic", "orders", "--resource-pattern-type", "match")
    assert rows(run_ottla("acls", "list", *match, *at).stdout) == [HEAD, read, deny]
    of_b = run_ottla("acls", "list", "--principal", "User:b", "--json", *at)
    assert [each["operation"] for each in json.loads(of_b.stdout)] == ["All"]
    removed = run_ottla("acls", "remove", *allow, "--topic", "orders", *at)
    assert rows(removed.stdout) == [HEAD, read]
    assert rows(run_ottla("acls", "remove", *prefixed, *at).stdout) == [HEAD, deny]
    assert rows(run_ottla("acls", "remove", "--group", "g", *at).stdout) == [HEAD, group]
    assert run_ottla("acls", "list", "--json", *at).stdout == "[]\n"


def test_contradicting_options_are_a_usage_error(run_ottla: RunOttla, at: At) -> None:
    for arguments, reason in (
        (("add", "--topic", "t"), "name a principal"),
        (("add", "--allow-principal", "User:a"), "name a resource"),
        (("add", "--allow-principal", "User:a", "--topic", "t", "--operation", "Peek"), "'Peek'"),
        (("remove",), "name a resource"),
    ):
        refused = run_ottla("acls", *arguments, *at)
        assert (refused.returncode, reason in refused.stderr) == (2, True), refused


def test_an_option_that_lacks_its_role_removes_nothing(run_ottla: RunOttla, at: At) -> None:
    of_a = ("--allow-principal", "User:a", "--topic", "kept")
    assert run_ottla("acls", "add", *of_a, *at).returncode == 0
    refused = run_ottla("acls", "remove", "--topic", "kept", "--idempotent", *at)
    assert (refused.returncode, "--idempotent needs" in refused.stderr) == (2, True), refused
    assert rows(run_ottla("acls", "remove", *of_a, *at).stdout)[1:] == [
        ["Topic", "kept", "Literal", "Allow", "User:a", "*", "All"]
    ]


def test_entry_without_a_kind_of_principal_is_refused(run_ottla: RunOttla, at: At) -> None:
    refused = run_ottla("acls", "add", "--allow-principal", "alice", "--topic", "t", *at)
    assert (refused.returncode, "User:name" in refused.stderr) == (1, True)

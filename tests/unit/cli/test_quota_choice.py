"""Quota entities and changes are parsed and printed."""

import pytest

from ottla.cli.quota_choice import parse_changes, parse_entity, to_json, to_rows
from ottla.client.admin_model import ClientQuota

BOTH = ClientQuota(
    entity={"user": "b", "client-id": None}, values={"producer_byte_rate": 1_000_000.0}
)
IP = ClientQuota(entity={"ip": "::1"}, values={"connection_creation_rate": 2.5, "a": 1.0})


def test_an_entity_has_names_and_defaults() -> None:
    names = {"user": "alice", "client-id": None, "ip": None}
    assert parse_entity(names, []) == {"user": "alice"}
    assert parse_entity(names, ["client-id"]) == {"user": "alice", "client-id": None}
    assert parse_entity({}, []) == {}


@pytest.mark.parametrize(
    ("default", "text"), [("group", "must be one of user"), ("user", "exclude each other")]
)
def test_a_contradictory_entity_is_refused(default: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse_entity({"user": "alice"}, [default])


def test_changes_are_numbers_and_deletions() -> None:
    assert parse_changes(["a=1e6", "b=0.5"], ["c"]) == {"a": 1_000_000.0, "b": 0.5, "c": None}


@pytest.mark.parametrize(
    ("settings", "deleted", "text"),
    [
        (["a"], [], "KEY=NUMBER"),
        (["=1"], [], "KEY=NUMBER"),
        (["a=x"], [], "KEY=NUMBER"),
        (["a=nan"], [], "KEY=NUMBER"),
        (["a=inf"], [], "KEY=NUMBER"),
        (["a=1", "a=2"], [], "set twice"),
        (["a=1"], ["a"], "set and deleted"),
        ([], [], "nothing to change"),
    ],
)
def test_other_changes_are_refused(settings: list[str], deleted: list[str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse_changes(settings, deleted)


def test_quotas_become_sorted_rows_and_json() -> None:
    assert to_rows([BOTH, IP]) == [
        ["client-id=(default), user=b", "producer_byte_rate", "1000000"],
        ["ip=::1", "a", "1"],
        ["ip=::1", "connection_creation_rate", "2.5"],
    ]
    assert to_json([IP, BOTH]) == [
        {
            "entity": {"user": "b", "client-id": None},
            "quotas": {"producer_byte_rate": 1_000_000.0},
        },
        {"entity": {"ip": "::1"}, "quotas": {"connection_creation_rate": 2.5, "a": 1.0}},
    ]

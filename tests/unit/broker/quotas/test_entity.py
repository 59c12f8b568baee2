"""Entities of quotas and their nodes: `broker.quotas.entity`."""

import pytest

from broker.quotas.entity import QuotaEntity, altered, quotas_of
from kafkawire.errors import ApiError, ErrorCode

Names = list[tuple[str, str | None]]


@pytest.mark.parametrize(
    ("names", "path"),
    [
        ([("user", "anna")], "users/anna"),
        ([("user", None)], "users/<default>"),
        ([("client-id", "a b+c*d/e")], "clients/a%20b%2Bc%2Ad%2Fe"),
        ([("user", "a.b-c_d~e")], "users/a.b-c_d%7Ee"),
        ([("client-id", None), ("user", "anna")], "users/anna/clients/<default>"),
        ([("user", None), ("client-id", "c")], "users/<default>/clients/c"),
        ([("ip", "10.0.0.1")], "ips/10.0.0.1"),
        # Kafka's brokers do not decode it.
        ([("ip", "2001:db8::1")], "ips/2001:db8::1"),
        ([("ip", "host-1.example.org")], "ips/host-1.example.org"),
    ],
)
def test_entity_is_parsed_from_its_path(names: Names, path: str) -> None:
    entity = QuotaEntity.of(names)
    assert entity.path == path
    assert QuotaEntity.at(path) == entity


@pytest.mark.parametrize(
    "names",
    [
        [],
        [("user", "")],
        [("group", "g")],
        [("user", "a"), ("user", "b")],
        [("ip", "1.1.1.1"), ("user", "a")],
        [("ip", "no address")],
        [("ip", "fe80::1%eth0")],
    ],
)
def test_invalid_entity_is_refused(names: Names) -> None:
    with pytest.raises(ApiError) as caught:
        QuotaEntity.of(names)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_path_of_another_node_has_no_entity() -> None:
    assert QuotaEntity.at("users/a/scram/b") is None


CLIENT, IP = QuotaEntity.of([("client-id", "c")]), QuotaEntity.of([("ip", "1.1.1.1")])


def test_quotas_are_set_and_removed() -> None:
    before = {"producer_byte_rate": "1", "SCRAM-SHA-256": "salt"}
    after = altered(
        before,
        CLIENT,
        [("consumer_byte_rate", 5.0), ("request_percentage", 2.5), ("producer_byte_rate", None)],
    )
    assert after == {
        "SCRAM-SHA-256": "salt",
        "consumer_byte_rate": "5",
        "request_percentage": "2.5",
    }
    assert quotas_of(after) == {"consumer_byte_rate": 5.0, "request_percentage": 2.5}
    assert quotas_of({"producer_byte_rate": "broken"}) == {}


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        (CLIENT, "producer_byte_rate", 1.5),
        (CLIENT, "producer_byte_rate", float("nan")),
        (CLIENT, "request_percentage", float("inf")),
        (CLIENT, "connection_creation_rate", 1),
        (IP, "producer_byte_rate", 1),
        (IP, "connection_creation_rate", 2**31),
        (CLIENT, "no_such_quota", 1),
    ],
)
def test_invalid_quota_is_refused(entity: QuotaEntity, key: str, value: float) -> None:
    with pytest.raises(ApiError) as caught:
        altered({}, entity, [(key, value)])
    assert caught.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e400", "many", ""])
def test_a_quota_that_is_no_finite_number_is_left_out(text: str) -> None:
    assert quotas_of({"consumer_byte_rate": text, "producer_byte_rate": "5"}) == {
        "producer_byte_rate": 5.0
    }

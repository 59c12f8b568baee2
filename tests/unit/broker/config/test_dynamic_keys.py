"""The keys that may change while a broker runs: `broker.config.dynamic_keys`."""

import pytest

from broker.config.broker_config import SERVER_KEYS
from broker.config.dynamic_keys import (
    DYNAMIC_KEYS,
    RATE_KEYS,
    check_dynamic,
    check_thread_counts,
    is_fixed,
    key_of,
    overridden,
    synonyms_of,
    usable,
)
from kafkawire.errors import ApiError, ErrorCode


def test_every_dynamic_key_is_one_of_the_brokers() -> None:
    assert SERVER_KEYS.keys() >= DYNAMIC_KEYS
    assert not RATE_KEYS.keys() & SERVER_KEYS.keys()


@pytest.mark.parametrize(
    ("name", "fixed"),
    [
        ("log.retention.ms", False),
        ("message.max.bytes", False),
        ("min.insync.replicas", False),
        ("num.io.threads", False),
        ("leader.replication.throttled.rate", False),
        ("somebody.elses.key", False),
        ("log.retention.hours", True),
        ("log.message.format.version", True),
        ("broker.id", True),
        ("node.id", True),
        ("log.cleaner.enabled", True),
        ("delegation.token.master.key", True),
        ("listeners", True),
        ("num.partitions", True),
        ("listener.name.internal.ssl.keystore.location", False),
        ("listener.name.client.a.ssl.keystore.location", False),
        ("listener.name.internal.ssl.keystore.password", True),
        ("ssl.keystore.location", True),
        ("sasl.enabled.mechanisms", True),
        ("sasl.jaas.config", True),
        ("sasl.kerberos.min.time.before.relogin", False),
    ],
)
def test_some_keys_are_fixed_for_a_process(name: str, fixed: bool) -> None:
    assert is_fixed(name) is fixed


@pytest.mark.parametrize(
    "configs",
    [
        {"log.dirs": "/elsewhere"},
        {"log.retention.ms": "soon"},
        {"log.retention.ms": "0"},
        {"follower.replication.throttled.rate": "-1"},
    ],
)
def test_a_fixed_key_or_bad_value_is_refused_as_an_invalid_request(configs: dict[str, str]) -> None:
    with pytest.raises(ApiError) as caught:
        check_dynamic({"log.segment.bytes": "1000", **configs})
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert next(iter(configs)) in caught.value.message


def test_an_unknown_key_is_kept_for_other_programs() -> None:
    check_dynamic({"somebody.elses.key": "any value"})
    assert key_of("somebody.elses.key") is None


def test_illegal_values_in_the_nodes_are_ignored() -> None:
    kept, reasons = usable({"log.retention.ms": "1", "broker.id": "7", "max.connections": "many"})
    assert kept == {"log.retention.ms": "1"}
    assert [reason.count("broker.id") for reason in reasons] == [1, 0]


@pytest.mark.parametrize("count", [4, 7, 16])
def test_a_pool_may_be_halved_and_doubled(count: int) -> None:
    check_thread_counts({"num.io.threads": 8}, {"num.io.threads": count})


@pytest.mark.parametrize("count", [3, 17])
def test_a_pool_may_not_change_by_more(count: int) -> None:
    with pytest.raises(ApiError, match=r"within 4\.\.16"):
        check_thread_counts({"num.io.threads": 8}, {"num.io.threads": count})


def test_an_override_hides_all_synonyms_of_its_key() -> None:
    static = {"log.retention.ms": "1", "log.retention.hours": "2", "log.segment.bytes": "3"}
    assert overridden(static, {"log.retention.minutes": "4"}) == {
        "log.retention.minutes": "4",
        "log.segment.bytes": "3",
    }
    assert synonyms_of("log.roll.hours") == ("log.roll.ms", "log.roll.hours")
    assert synonyms_of("num.partitions") == ("num.partitions",)

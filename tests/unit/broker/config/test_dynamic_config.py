"""The layers of a broker's configuration: `broker.config.dynamic_config`."""

import pytest

from broker.config.broker_config import BrokerConfig
from broker.config.dynamic_config import OF_ONE_BROKER, DynamicConfig
from broker.config.dynamic_keys import LEADER_RATE
from broker.errors import ConfigError
from kafkawire.errors import ApiError, ErrorCode
from storage.config.config_key import LONG_MAX


def made(**static: str) -> DynamicConfig:
    properties = {key.replace("_", "."): value for key, value in static.items()}
    return DynamicConfig(BrokerConfig.from_properties(properties))


def test_own_configs_win_over_shared_ones_over_the_file_over_defaults() -> None:
    config = made(log_retention_hours="1")
    seen = []
    for shared, own in (({}, {}), ({"log.retention.ms": "2"}, {}), ({}, {"log.retention.ms": "3"})):
        assert config.adopt_shared(shared) == []
        assert config.adopt_own(own) == []
        seen.append(config.current.topic_defaults.retention_ms)
    config.adopt_shared({"log.retention.ms": "4"})
    seen.append(config.current.topic_defaults.retention_ms)
    assert seen == [3_600_000, 2, 3, 3]


def test_a_removed_config_reveals_the_files_value() -> None:
    config = made(max_connections="7")
    config.adopt_own({"max.connections": "9"})
    assert config.current.network.max_connections == 9
    config.adopt_own({})
    assert config.current is config.static


def test_an_illegal_value_is_ignored_and_the_others_take_effect() -> None:
    config = made()
    [reason] = config.adopt_shared({"broker.id": "4", "max.connections": "9"})
    assert "broker.id" in reason
    assert (config.current.server.broker_id, config.current.network.max_connections) == (-1, 9)


def test_a_stored_retention_of_zero_is_ignored_and_the_others_take_effect() -> None:
    config = made(log_retention_hours="-5")
    assert config.current.topic_defaults.retention_ms is None
    [reason] = config.adopt_shared({"log.retention.ms": "0", "max.connections": "9"})
    assert "log.retention.ms" in reason
    current = config.current
    assert (current.topic_defaults.retention_ms, current.network.max_connections) == (None, 9)


def test_an_illegal_combination_keeps_the_previous_configuration() -> None:
    config = made()
    config.adopt_own({"max.connections": "9"})
    [reason] = config.adopt_own({"max.connections": "8", "max.connections.per.ip": "0"})
    assert "max.connections.per.ip" in reason
    assert config.current.network.max_connections == 9


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize(
    "configs",
    [
        {"broker.id": "3"},
        {"max.connections.per.ip": "0"},
        {"num.io.threads": "100"},
        {"log.cleaner.threads": "9"},
    ],
)
def test_configs_that_cannot_take_effect_are_refused(
    configs: dict[str, str], is_shared: bool
) -> None:
    config = made()
    with pytest.raises(ApiError) as caught:
        config.check(configs, is_shared=is_shared)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_a_check_changes_nothing() -> None:
    config = made()
    config.check({"log.cleaner.threads": "2", LEADER_RATE: "5"}, is_shared=True)
    assert config.current is config.static


def test_rates_exist_only_as_dynamic_configs() -> None:
    config = made(leader_replication_throttled_rate="1")
    assert config.rate(LEADER_RATE) == LONG_MAX
    config.adopt_shared({LEADER_RATE: "2"})
    assert config.rate(LEADER_RATE) == 2
    config.adopt_own({LEADER_RATE: "3"})
    assert config.rate(LEADER_RATE) == 3


RELOADED = "listener.name.plaintext.ssl.keystore.location"


def test_files_of_certificates_change_for_one_broker_and_are_checked_first() -> None:
    config = made()
    checked: list[BrokerConfig] = []
    config.check_files = checked.append
    config.check({RELOADED: "/new.pem"}, is_shared=False)
    [merged] = checked
    location = merged.listener_security["PLAINTEXT"].keys.ssl_keystore_location
    assert location == "/new.pem"
    config.check({"log.cleaner.threads": "2"}, is_shared=False)
    assert len(checked) == 1, "no file is named"
    with pytest.raises(ApiError, match="for one broker only"):
        config.check({RELOADED: "/new.pem"}, is_shared=True)
    assert config.adopt_own({RELOADED: "/new.pem"}) == []
    assert config.current == merged
    assert config.adopt_shared({RELOADED: "/other.pem"}) == [OF_ONE_BROKER]
    assert config.current == merged
    config.check({}, is_shared=False)
    assert checked[1:] == [config.static], "the file of the properties counts again"


def test_advertised_listeners_change_for_one_broker() -> None:
    config = made(listeners="A://:1,B://:2", listener_security_protocol_map=MAP, **INTER_BROKER)
    wanted = {"advertised.listeners": "A://a.example:3"}
    config.check(wanted, is_shared=False)
    assert config.adopt_own(wanted) == []
    assert [str(each) for each in config.current.network.advertised] == ["A://a.example:3"]
    with pytest.raises(ApiError, match="for one broker only"):
        config.check(wanted, is_shared=True)
    assert config.adopt_shared({**wanted, "max.connections": "9"}) == [OF_ONE_BROKER]
    assert config.current.network.max_connections == 9
    assert config.adopt_own({}) == []
    assert len(config.current.network.advertised) == 2


MAP = "A:PLAINTEXT,B:PLAINTEXT"
INTER_BROKER = {"inter_broker_listener_name": "A"}


@pytest.mark.parametrize(
    ("listeners", "reason"),
    [
        ("B://b.example:3", "inter.broker.listener.name"),
        ("A://a.example:3,C://c.example:3", "must be one of the names in listeners"),
        ("A://0.0.0.0:3", "no client can reach"),
        ("a.example:3", "NAME://HOST:PORT"),
        ("", "at least one listener"),
    ],
)
def test_advertised_listeners_that_do_not_fit_are_refused(listeners: str, reason: str) -> None:
    config = made(listeners="A://:1,B://:2", listener_security_protocol_map=MAP, **INTER_BROKER)
    wanted = {"advertised.listeners": listeners}
    with pytest.raises(ApiError, match=reason):
        config.check(wanted, is_shared=False)
    [ignored] = config.adopt_own(wanted)
    assert reason in ignored
    assert len(config.current.network.advertised) == 2


def test_files_that_cannot_be_used_are_refused() -> None:
    def fail(_config: BrokerConfig) -> None:
        raise ConfigError(RELOADED, "/new.pem", "cannot be read")

    config = made()
    config.check_files = fail
    with pytest.raises(ApiError, match="cannot be read"):
        config.check({RELOADED: "/new.pem"}, is_shared=False)


def test_passwords_of_certificates_are_fixed() -> None:
    with pytest.raises(ApiError, match="cannot be changed"):
        made().check({"listener.name.plaintext.ssl.key.password": "s3cret"}, is_shared=False)

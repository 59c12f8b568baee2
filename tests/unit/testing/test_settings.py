"""Keys of brokers for tests."""

import pytest

from broker.config.broker_config import BrokerConfig, unknown_keys
from ottla.testing.settings import (
    OWN_KEYS,
    broker_settings,
    check_settings,
    listener_settings,
    override_arguments,
)


@pytest.mark.parametrize(
    ("broker_count", "replicas", "in_sync"), [(2, "2", "1"), (3, "3", "2"), (5, "3", "2")]
)
def test_a_cluster_replicates_as_far_as_its_brokers_allow(
    broker_count: int, replicas: str, in_sync: str
) -> None:
    settings = broker_settings(broker_count)
    assert settings["default.replication.factor"] == replicas
    assert settings["min.insync.replicas"] == in_sync


@pytest.mark.parametrize("broker_count", [1, 3])
@pytest.mark.parametrize("advertised", [None, (21, 22)])
def test_brokers_accept_the_settings(broker_count: int, advertised: tuple[int, int] | None) -> None:
    settings = broker_settings(broker_count) | listener_settings((11, 12), advertised)
    config = BrokerConfig.from_properties(settings)
    assert not unknown_keys(settings)
    assert {each.port for each in config.network.listening} == (
        {11} if not advertised else {11, 12}
    )
    if advertised:
        assert config.network.inter_broker_listener == "BROKERS"


@pytest.mark.parametrize("key", OWN_KEYS)
def test_a_key_that_the_module_chooses_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match=f"{key} differs between brokers and runs"):
        check_settings({"num.partitions": "3", key: "1"})


def test_settings_become_overrides() -> None:
    check_settings({"a": "1", "b": "2"})
    assert override_arguments({"a": "1", "b": "2"}) == ["--override", "a=1", "--override", "b=2"]

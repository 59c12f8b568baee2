"""The resource whose configs a request changes: `broker.config.config_target`."""

import pytest

from broker.config.broker_config import BrokerConfig
from broker.config.config_target import check_logger_broker, target_of
from broker.config.dynamic_config import DynamicConfig
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import BrokerId

CONFIG = DynamicConfig(BrokerConfig.from_properties({"log.cleanup.policy": "compact"}))
TOPIC, BROKER, LOGGER = 2, 4, 8


@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [
        (TOPIC, "orders", "topics/orders"),
        (BROKER, "1", "brokers/1"),
        (BROKER, "", "brokers/<default>"),
    ],
)
def test_configs_of_a_resource_have_a_path(kind: int, name: str, path: str) -> None:
    assert target_of(kind, name, CONFIG, BrokerId(1)).entity_path == path


@pytest.mark.parametrize(("kind", "name"), [(BROKER, "2"), (BROKER, "one"), (LOGGER, "1")])
def test_other_resources_are_refused(kind: int, name: str) -> None:
    with pytest.raises(ApiError) as caught:
        target_of(kind, name, CONFIG, BrokerId(1))
    assert caught.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", ["", "2", "one"])
def test_loggers_belong_to_the_broker_itself(name: str) -> None:
    check_logger_broker("1", BrokerId(1))
    with pytest.raises(ApiError) as caught:
        check_logger_broker(name, BrokerId(1))
    assert caught.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("kind", "name", "configs", "code"),
    [
        (TOPIC, "orders", {"retention.ms": "soon"}, ErrorCode.INVALID_CONFIG),
        (BROKER, "1", {"log.retention.ms": "soon"}, ErrorCode.INVALID_REQUEST),
        (BROKER, "", {"log.dirs": "/tmp"}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_illegal_configs_are_refused(
    kind: int, name: str, configs: dict[str, str], code: ErrorCode
) -> None:
    target = target_of(kind, name, CONFIG, BrokerId(1))
    with pytest.raises(ApiError) as caught:
        target.check(configs)
    assert caught.value.code is code


def test_a_list_starts_from_the_topics_inherited_value() -> None:
    assert target_of(TOPIC, "t", CONFIG, BrokerId(1)).defaults["cleanup.policy"] == "compact"
    assert target_of(BROKER, "", CONFIG, BrokerId(1)).defaults["log.cleanup.policy"] == "delete"

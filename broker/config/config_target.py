"""The resource whose configs a request changes, and its rules for values (decision)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from broker.config.broker_config import SERVER_KEYS
from broker.config.config_change import check_configs
from broker.config.config_entry import ResourceType
from broker.config.dynamic_config import DynamicConfig
from clusterstate.znodes.paths import DEFAULT_ENTITY
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import BrokerId
from storage.config.log_config import TOPIC_CONFIG_KEYS, ConfigKey, topic_defaults

Configs = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigTarget:
    """A topic, a broker, or all brokers.

    `keys` holds the known keys, `defaults` the initial content of lists that are not set. `check`
    raises an ApiError for configs that this resource may not have.
    """

    kind: ResourceType
    name: str
    keys: Mapping[str, ConfigKey]
    defaults: Configs
    check: Callable[[Configs], object]

    @property
    def entity_path(self) -> str:
        """Path of its configs, relative to `/config`."""
        kind = "topics" if self.kind is ResourceType.TOPIC else "brokers"
        return f"{kind}/{self.name or DEFAULT_ENTITY}"


def target_of(
    resource_type: int, name: str, config: DynamicConfig, broker_id: BrokerId
) -> ConfigTarget:
    """Return the resource named by a request that broker `broker_id` received.

    Raises:
        ApiError: the resource has no configs, or is another broker.
    """
    if resource_type == ResourceType.TOPIC:
        return _topic(name, config)
    if resource_type == ResourceType.BROKER:
        check_broker(name, broker_id)
        return _broker(name, config)
    raise unknown_resource(resource_type)


def unknown_resource(resource_type: int) -> ApiError:
    """Return the error for a resource without configs."""
    text = (
        f"resource type {resource_type} has no configs; only topics (2), brokers (4) and "
        "loggers of brokers (8) do"
    )
    return ApiError(ErrorCode.INVALID_REQUEST, text)


def check_logger_broker(name: str, broker_id: BrokerId) -> None:
    """Refuse the loggers of another broker, or of all brokers.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "loggers belong to a broker: name its id")
    check_broker(name, broker_id)


def check_broker(name: str, broker_id: BrokerId) -> None:
    """Refuse the name of another broker; "" denotes all brokers.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    if name and name != str(broker_id):
        text = f"this is broker {broker_id}, not {name}"
        raise ApiError(ErrorCode.INVALID_REQUEST, text)


def _topic(name: str, config: DynamicConfig) -> ConfigTarget:
    current = config.current
    built_in = {key.name: key.default for key in TOPIC_CONFIG_KEYS.values()}
    return ConfigTarget(
        kind=ResourceType.TOPIC,
        name=name,
        keys=TOPIC_CONFIG_KEYS,
        defaults=built_in | topic_defaults(current.originals),
        check=lambda configs: check_configs(configs, current.topic_defaults),
    )


def _broker(name: str, config: DynamicConfig) -> ConfigTarget:
    return ConfigTarget(
        kind=ResourceType.BROKER,
        name=name,
        keys=SERVER_KEYS,
        defaults={key.name: key.default for key in SERVER_KEYS.values()},
        check=lambda configs: config.check(configs, is_shared=not name),
    )

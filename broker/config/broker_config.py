"""The configuration of one broker (decision).

`BrokerConfig` consists of parts with one field per key, with Kafka's names, types, ranges and
defaults. The defaults of topic configs (`log.segment.bytes`...) are keys as well; they are
declared by `storage.config.topic_config` and end up in `topic_defaults`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, Final

from broker.config.coordinator_keys import CoordinatorKeys
from broker.config.declared_key import DeclaredKey, declared_keys, render
from broker.config.exposure import has_authentication, is_loopback
from broker.config.group_keys import GroupKeys
from broker.config.listener import (
    UNROUTABLE_HOST,
    check_protocols,
    parse_protocol_map,
)
from broker.config.listener_security import NO_LOGIN_FILE, ListenerSecurityConfig, resolve
from broker.config.listener_security_keys import (
    JAAS_KEY,
    ListenerSecurityKeys,
    is_listener_key,
)
from broker.config.log_keys import LogKeys
from broker.config.network_keys import NetworkKeys
from broker.config.oauth_bearer import LOGIN_HANDLER_KEY, OWN_CLAIM_PREFIX, OAuthKeys
from broker.config.replication_keys import ReplicationKeys
from broker.config.server_keys import ServerKeys
from broker.config.token_keys import TokenKeys
from broker.errors import ConfigError
from storage.config.config_key import ConfigType
from storage.config.log_config import TOPIC_CONFIG_KEYS, ConfigKey, LogConfig

ALIASES: Final = {
    "node.id": "broker.id",
    "log.cleaner.enabled": "log.cleaner.enable",
    "delegation.token.master.key": "delegation.token.secret.key",
}
"""Other spellings of a key; the key itself wins."""


@dataclass(frozen=True, kw_only=True)
class BrokerConfig:
    """One broker's checked configuration, in parts; their fields are Kafka's keys.

    `originals` holds the given properties by their canonical names.
    """

    groups: GroupKeys = field(default_factory=GroupKeys)
    replication: ReplicationKeys = field(default_factory=ReplicationKeys)
    logs: LogKeys = field(default_factory=LogKeys)
    network: NetworkKeys = field(default_factory=NetworkKeys)
    server: ServerKeys = field(default_factory=ServerKeys)
    coordinator: CoordinatorKeys = field(default_factory=CoordinatorKeys)
    topic_defaults: LogConfig = field(default_factory=LogConfig)
    security: ListenerSecurityKeys = field(default_factory=ListenerSecurityKeys)
    oauth: OAuthKeys = field(default_factory=OAuthKeys)
    tokens: TokenKeys = field(default_factory=TokenKeys)
    originals: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for part in (self.server, self.coordinator, self.logs, self.replication, self.network):
            for key, value, is_kept, rule in part.rules():
                if not is_kept:
                    raise ConfigError(key, value, rule)
        self._check_listeners()

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> BrokerConfig:
        """Return the configuration described by `properties`; unknown keys are ignored.

        Raises:
            ConfigError: for the first value with a wrong type or against a rule.
        """
        originals = canonical(properties)
        for name, text in originals.items():
            if name in SERVER_KEYS:
                _parse(SERVER_KEYS[name], text)
        parts = {
            name: part(**_values(_PART_KEYS[name], originals)) for name, part in _PARTS.items()
        }
        try:
            topic_defaults = LogConfig.from_server_properties(originals)
        except ValueError as error:
            name, _, rule = str(error).partition(": ")
            raise ConfigError(*_split_assignment(name), rule or str(error)) from None
        return cls(**parts, topic_defaults=topic_defaults, originals=originals)

    @cached_property
    def listener_security(self) -> Mapping[str, ListenerSecurityConfig]:
        """The security of each listener, by its name.

        Raises:
            ConfigError: it cannot be used.
        """
        network, key = self.network, "listener.security.protocol.map"
        protocols = parse_protocol_map(key, network.listener_security_protocol_map)
        check_protocols("listeners", network.listening, protocols)
        return resolve(network.listening, protocols, self.originals, _parse)

    def _check_listeners(self) -> None:
        network = self.network
        self.listener_security  # noqa: B018 - raises ConfigError if it cannot be used
        listening = {listener.name for listener in network.listening}
        for listener in network.advertised:
            if listener.name not in listening:
                rule = f"must be one of the names in listeners: {', '.join(sorted(listening))}"
                raise ConfigError("advertised.listeners", listener, rule)
            if listener.host == UNROUTABLE_HOST:
                rule = "must not be 0.0.0.0, which no client can reach; set a host name or address"
                raise ConfigError("advertised.listeners", listener, rule)
        self.server.status_listener  # noqa: B018 - raises ConfigError if it is malformed
        self.server.super_principals  # noqa: B018 - likewise
        self._check_special_listeners({listener.name for listener in network.advertised})
        if network.require_authentication:
            self._check_authentication()

    def _check_authentication(self) -> None:
        for listener in self.network.listening:
            is_open = not has_authentication(self.listener_security[listener.name])
            if is_open and not is_loopback(listener.host):
                rule = "needs SASL, or ssl.client.auth=required: require.authentication=true"
                raise ConfigError("listeners", listener, rule)

    def _check_special_listeners(self, names: set[str]) -> None:
        network = self.network
        if (
            "security.inter.broker.protocol" in self.originals
            and network.inter_broker_listener_name
        ):
            rule = "must not be set together with security.inter.broker.protocol"
            raise ConfigError(
                "inter.broker.listener.name", network.inter_broker_listener_name, rule
            )
        rule = f"must be one of the advertised listeners: {', '.join(sorted(names))}"
        if network.inter_broker_listener not in names:
            raise ConfigError("inter.broker.listener.name", network.inter_broker_listener, rule)
        self._check_login(network.inter_broker_listener)
        control_plane = network.control_plane_listener
        if control_plane is None:
            return
        if control_plane not in names - {network.inter_broker_listener}:
            rule += ", and differ from inter.broker.listener.name"
            raise ConfigError("control.plane.listener.name", control_plane, rule)
        self._check_login(control_plane)

    def _check_login(self, listener_name: str) -> None:
        """Check that this broker can log in at the listener of other brokers."""
        listener = self.listener_security[listener_name]
        if not listener.has_sasl:
            return
        mechanism = listener.keys.sasl_mechanism_inter_broker_protocol
        found = listener.mechanisms.get(mechanism)
        if found is None:
            rule = f"must be one of the mechanisms of {listener_name}: "
            rule += ", ".join(listener.mechanisms)
            raise ConfigError("sasl.mechanism.inter.broker.protocol", mechanism, rule)
        if not found.has_login:
            key = f"{listener.prefix}{mechanism.lower()}.{JAAS_KEY}"
            wanted, reason = "username and password", ""
            if found.oauth is not None:
                wanted = f"{OWN_CLAIM_PREFIX}sub, or {LOGIN_HANDLER_KEY} be set"
            if found.module is None:
                reason = f", as {NO_LOGIN_FILE}"
            raise ConfigError(key, None, f"must have {wanted}, with which brokers log in{reason}")


def canonical(properties: Mapping[str, str]) -> dict[str, str]:
    """Return `properties` with each alias replaced by its key."""
    renamed = {ALIASES.get(name, name): text for name, text in properties.items()}
    return renamed | {name: text for name, text in properties.items() if name not in ALIASES}


def unknown_keys(properties: Mapping[str, str]) -> list[str]:
    """Return the keys in `properties` that are unknown to this broker, sorted."""
    unknown = canonical(properties).keys() - SERVER_KEYS.keys()
    return sorted(name for name in unknown if not is_listener_key(name))


def value_text(config: BrokerConfig, name: str) -> str | None:
    """Return the value of the key `name` as text; None if it is not set."""
    if name in config.originals:
        return config.originals[name]
    declared = _DECLARED_BY_NAME.get(name)
    return render(declared.default) if declared else SERVER_KEYS[name].default


def _values(keys: Iterable[DeclaredKey], originals: Mapping[str, str]) -> dict[str, Any]:
    return {
        declared.field_name: _parse(declared.key, originals[declared.key.name])
        for declared in keys
        if declared.key.name in originals
    }


def _parse(key: ConfigKey, text: str) -> Any:  # checked against the field's type by `key.type`
    try:
        return key.parse(text)
    except ValueError as error:
        _, _, rule = str(error).rpartition(": ")
        is_secret = key.type is ConfigType.PASSWORD
        raise ConfigError(key.name, None if is_secret else text, rule) from None


def _split_assignment(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _topic_default_keys() -> Iterator[ConfigKey]:
    """Yield the keys that set defaults of topic configs in the topic config's own unit."""
    for key in TOPIC_CONFIG_KEYS.values():
        for synonym in key.synonyms:
            if synonym.multiplier == 1:
                rule = synonym.rule or key.rule
                yield replace(key, name=synonym.name, rule=rule, synonyms=())


_PARTS: Final[Mapping[str, Any]] = {
    "groups": GroupKeys,
    "replication": ReplicationKeys,
    "logs": LogKeys,
    "network": NetworkKeys,
    "server": ServerKeys,
    "coordinator": CoordinatorKeys,
    "security": ListenerSecurityKeys,
    "oauth": OAuthKeys,
    "tokens": TokenKeys,
}
"""By attribute of BrokerConfig; DescribeConfigs lists the keys in this order."""
_PART_KEYS: Final = {name: declared_keys(part) for name, part in _PARTS.items()}
DECLARED_KEYS: Final[tuple[DeclaredKey, ...]] = tuple(chain.from_iterable(_PART_KEYS.values()))
_DECLARED_BY_NAME: Final = {declared.key.name: declared for declared in DECLARED_KEYS}
SERVER_KEYS: Final[Mapping[str, ConfigKey]] = {
    **{key.name: key for key in _topic_default_keys()},
    **{declared.key.name: declared.key for declared in DECLARED_KEYS},
}
"""Every key of `server.properties`, by name."""

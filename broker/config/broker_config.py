"""The configuration of one broker (decision).

`BrokerConfig` has one field per key of the `*_keys` modules, with Kafka's names, types, ranges and
defaults. The defaults of topic configs (`log.segment.bytes`...) are keys as well; they are
declared by `storage.config.topic_config` and end up in `topic_defaults`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from broker.config.declared_key import DeclaredKey, declared_keys, render
from broker.config.group_keys import GroupKeys
from broker.config.listener import (
    UNROUTABLE_HOST,
    Listener,
    check_served,
    parse_listeners,
    parse_map,
    parse_protocol_map,
)
from broker.config.log_keys import LogKeys
from broker.config.network_keys import NetworkKeys
from broker.config.replication_keys import ReplicationKeys
from broker.config.server_keys import ServerKeys
from broker.errors import ConfigError
from storage.config.log_config import TOPIC_CONFIG_KEYS, ConfigKey, LogConfig

_PROTOCOL_VERSION: Final = re.compile(r"([0-9]+)\.([0-9]+)(?:[.-].*)?\Z")
OLDEST_PROTOCOL: Final = (2, 4)
NEWEST_PROTOCOL: Final = (3, 9)

ALIASES: Final = {"node.id": "broker.id", "log.cleaner.enabled": "log.cleaner.enable"}
"""Other spellings of a key; the key itself wins."""


@dataclass(frozen=True, kw_only=True)
class BrokerConfig(ServerKeys, NetworkKeys, LogKeys, ReplicationKeys, GroupKeys):
    """One broker's checked configuration. Fields are Kafka's keys with dots as underscores.

    `originals` holds the given properties by their canonical names.
    """

    topic_defaults: LogConfig = field(default_factory=LogConfig)
    originals: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key, value, is_kept, rule in self._rules():
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
        fields: dict[str, Any] = {
            declared.field_name: _parse(declared.key, originals[declared.key.name])
            for declared in DECLARED_KEYS
            if declared.key.name in originals
        }
        try:
            topic_defaults = LogConfig.from_server_properties(originals)
        except ValueError as error:
            name, _, rule = str(error).partition(": ")
            raise ConfigError(*_split_assignment(name), rule or str(error)) from None
        return cls(**fields, topic_defaults=topic_defaults, originals=originals)

    @property
    def log_directories(self) -> tuple[str, ...]:
        """The log directories, in the order given."""
        text = self.log_dir if self.log_dirs is None else self.log_dirs
        return tuple(item.strip() for item in text.split(",") if item.strip())

    @property
    def listening(self) -> tuple[Listener, ...]:
        """The listeners to bind."""
        return parse_listeners("listeners", self.listeners, distinct_ports=True)

    @property
    def advertised(self) -> tuple[Listener, ...]:
        """The listeners advertised to clients.

        An empty host and port 0 are replaced once the real ones are known.
        """
        if self.advertised_listeners is None:
            return self.listening
        key = "advertised.listeners"
        return parse_listeners(key, self.advertised_listeners, distinct_ports=False)

    @property
    def status_listener(self) -> Listener | None:
        """The listener of the HTTP status pages; None disables them."""
        if not self.metrics_listener:
            return None
        key, text = "metrics.listener", f"STATUS://{self.metrics_listener}"
        return parse_listeners(key, text, distinct_ports=False)[0]

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener for traffic between brokers."""
        return (self.inter_broker_listener_name or self.security_inter_broker_protocol).upper()

    @property
    def trusted_listeners(self) -> frozenset[str]:
        """The names of the listeners that only brokers use.

        The inter-broker listener is not among them if clients have no listener of their own.
        """
        names = {listener.name for listener in self.listening}
        control_plane = {(self.control_plane_listener_name or "").upper()} & names
        is_shared = not names - control_plane - {self.inter_broker_listener}
        return frozenset(control_plane | (set() if is_shared else {self.inter_broker_listener}))

    @property
    def inter_broker_version(self) -> tuple[int, int]:
        """The inter-broker protocol's major and minor version."""
        text = self.inter_broker_protocol_version
        found = _PROTOCOL_VERSION.match(text)
        if found is None:
            rule = "must be a version such as 3.9 or 2.6-IV0"
            raise ConfigError("inter.broker.protocol.version", text, rule)
        return int(found[1]), int(found[2])

    @property
    def connection_limits_by_ip(self) -> dict[str, int]:
        """The exceptions to `max.connections.per.ip`, by address."""
        key = "max.connections.per.ip.overrides"
        pairs = parse_map(key, self.max_connections_per_ip_overrides)
        if not all(limit.isdecimal() for limit in pairs.values()):
            rule = "must have the form ADDRESS:LIMIT,..."
            raise ConfigError(key, self.max_connections_per_ip_overrides, rule)
        return {address: int(limit) for address, limit in pairs.items()}

    def _rules(self) -> Iterator[tuple[str, object, bool, str]]:
        """Yield the rules between keys: key, value, whether the rule holds, the rule's text."""
        lowest = -1 if self.broker_id_generation_enable else 0
        highest = self.reserved_broker_max_id if self.broker_id_generation_enable else 2**31 - 1
        yield (
            "broker.id", self.broker_id, lowest <= self.broker_id <= highest,
            f"must be within {lowest}..{highest} (see broker.id.generation.enable)",
        )  # fmt: skip
        yield (
            "log.dirs", self.log_dirs, bool(self.log_directories),
            "must name at least one directory",
        )  # fmt: skip
        yield (
            "authorizer.class.name", self.authorizer_class_name,
            not self.authorizer_class_name, "must be empty: access control is not served yet",
        )  # fmt: skip
        yield (
            "inter.broker.protocol.version", self.inter_broker_protocol_version,
            OLDEST_PROTOCOL <= self.inter_broker_version <= NEWEST_PROTOCOL,
            "must be within 2.4..3.9",
        )  # fmt: skip
        yield (
            "zookeeper.connect", self.zookeeper_connect, _is_connect_string(self.zookeeper_connect),
            "must have the form HOST:PORT,HOST:PORT/CHROOT",
        )  # fmt: skip
        yield (
            "replica.socket.timeout.ms", self.replica_socket_timeout_ms,
            self.replica_fetch_wait_max_ms <= self.replica_socket_timeout_ms,
            "must be at least replica.fetch.wait.max.ms",
        )  # fmt: skip
        yield (
            "replica.lag.time.max.ms", self.replica_lag_time_max_ms,
            self.replica_fetch_wait_max_ms <= self.replica_lag_time_max_ms,
            "must be at least replica.fetch.wait.max.ms",
        )  # fmt: skip
        yield (
            "queued.max.request.bytes", self.queued_max_request_bytes,
            self.queued_max_request_bytes <= 0
            or self.queued_max_request_bytes >= self.socket_request_max_bytes,
            "must be at least socket.request.max.bytes, or -1",
        )  # fmt: skip
        yield (
            "max.connections.per.ip", self.max_connections_per_ip,
            bool(self.connection_limits_by_ip) or self.max_connections_per_ip > 0,
            "must be positive unless max.connections.per.ip.overrides is set",
        )  # fmt: skip
        yield (
            "connection.failed.authentication.delay.ms",
            self.connection_failed_authentication_delay_ms,
            self.connections_max_idle_ms < 0
            or self.connection_failed_authentication_delay_ms < self.connections_max_idle_ms,
            "must be below connections.max.idle.ms",
        )  # fmt: skip

    def _check_listeners(self) -> None:
        key = "listener.security.protocol.map"
        protocols = parse_protocol_map(key, self.listener_security_protocol_map)
        check_served("listeners", self.listening, protocols)
        listening = {listener.name for listener in self.listening}
        for listener in self.advertised:
            if listener.name not in listening:
                rule = f"must be one of the names in listeners: {', '.join(sorted(listening))}"
                raise ConfigError("advertised.listeners", listener, rule)
            if listener.host == UNROUTABLE_HOST:
                rule = "must not be 0.0.0.0, which no client can reach; set a host name or address"
                raise ConfigError("advertised.listeners", listener, rule)
        self.status_listener  # noqa: B018 - raises ConfigError if it is malformed
        self._check_special_listeners({listener.name for listener in self.advertised})

    def _check_special_listeners(self, names: set[str]) -> None:
        if "security.inter.broker.protocol" in self.originals and self.inter_broker_listener_name:
            rule = "must not be set together with security.inter.broker.protocol"
            raise ConfigError("inter.broker.listener.name", self.inter_broker_listener_name, rule)
        rule = f"must be one of the advertised listeners: {', '.join(sorted(names))}"
        if self.inter_broker_listener not in names:
            raise ConfigError("inter.broker.listener.name", self.inter_broker_listener, rule)
        control_plane = self.control_plane_listener_name
        if control_plane is None:
            return
        if control_plane.upper() not in names - {self.inter_broker_listener}:
            rule += ", and differ from inter.broker.listener.name"
            raise ConfigError("control.plane.listener.name", control_plane, rule)


def canonical(properties: Mapping[str, str]) -> dict[str, str]:
    """Return `properties` with each alias replaced by its key."""
    renamed = {ALIASES.get(name, name): text for name, text in properties.items()}
    return renamed | {name: text for name, text in properties.items() if name not in ALIASES}


def unknown_keys(properties: Mapping[str, str]) -> list[str]:
    """Return the keys in `properties` that are unknown to this broker, sorted."""
    return sorted(canonical(properties).keys() - SERVER_KEYS.keys())


def value_text(config: BrokerConfig, name: str) -> str | None:
    """Return the value of the key `name` as text; None if it is not set."""
    if name in config.originals:
        return config.originals[name]
    declared = _DECLARED_BY_NAME.get(name)
    return render(declared.default) if declared else SERVER_KEYS[name].default


def _is_connect_string(text: str | None) -> bool:
    if text is None:
        return True
    from coordination.client.hosts import parse_connect_string

    try:
        parse_connect_string(text)
    except ValueError:
        return False
    return True


def _parse(key: ConfigKey, text: str) -> Any:  # checked against the field's type by `key.type`
    try:
        return key.parse(text)
    except ValueError as error:
        _, _, rule = str(error).rpartition(": ")
        raise ConfigError(key.name, text, rule) from None


def _split_assignment(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _topic_default_keys() -> Iterator[ConfigKey]:
    """Yield the keys that set defaults of topic configs in the topic config's own unit."""
    for key in TOPIC_CONFIG_KEYS.values():
        for synonym in key.synonyms:
            if synonym.multiplier == 1:
                yield replace(key, name=synonym.name, synonyms=())


DECLARED_KEYS: Final[tuple[DeclaredKey, ...]] = declared_keys(BrokerConfig)
_DECLARED_BY_NAME: Final = {declared.key.name: declared for declared in DECLARED_KEYS}
SERVER_KEYS: Final[Mapping[str, ConfigKey]] = {
    **{key.name: key for key in _topic_default_keys()},
    **{declared.key.name: declared.key for declared in DECLARED_KEYS},
}
"""Every key of `server.properties`, by name."""

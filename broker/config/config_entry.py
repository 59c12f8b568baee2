"""Config entries of DescribeConfigs: value, source and synonyms of each key (decision).

Serves the configs of topics and of the broker itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from broker.config.broker_config import SERVER_KEYS, value_text
from broker.config.declared_key import render
from broker.config.dynamic_config import DynamicConfig
from broker.config.dynamic_keys import DYNAMIC_KEYS, is_secret, key_of, synonyms_of
from storage.config.log_config import TOPIC_CONFIG_KEYS, ConfigKey, ConfigType, topic_defaults


class ConfigSource(IntEnum):
    """Kafka's numbers for the source of a value."""

    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6


class ResourceType(IntEnum):
    """Kafka's numbers for resources with configs; other kinds are not served."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


@dataclass(frozen=True, slots=True)
class Synonym:
    """A value that a key has, or would have without the synonyms before it."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One key of one resource; `synonyms` is in order of precedence."""

    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    documentation: str
    is_read_only: bool
    is_sensitive: bool
    """Whether the value may be a secret; then it is None, here and in the synonyms."""
    synonyms: tuple[Synonym, ...]


def topic_entries(overrides: Mapping[str, str], config: DynamicConfig) -> Iterator[ConfigEntry]:
    """Yield every topic config of a topic with these `overrides`."""
    defaults = topic_defaults(config.current.originals)
    for key in TOPIC_CONFIG_KEYS.values():
        synonyms = tuple(_topic_synonyms(key, overrides, config))
        value = overrides.get(key.name, defaults.get(key.name))
        yield ConfigEntry(
            name=key.name,
            value=key.default if value is None else _shown(key, value),
            source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
            type=key.type,
            documentation=key.documentation,
            is_read_only=False,
            is_sensitive=False,
            synonyms=synonyms,
        )


def _shown(key: ConfigKey, text: str) -> str | None:
    """Return the value that `text` denotes, as Kafka writes it: `true`, not ` TRUE`.

    Tools compare it with the value that they want. A text without a value, which another program
    has written to the znode, is shown as it is.
    """
    try:
        return render(key.parse(text))
    except ValueError:
        return text


def broker_entries(config: DynamicConfig) -> Iterator[ConfigEntry]:
    """Yield every key of the broker, and the unknown keys among its dynamic configs."""
    unknown = [name for name in {**config.shared, **config.own} if name not in SERVER_KEYS]
    for name in (*SERVER_KEYS, *sorted(unknown)):
        yield _server_entry(name, tuple(_server_synonyms(name, config)), config)


def logger_entries(levels: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """Yield the level of each logger."""
    for name, level in levels.items():
        yield ConfigEntry(
            name=name,
            value=level,
            source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            type=ConfigType.STRING,
            documentation="",
            is_read_only=False,
            is_sensitive=False,
            synonyms=(),
        )


def shared_entries(config: DynamicConfig) -> Iterator[ConfigEntry]:
    """Yield the dynamic configs shared by all brokers of the cluster."""
    for name, value in sorted(config.shared.items()):
        synonym = Synonym(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
        yield _server_entry(name, (synonym,), config)


def _server_entry(name: str, synonyms: tuple[Synonym, ...], config: DynamicConfig) -> ConfigEntry:
    key = key_of(name)
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    is_set = source is not ConfigSource.DEFAULT_CONFIG
    value = synonyms[0].value if is_set else value_text(config.static, name)
    if is_sensitive := is_secret(name):
        value, synonyms = None, tuple(replace(synonym, value=None) for synonym in synonyms)
    return ConfigEntry(
        name=name,
        value=value,
        source=source,
        type=key.type if key else ConfigType.STRING,
        documentation=key.documentation if key else "",
        is_read_only=name not in DYNAMIC_KEYS,
        is_sensitive=is_sensitive,
        synonyms=synonyms,
    )


def _topic_synonyms(
    key: ConfigKey, overrides: Mapping[str, str], config: DynamicConfig
) -> Iterator[Synonym]:
    if key.name in overrides:
        yield Synonym(key.name, _shown(key, overrides[key.name]), ConfigSource.TOPIC_CONFIG)
    yield from _set_synonyms([synonym.name for synonym in key.synonyms], config)
    if key.synonyms:
        yield Synonym(key.synonyms[0].name, key.default, ConfigSource.DEFAULT_CONFIG)


def _server_synonyms(name: str, config: DynamicConfig) -> Iterator[Synonym]:
    """Yield the values of `name` and of its synonyms of lower precedence."""
    found = list(_set_synonyms(synonyms_of(name), config))
    while found and found[0].name != name:
        del found[0]
    yield from found
    if name in SERVER_KEYS:
        yield Synonym(name, SERVER_KEYS[name].default, ConfigSource.DEFAULT_CONFIG)


def _set_synonyms(names: Sequence[str], config: DynamicConfig) -> Iterator[Synonym]:
    layers = (
        (config.own, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (config.shared, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (config.static.originals, ConfigSource.STATIC_BROKER_CONFIG),
    )
    for values, source in layers:
        for name in names:
            if name in values:
                yield Synonym(name, values[name], source)

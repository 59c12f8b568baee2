"""What DescribeConfigs says of a key: value, source, and what it would be otherwise (decision).

It serves topics and the broker itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from broker.config import SERVER_KEYS, BrokerConfig, value_text
from storage.config import TOPIC_CONFIG_KEYS, ConfigKey, ConfigType, topic_defaults


class ConfigSource(IntEnum):
    """Kafka's numbers for where a value comes from."""

    TOPIC_CONFIG = 1
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


class ResourceType(IntEnum):
    """Kafka's numbers for what has configs; other kinds are not served."""

    TOPIC = 2
    BROKER = 4


@dataclass(frozen=True, slots=True)
class Synonym:
    """A value that a key has, or would have if those before it were not set."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One key of one resource; `synonyms` in the order in which they win."""

    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    documentation: str
    is_read_only: bool
    synonyms: tuple[Synonym, ...]


def topic_entries(overrides: Mapping[str, str], config: BrokerConfig) -> Iterator[ConfigEntry]:
    """Yield every topic config of a topic that sets `overrides`."""
    defaults = topic_defaults(config.originals)
    for key in TOPIC_CONFIG_KEYS.values():
        synonyms = tuple(_topic_synonyms(key, overrides, config))
        value = overrides.get(key.name, defaults.get(key.name, key.default))
        yield ConfigEntry(
            name=key.name,
            value=value,
            source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
            type=key.type,
            documentation=key.documentation,
            is_read_only=False,
            synonyms=synonyms,
        )


def broker_entries(config: BrokerConfig) -> Iterator[ConfigEntry]:
    """Yield every key of the broker; none of them can be changed while it runs."""
    for key in SERVER_KEYS.values():
        value = value_text(config, key.name)
        synonyms = tuple(_server_synonyms(key.name, key.default, config))
        yield ConfigEntry(
            name=key.name,
            value=value,
            source=synonyms[0].source,
            type=key.type,
            documentation=key.documentation,
            is_read_only=True,
            synonyms=synonyms,
        )


def _topic_synonyms(
    key: ConfigKey, overrides: Mapping[str, str], config: BrokerConfig
) -> Iterator[Synonym]:
    if key.name in overrides:
        yield Synonym(key.name, overrides[key.name], ConfigSource.TOPIC_CONFIG)
    for synonym in key.synonyms:
        if synonym.name in config.originals:
            value = config.originals[synonym.name]
            yield Synonym(synonym.name, value, ConfigSource.STATIC_BROKER_CONFIG)
    if key.synonyms:
        yield Synonym(key.synonyms[0].name, key.default, ConfigSource.DEFAULT_CONFIG)


def _server_synonyms(name: str, default: str, config: BrokerConfig) -> Iterator[Synonym]:
    if name in config.originals:
        yield Synonym(name, config.originals[name], ConfigSource.STATIC_BROKER_CONFIG)
    yield Synonym(name, default, ConfigSource.DEFAULT_CONFIG)

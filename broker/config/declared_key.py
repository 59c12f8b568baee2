"""Declares the broker's keys as fields of a dataclass (decision).

A key is declared once, in a `*_keys` module; the field's name is Kafka's key with dots as
underscores. The parser, DescribeConfigs and the generated reference page all read this declaration,
so they cannot disagree. `storage.config.config_key` defines the types and rules.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from typing import Final, TypeVar, cast

from storage.config.config_key import ConfigKey, ConfigType, ConfigValue, Rule

T = TypeVar("T", bound=ConfigValue | None)

_METADATA: Final = "key"


KeyRule = tuple[str, object, bool, str]
"""A rule between keys: key, value, whether the rule holds, the rule's text."""


@dataclass(frozen=True, slots=True)
class DeclaredKey:
    """A key and the field that holds its value; a `default` of None means "not set"."""

    field_name: str
    key: ConfigKey
    default: ConfigValue | None


def declared_keys(group: type) -> tuple[DeclaredKey, ...]:
    """Return the keys declared by the fields of the dataclass `group`, in field order."""
    return tuple(_declared(item) for item in fields(group) if _METADATA in item.metadata)


def _declared(item: Field[ConfigValue | None]) -> DeclaredKey:
    default = cast(ConfigValue | None, item.default)
    name = item.name.replace("_", ".")
    key = ConfigKey(name=name, default=render(default) or "", **item.metadata[_METADATA])
    return DeclaredKey(item.name, key, default)


def render(value: ConfigValue | None) -> str | None:
    """Return the text that Kafka's tools show for `value`; None if there is no value."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def boolean(default: bool, documentation: str) -> bool:
    """Declare a boolean key."""
    return _declare(ConfigType.BOOLEAN, default, documentation)


def integer(default: int, documentation: str, rule: Rule | None = None) -> int:
    """Declare a 32-bit integer key."""
    return _declare(ConfigType.INT, default, documentation, rule)


def optional_integer(documentation: str, rule: Rule | None = None) -> int | None:
    """Declare a 32-bit integer key without a default."""
    return _declare(ConfigType.INT, None, documentation, rule)


def short(default: int, documentation: str, rule: Rule | None = None) -> int:
    """Declare a 16-bit integer key."""
    return _declare(ConfigType.SHORT, default, documentation, rule)


def long(default: int, documentation: str, rule: Rule | None = None) -> int:
    """Declare a 64-bit integer key."""
    return _declare(ConfigType.LONG, default, documentation, rule)


def real(default: float, documentation: str, rule: Rule | None = None) -> float:
    """Declare a floating-point key."""
    return _declare(ConfigType.DOUBLE, default, documentation, rule)


def string(default: str, documentation: str, rule: Rule | None = None) -> str:
    """Declare a text key."""
    return _declare(ConfigType.STRING, default, documentation, rule)


def optional_string(documentation: str) -> str | None:
    """Declare a text key without a default."""
    return _declare(ConfigType.STRING, None, documentation)


def names(default: tuple[str, ...], documentation: str) -> tuple[str, ...]:
    """Declare a key with a list of names."""
    return _declare(ConfigType.LIST, default, documentation)


def password(documentation: str) -> str:
    """Declare a key with a secret, empty by default; no representation shows its value."""
    return _declare(ConfigType.PASSWORD, "", documentation)


def _declare(kind: ConfigType, default: T, documentation: str, rule: Rule | None = None) -> T:
    declaration = {"type": kind, "documentation": documentation, "rule": rule}
    is_shown = kind is not ConfigType.PASSWORD
    return field(default=default, repr=is_shown, metadata={_METADATA: declaration})

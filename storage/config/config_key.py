"""The columns of the topic config table: name, type, default, rule, synonyms, text (decision).

DescribeConfigs, CreateTopics and the generated reference read the table; the log itself uses
`LogConfig`. Names, types, defaults and ranges match Kafka 3.9.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final

ConfigValue = int | float | bool | str | tuple[str, ...]

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
HOUR_MS: Final = 3_600_000
MINUTE_MS: Final = 60_000
DAY_MS: Final = 24 * HOUR_MS

SMALLEST_BATCH_BYTES: Final = 14
"""Kafka's floor for `segment.bytes`: the smallest record of its oldest message format."""
BATCH_PREFIX_BYTES: Final = 12
"""Base offset and length: why the default of `max.message.bytes` is not a round number."""


class ConfigType(IntEnum):
    """A config's type with its code in DescribeConfigs responses."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


class Importance(Enum):
    """Relevance of a config for operators, as DescribeConfigs reports it."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class Rule:
    """The legal values of a config: a predicate, and a text for readers."""

    accepts: Callable[[ConfigValue], bool]
    text: str


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker config that sets the default of a topic config, in its own unit.

    Its `rule` holds only where no synonym of higher precedence is set; None means the topic's rule.
    """

    name: str
    multiplier: int = 1
    rule: Rule | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """One row of the table; `synonyms` are in order of precedence, highest first."""

    name: str
    type: ConfigType
    default: str
    documentation: str
    rule: Rule | None = None
    synonyms: tuple[Synonym, ...] = ()
    importance: Importance = Importance.MEDIUM

    def parse(self, text: str) -> ConfigValue:
        """Return the value that `text` denotes.

        Raises:
            ValueError: `text` has another type or breaks the rule. The text of the error names
                key, value and rule.
        """
        try:
            value = _PARSERS[self.type](text.strip())
        except ValueError:
            raise ValueError(
                f"{self.name}={text!r}: must be of type {self.type.name.lower()}"
            ) from None
        if self.rule is not None and not self.rule.accepts(value):
            raise ValueError(f"{self.name}={text!r}: must be {self.rule.text}")
        return value


def _parse_boolean(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise ValueError(text)


def _parse_whole_number(lowest: int, highest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if re.fullmatch(r"[+-]?[0-9]+", text) is None or not lowest <= int(text) <= highest:
            raise ValueError(text)
        return int(text)

    return parse


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",")) if text else ()


_PARSERS: Final[Mapping[ConfigType, Callable[[str], ConfigValue]]] = {
    ConfigType.BOOLEAN: _parse_boolean,
    ConfigType.STRING: str,
    ConfigType.INT: _parse_whole_number(-INT_MAX - 1, INT_MAX),
    ConfigType.SHORT: _parse_whole_number(-(2**15), 2**15 - 1),
    ConfigType.LONG: _parse_whole_number(-LONG_MAX - 1, LONG_MAX),
    ConfigType.DOUBLE: float,
    ConfigType.LIST: _parse_list,
    ConfigType.PASSWORD: str,
}


def at_least(lowest: int) -> Rule:
    """Accept numbers from `lowest` up."""
    return Rule(
        lambda value: not isinstance(value, str | tuple) and value >= lowest, f">= {lowest}"
    )


def between(lowest: int, highest: int) -> Rule:
    """Accept numbers from `lowest` to `highest`, both included."""
    return Rule(
        lambda value: not isinstance(value, str | tuple) and lowest <= value <= highest,
        f"within {lowest}..{highest}",
    )


def one_of(*names: str) -> Rule:
    """Accept one of `names`, with the same case of letters."""
    shown = ", ".join(name or "(empty)" for name in names)
    return Rule(lambda value: value in names, f"one of {shown}")


def list_of(*names: str) -> Rule:
    """Accept lists of `names`, in any case of letters."""
    return Rule(
        lambda value: isinstance(value, tuple) and all(item.lower() in names for item in value),
        f"a list of {', '.join(names)}",
    )


def _is_gzip_level(value: ConfigValue) -> bool:
    return isinstance(value, int) and (1 <= value <= 9 or value == -1)


def _is_replica_list(value: ConfigValue) -> bool:
    assert isinstance(value, tuple), "the rule of a list"
    return value == ("*",) or all(re.fullmatch(r"([0-9]+:[0-9]+)?", item) for item in value)


GZIP_LEVEL: Final = Rule(_is_gzip_level, "within 1..9, or -1 for the codec's own default")
RETENTION_TIME: Final = Rule(lambda value: value != 0, ">= 1, or negative for no limit")
"""Kafka's rule for brokers. A single topic may have a retention of 0."""
REPLICA_LIST: Final = Rule(_is_replica_list, "* or a list of partition:broker pairs")

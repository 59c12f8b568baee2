"""Applies a change request to the configs of a topic or a broker (decision)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from kafkawire.errors import ApiError, ErrorCode
from storage.config.log_config import ConfigKey, ConfigType, LogConfig


class ConfigOperation(IntEnum):
    """Kafka's numbers for operations on one key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_OPERATIONS: Final = frozenset(ConfigOperation)


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One operation on one key."""

    name: str
    operation: int
    value: str | None


def replacement(values: Iterable[tuple[str, str | None]]) -> list[ConfigChange]:
    """Return the changes of empty configs into ones that consist of `values` alone."""
    return [ConfigChange(name, ConfigOperation.SET, value) for name, value in values]


def check_changes(changes: Sequence[ConfigChange]) -> None:
    """Check `changes` as far as this is possible before their resource is known, as in Kafka.

    Raises:
        ApiError: a key has no value, or is named twice.
    """
    for name, count in Counter(change.name for change in changes).items():
        if count > 1:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} is named twice")
    for change in changes:
        if change.value is None and change.operation != ConfigOperation.DELETE:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{change.name} has no value")


def changed(
    configs: Mapping[str, str],
    changes: Sequence[ConfigChange],
    defaults: Mapping[str, str],
    keys: Mapping[str, ConfigKey],
) -> dict[str, str]:
    """Return `configs` after `changes`; a list that is not set starts from `defaults`.

    `keys` holds the type of each key.

    Raises:
        ApiError: a key has no value or is named twice, an operation is unknown, or an APPEND or
            SUBTRACT names a key that is not a list.
    """
    check_changes(changes)
    result = dict(configs)
    for change in changes:
        if change.operation == ConfigOperation.DELETE:
            result.pop(change.name, None)
            continue
        if change.operation not in _OPERATIONS:
            text = f"operation {change.operation} does not exist"
            raise ApiError(ErrorCode.INVALID_REQUEST, text)
        assert change.value is not None, "it was checked"
        if change.operation == ConfigOperation.SET:
            result[change.name] = change.value
        else:
            current = result.get(change.name, defaults.get(change.name, ""))
            result[change.name] = _changed_list(
                change.name, change.operation, current, change.value, keys
            )
    return result


def changed_keys(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the names whose values differ, or that only one of the two mappings holds."""
    return sorted(name for name in {**before, **after} if before.get(name) != after.get(name))


def check_configs(configs: Mapping[str, str], defaults: LogConfig) -> LogConfig:
    """Return the log configuration that results from `configs`.

    Raises:
        ApiError: a key is unknown, a value is illegal, or tiered storage is requested.
    """
    if configs.get("remote.storage.enable", "").strip().lower() == "true":
        text = "remote.storage.enable=true: tiered storage is not served"
        raise ApiError(ErrorCode.INVALID_CONFIG, text)
    try:
        return LogConfig.from_properties(configs, defaults)
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None


def _changed_list(
    name: str, operation: int, current: str, value: str, keys: Mapping[str, ConfigKey]
) -> str:
    key = keys.get(name)
    if key is None or key.type is not ConfigType.LIST:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{name} is not a list")
    items = [item for item in current.split(",") if item]
    named = value.split(",")
    if operation == ConfigOperation.APPEND:
        known = set(items)
        items += [item for item in named if item not in known]
    else:
        subtracted = set(named)
        items = [item for item in items if item not in subtracted]
    return ",".join(items)

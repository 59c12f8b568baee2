"""Changes of configs: `broker.config.config_change`."""

import pytest

from broker.config.config_change import (
    ConfigChange,
    ConfigOperation,
    changed,
    changed_keys,
    check_configs,
    replacement,
)
from kafkawire.errors import ApiError, ErrorCode
from storage.config.log_config import TOPIC_CONFIG_KEYS, LogConfig

SET, DELETE = ConfigOperation.SET, ConfigOperation.DELETE
APPEND, SUBTRACT = ConfigOperation.APPEND, ConfigOperation.SUBTRACT


def test_replacing_drops_keys_that_are_not_named() -> None:
    assert changed({}, replacement([("retention.ms", "1")]), {}, {}) == {"retention.ms": "1"}


@pytest.mark.parametrize(
    ("current", "change", "expected"),
    [
        ({"a": "1"}, ConfigChange("b", SET, "2"), {"a": "1", "b": "2"}),
        ({"a": "1"}, ConfigChange("a", SET, "2"), {"a": "2"}),
        ({"a": "1"}, ConfigChange("a", DELETE, None), {}),
        ({}, ConfigChange("a", DELETE, "ignored"), {}),
        (
            {"cleanup.policy": "delete"},
            ConfigChange("cleanup.policy", APPEND, "compact,delete"),
            {"cleanup.policy": "delete,compact"},
        ),
        (
            {},
            ConfigChange("cleanup.policy", APPEND, "delete"),
            {"cleanup.policy": "compact,delete"},
        ),
        (
            {"cleanup.policy": "delete,compact"},
            ConfigChange("cleanup.policy", SUBTRACT, "delete"),
            {"cleanup.policy": "compact"},
        ),
    ],
)
def test_one_key_changes_and_the_others_stay(
    current: dict[str, str], change: ConfigChange, expected: dict[str, str]
) -> None:
    assert changed(current, [change], {"cleanup.policy": "compact"}, TOPIC_CONFIG_KEYS) == expected


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([ConfigChange("a", SET, None)], ErrorCode.INVALID_REQUEST),
        ([ConfigChange("a", SET, "1"), ConfigChange("a", DELETE, None)], ErrorCode.INVALID_REQUEST),
        ([ConfigChange("cleanup.policy", 4, "1")], ErrorCode.INVALID_REQUEST),
        ([ConfigChange("retention.ms", 4, "1")], ErrorCode.INVALID_REQUEST),
        ([ConfigChange("retention.ms", -1, None)], ErrorCode.INVALID_REQUEST),
        ([ConfigChange("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([ConfigChange("unknown", SUBTRACT, "1")], ErrorCode.INVALID_CONFIG),
    ],
)
def test_an_invalid_change_is_refused(changes: list[ConfigChange], code: ErrorCode) -> None:
    with pytest.raises(ApiError) as caught:
        changed({}, changes, {}, TOPIC_CONFIG_KEYS)
    assert caught.value.code is code


def test_checked_configs_are_the_logs_configuration() -> None:
    defaults = LogConfig(segment_bytes=100)
    assert check_configs({"retention.ms": "5"}, defaults) == LogConfig(
        segment_bytes=100, retention_ms=5
    )


@pytest.mark.parametrize(
    "configs", [{"unknown": "1"}, {"segment.bytes": "1"}, {"remote.storage.enable": "TRUE"}]
)
def test_configs_against_a_rule_are_refused(configs: dict[str, str]) -> None:
    with pytest.raises(ApiError) as caught:
        check_configs(configs, LogConfig())
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_changed_keys_are_keys_with_different_values() -> None:
    before, after = {"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "20", "d": "4"}
    assert changed_keys(before, after) == ["b", "c", "d"]

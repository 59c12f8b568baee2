"""Levels of loggers that change at run time: `broker.log_levels`."""

import pytest

from broker.config.config_change import ConfigChange, ConfigOperation
from broker.log_levels import LogLevels
from kafkawire.errors import ApiError, ErrorCode

SET, DELETE = ConfigOperation.SET, ConfigOperation.DELETE
FETCHER = "broker.replication.fetcher"


def levels() -> LogLevels:
    return LogLevels("INFO", lambda: [FETCHER, "broker.node"])


def change(target: LogLevels, name: str, operation: int, value: str | None = None) -> None:
    target.change([ConfigChange(name, operation, value)], validate_only=False)


def test_loggers_and_their_packages_inherit_the_root_level() -> None:
    assert levels().described() == dict.fromkeys(
        ["broker", "broker.node", "broker.replication", FETCHER, "root"], "INFO"
    )


def test_a_level_applies_to_all_loggers_below_until_it_is_removed() -> None:
    target = levels()
    fetcher, node = target.level(FETCHER), target.level("broker.node")
    change(target, "broker.replication", SET, "DEBUG")
    assert (fetcher.number, node.number) == (10, 20)
    change(target, FETCHER, SET, "ERROR")
    assert (fetcher.number, target.described()[FETCHER]) == (40, "ERROR")
    change(target, FETCHER, DELETE)
    assert fetcher.number == 10
    change(target, "root", SET, "WARN")
    assert (fetcher.number, node.number) == (10, 30)
    assert target.level("storage.log.log").number == 30


@pytest.mark.parametrize(
    ("name", "operation", "value", "code"),
    [
        pytest.param("unheard.of", SET, "INFO", ErrorCode.INVALID_CONFIG, id="unknown logger"),
        pytest.param("unheard.of", DELETE, None, ErrorCode.INVALID_CONFIG, id="unknown to remove"),
        pytest.param("broker", SET, "LOUD", ErrorCode.INVALID_CONFIG, id="unknown level"),
        pytest.param("broker", SET, None, ErrorCode.INVALID_REQUEST, id="no level"),
        pytest.param("root", DELETE, None, ErrorCode.INVALID_REQUEST, id="root removed"),
        pytest.param(
            "broker", ConfigOperation.APPEND, "INFO", ErrorCode.INVALID_REQUEST, id="append"
        ),
    ],
)
def test_bad_changes_are_refused(
    name: str, operation: int, value: str | None, code: ErrorCode
) -> None:
    target = levels()
    good = ConfigChange("broker.node", SET, "ERROR")
    with pytest.raises(ApiError) as caught:
        target.change([good, ConfigChange(name, operation, value)], validate_only=False)
    assert caught.value.code is code
    assert target.described()["broker.node"] == "INFO", "all changes or none"


def test_a_logger_may_be_named_once() -> None:
    twice = [ConfigChange("broker", SET, "DEBUG"), ConfigChange("broker", SET, "ERROR")]
    with pytest.raises(ApiError, match="named twice"):
        levels().change(twice, validate_only=False)


def test_a_validated_change_has_no_effect() -> None:
    target = levels()
    target.change([ConfigChange("root", SET, "TRACE")], validate_only=True)
    assert target.described()["root"] == "INFO"

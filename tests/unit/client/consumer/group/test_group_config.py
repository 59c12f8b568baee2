"""The settings of a group member, their limits, and the choice of assignors."""

import pytest

from ottla.client.consumer.group.group_config import (
    DEFAULT_ASSIGNORS,
    GroupConfig,
    chosen_assignor,
    parse_assignors,
)
from ottla.client.errors import ConfigurationError


def test_the_member_uses_the_assignor_that_the_group_chose() -> None:
    assignors = parse_assignors(DEFAULT_ASSIGNORS)
    assert chosen_assignor(assignors, "cooperative-sticky") is assignors[1]
    assert chosen_assignor(assignors, "of another client") is None


def config(**settings: object) -> GroupConfig:
    """Return the configuration of a member of group g."""
    defaults: dict[str, object] = {"group_id": "g", "assignors": parse_assignors(["range"])}
    return GroupConfig(**(defaults | settings))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"group_id": ""}, "group_id is empty"),
        ({"group_id": 5}, "group_id must be str"),
        ({"group_instance_id": ""}, "group_instance_id is empty"),
        ({"group_instance_id": 5}, "group_instance_id must be str"),
        ({"assignors": ()}, "assignors is empty"),
        ({"session_timeout_ms": 0}, "session_timeout_ms"),
        ({"session_timeout_ms": 10_000.5}, "session_timeout_ms must be a whole number"),
        ({"max_poll_interval_ms": 2**31}, "max_poll_interval_ms"),
        ({"heartbeat_interval_ms": 45_000}, "less than"),
        ({"auto_commit_interval_ms": -1}, "auto_commit_interval_ms"),
        ({"enable_auto_commit": "false"}, "enable_auto_commit must be True or False"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        config(**settings)


def test_a_member_cooperates_only_if_all_assignors_support_it() -> None:
    assert config(assignors=parse_assignors(["cooperative-sticky"])).is_cooperative
    assert not config(assignors=parse_assignors(DEFAULT_ASSIGNORS)).is_cooperative


@pytest.mark.parametrize("names", [["best"], ["range", "range"]])
def test_unknown_and_repeated_assignors_are_refused(names: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="assignors"):
        parse_assignors(names)

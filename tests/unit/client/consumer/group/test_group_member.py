"""The reactions of a group member to responses of the coordinator."""

import pytest

from kafkawire.errors import ErrorCode
from kafkawire.messages.group_membership import JoinGroupResponse
from ottla.client.consumer.group.group_config import (
    DEFAULT_ASSIGNORS,
    GroupConfig,
    chosen_assignor,
    parse_assignors,
)
from ottla.client.consumer.group.group_member import Member
from ottla.client.errors import ConfigurationError


def joined() -> Member:
    """Return a member in generation 3."""
    member = Member()
    member.on_named("m")
    member.on_joined(JoinGroupResponse(member_id="m", generation_id=3, leader="m"))
    member.on_assigned()
    return member


def test_a_member_is_confirmed_in_its_generation() -> None:
    assert not Member().is_confirmed
    member = joined()
    assert (member.member_id, member.generation, member.is_confirmed) == ("m", 3, True)
    assert joined().last_generation == 3


@pytest.mark.parametrize(
    ("code", "member_id"),
    [(ErrorCode.ILLEGAL_GENERATION, "m"), (ErrorCode.UNKNOWN_MEMBER_ID, "")],
)
def test_a_lost_member_keeps_a_valid_member_id(code: ErrorCode, member_id: str) -> None:
    member = joined()
    member.on_lost(code)
    assert not member.is_confirmed
    assert member.member_id == member_id
    assert member.last_generation == -1


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
        ({"group_instance_id": ""}, "group_instance_id is empty"),
        ({"assignors": ()}, "assignors is empty"),
        ({"session_timeout_ms": 0}, "session_timeout_ms"),
        ({"max_poll_interval_ms": 2**31}, "max_poll_interval_ms"),
        ({"heartbeat_interval_ms": 45_000}, "less than"),
        ({"auto_commit_interval_ms": -1}, "auto_commit_interval_ms"),
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

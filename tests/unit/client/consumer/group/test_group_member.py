"""The reactions of a group member to responses of the coordinator."""

import pytest

from kafkawire.errors import ErrorCode
from kafkawire.messages.group_membership import JoinGroupResponse
from ottla.client.consumer.group.group_member import Member


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

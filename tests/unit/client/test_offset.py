"""Offsets that users commit, and timestamps that they look up."""

from typing import Any

import pytest

from kafkawire.ids import LeaderEpoch, Offset, TopicPartition
from ottla.client.errors import ConfigurationError
from ottla.client.offset import CommittedOffset, parse_commit, require_timestamp

PLACE = TopicPartition("t", 0)


class Number:
    """A whole number of another library, such as numpy's."""

    def __index__(self) -> int:
        return 7


def test_numbers_and_committed_offsets_are_offsets() -> None:
    assert parse_commit({PLACE: 7}) == {PLACE: CommittedOffset(Offset(7))}
    known = CommittedOffset(Offset(7), LeaderEpoch(2), "text")
    assert parse_commit({PLACE: known}) == {PLACE: known}
    other: Any = Number()
    assert type(parse_commit({PLACE: other})[PLACE].offset) is int


@pytest.mark.parametrize("offset", [-1, 2**63, 1.5, "1", None, float("nan"), True])
def test_another_value_is_refused_by_name(offset: Any) -> None:
    for given in (offset, CommittedOffset(offset)):
        with pytest.raises(ValueError, match=r"a whole number from 0 to [0-9]+, got .* for t-0"):
            parse_commit({PLACE: given})


@pytest.mark.parametrize(
    ("committed", "reason"),
    [
        (CommittedOffset(Offset(7), LeaderEpoch(-2)), "leader_epoch must be within"),
        (CommittedOffset(Offset(7), metadata="\ud800"), "metadata of an offset must be text"),
        (CommittedOffset(Offset(7), metadata=None), "metadata of an offset must be str"),  # type: ignore[arg-type]
    ],
    ids=["epoch", "utf-8", "none"],
)
def test_the_rest_of_a_committed_offset_is_checked(committed: CommittedOffset, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        parse_commit({PLACE: committed})


@pytest.mark.parametrize("timestamp_ms", [0, 2**63 - 1, Number()])
def test_a_timestamp_is_a_whole_number(timestamp_ms: Any) -> None:
    require_timestamp(PLACE, timestamp_ms)


@pytest.mark.parametrize("timestamp_ms", [-1, 2**63, 1.5, "1", None, float("nan"), True])
def test_a_timestamp_that_no_request_can_carry_is_refused(timestamp_ms: Any) -> None:
    with pytest.raises(ValueError, match=r"a timestamp is a whole number .* for t-0; use"):
        require_timestamp(PLACE, timestamp_ms)

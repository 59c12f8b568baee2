"""Offsets that users commit, and timestamps that they look up."""

from typing import Any

import pytest

from kafkawire.ids import LeaderEpoch, Offset, TopicPartition
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


@pytest.mark.parametrize("offset", [-1, 2**63, 1.5, "1", None, float("nan")])
def test_another_value_is_refused_by_name(offset: Any) -> None:
    for given in (offset, CommittedOffset(offset)):
        with pytest.raises(ValueError, match=r"a whole number from 0 to [0-9]+, got .* for t-0"):
            parse_commit({PLACE: given})


@pytest.mark.parametrize("timestamp_ms", [0, 2**63 - 1, Number()])
def test_a_timestamp_is_a_whole_number(timestamp_ms: Any) -> None:
    require_timestamp(PLACE, timestamp_ms)


@pytest.mark.parametrize("timestamp_ms", [-1, 2**63, 1.5, "1", None, float("nan")])
def test_a_timestamp_that_no_request_can_carry_is_refused(timestamp_ms: Any) -> None:
    with pytest.raises(ValueError, match=r"a timestamp is a whole number .* for t-0; use"):
        require_timestamp(PLACE, timestamp_ms)

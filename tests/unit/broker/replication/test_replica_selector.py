"""A consumer reads from the fullest in-sync follower of its rack, if the leader is elsewhere."""

import pytest

from broker.replication.replica_selector import Candidate, closer_replica
from kafkawire.ids import BrokerId, Offset


def follower(broker_id: int, rack: str | None, start: int = 0, end: int = 10) -> Candidate:
    return Candidate(BrokerId(broker_id), rack, Offset(start), Offset(end))


@pytest.mark.parametrize(
    ("client_rack", "leader_rack", "followers", "expected"),
    [
        pytest.param("a", "b", [follower(2, "a")], 2, id="in the rack"),
        pytest.param("a", None, [follower(2, "b"), follower(3, None)], None, id="elsewhere"),
        pytest.param("a", "a", [follower(2, "a")], None, id="the leader is close"),
        pytest.param("", "b", [follower(2, "")], None, id="a client without a rack"),
        pytest.param("a", "b", [follower(2, "a", end=4)], None, id="it lags"),
        pytest.param("a", "b", [follower(2, "a", start=6)], None, id="it begins later"),
        pytest.param("a", "b", [follower(2, "a"), follower(3, "a", end=11)], 3, id="the fullest"),
        pytest.param("a", "b", [follower(3, "a"), follower(2, "a")], 2, id="the first of equals"),
    ],
)
def test_the_choice(
    client_rack: str, leader_rack: str | None, followers: list[Candidate], expected: int | None
) -> None:
    assert closer_replica(client_rack, leader_rack, 5, followers) == expected

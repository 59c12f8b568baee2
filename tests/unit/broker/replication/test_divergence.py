"""Divergence of a follower's log from its leader's: `broker.replication.divergence`."""

import pytest

from broker.replication.divergence import (
    Divergence,
    divergence,
    out_of_range,
    truncation_offset,
)
from kafkawire.ids import LeaderEpoch, Offset
from storage.log.leader_epochs import EpochEntry, LeaderEpochs


def history(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochEntry(LeaderEpoch(epoch), Offset(start)) for epoch, start in entries)


def diverging(epoch: int, end: int) -> Divergence:
    return Divergence(LeaderEpoch(epoch), Offset(end))


LEADER = history((0, 0), (2, 10), (4, 20))


@pytest.mark.parametrize(
    ("last_epoch", "fetch_offset", "expected"),
    [
        pytest.param(4, 25, None, id="the present epoch"),
        pytest.param(2, 15, None, id="behind in an older epoch"),
        pytest.param(2, 20, None, id="at the end of an older epoch"),
        pytest.param(2, 22, (2, 20), id="beyond the end of an older epoch"),
        pytest.param(3, 15, (2, 20), id="an epoch unknown to the leader"),
        pytest.param(5, 15, (-1, -1), id="an epoch newer than the leader's"),
        pytest.param(-1, 0, None, id="an empty log"),
    ],
)
def test_leader_finds_the_divergence(
    last_epoch: int, fetch_offset: int, expected: tuple[int, int] | None
) -> None:
    found = divergence(LEADER, Offset(30), last_epoch=last_epoch, fetch_offset=Offset(fetch_offset))
    assert found == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(diverging(2, 20), 20, id="a known epoch that is longer in the follower's log"),
        pytest.param(
            diverging(2, 99), 22, id="a known epoch that is shorter in the follower's log"
        ),
        pytest.param(diverging(1, 9), 8, id="an unknown epoch: compare again"),
        pytest.param(diverging(-1, 15), 15, id="an offset without an epoch"),
        pytest.param(diverging(-1, -1), 5, id="no epoch to compare: the high watermark"),
        pytest.param(diverging(2, -7), 5, id="no offset: the high watermark"),
        pytest.param(diverging(9, 15), 15, id="an epoch newer than the follower's"),
    ],
)
def test_follower_truncates_at_the_divergence(found: Divergence, expected: int) -> None:
    follower = history((0, 0), (2, 8), (3, 22))
    assert truncation_offset(follower, Offset(25), Offset(5), found) == expected


def test_out_of_range_follower_truncates_or_starts_over() -> None:
    assert out_of_range(Offset(20), Offset(0), Offset(15)) == (15, False)
    assert out_of_range(Offset(3), Offset(10), Offset(15)) == (10, True)

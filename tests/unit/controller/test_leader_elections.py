"""Leader elections, for every reason to elect: `controller.leader_elections`."""

import pytest

from clusterstate.leader_and_isr import LeaderAndIsr, LeaderRecoveryState
from clusterstate.replica_assignment import Replicas
from controller import leader_elections
from controller.errors import StateChangeFailedError
from kafkawire.ids import BrokerId, LeaderEpoch
from kafkawire.sentinels import NO_LEADER

ALL: Replicas = (BrokerId(1), BrokerId(2), BrokerId(3))


def ids(*numbers: int) -> Replicas:
    return tuple(BrokerId(number) for number in numbers)


def state(leader: int, *isr: int) -> LeaderAndIsr:
    return LeaderAndIsr(
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(7),
        isr=ids(*isr),
        partition_epoch=3,
        controller_epoch=1,
    )


@pytest.mark.parametrize(
    ("isr", "online", "unclean", "expected"),
    [
        pytest.param(ids(1, 2, 3), ids(1, 2, 3), False, (1, ids(1, 2, 3)), id="preferred"),
        pytest.param(ids(1, 2, 3), ids(2, 3), False, (2, ids(2, 3)), id="next in sync"),
        pytest.param(ids(3, 1), ids(2, 3), False, (3, ids(3)), id="order of the assignment"),
        pytest.param(ids(1), ids(2, 3), False, None, id="none in sync"),
        pytest.param(ids(1), ids(2, 3), True, (2, ids(2)), id="unclean: first alive"),
        pytest.param(ids(1), (), True, None, id="none alive"),
    ],
)
def test_an_offline_partition_elects_an_eligible_leader(
    isr: Replicas, online: Replicas, unclean: bool, expected: tuple[int, Replicas] | None
) -> None:
    before = state(-1, *isr)
    if expected is None:
        with pytest.raises(StateChangeFailedError):
            leader_elections.elect_offline(ALL, before, online, allow_unclean=unclean)
        return
    after = leader_elections.elect_offline(ALL, before, online, allow_unclean=unclean)
    assert (after.leader, after.isr, after.leader_epoch) == (*expected, 8)
    is_lossy = expected[0] not in isr
    assert (after.recovery_state is LeaderRecoveryState.RECOVERING) is is_lossy


def test_all_online_replicas_of_a_new_partition_are_in_sync() -> None:
    first = leader_elections.initial_state(ALL, ids(2, 3), controller_epoch=4)
    assert (first.leader, first.isr, first.leader_epoch) == (2, ids(2, 3), 0)
    with pytest.raises(StateChangeFailedError):
        leader_elections.initial_state(ALL, (), controller_epoch=4)


def test_a_reassigned_partition_is_led_from_its_target() -> None:
    after = leader_elections.elect_reassigned(ids(3, 2), state(1, 1, 2, 3), ids(1, 2, 3))
    assert (after.leader, after.isr) == (3, ids(1, 2, 3))
    with pytest.raises(StateChangeFailedError):
        leader_elections.elect_reassigned(ids(3), state(1, 1, 2), ids(1, 2, 3))


def test_the_preferred_replica_leads_only_if_it_is_alive_and_in_sync() -> None:
    assert leader_elections.elect_preferred(ALL, state(2, 1, 2), ALL).leader == 1
    for isr, online in ((ids(2), ALL), (ids(1, 2), ids(2, 3))):
        with pytest.raises(StateChangeFailedError):
            leader_elections.elect_preferred(ALL, state(2, *isr), online)


def test_a_stopping_broker_leaves_leadership_and_in_sync_set() -> None:
    after = leader_elections.elect_for_shutdown(ALL, state(1, 1, 2, 3), ALL, {BrokerId(1)})
    assert (after.leader, after.isr) == (2, ids(2, 3))
    with pytest.raises(StateChangeFailedError):
        leader_elections.elect_for_shutdown(ALL, state(1, 1), ALL, {BrokerId(1)})


@pytest.mark.parametrize(
    ("before", "gone", "expected"),
    [
        pytest.param(state(1, 1, 2), ids(2), (1, ids(1)), id="a follower"),
        pytest.param(state(1, 1, 2), ids(1), (NO_LEADER, ids(2)), id="the leader"),
        pytest.param(state(1, 1), ids(1), (NO_LEADER, ids(1)), id="the last member stays"),
        pytest.param(state(1, 1, 2), ids(3), None, id="not a member"),
        pytest.param(state(-1, 1), ids(1), None, id="no change"),
    ],
)
def test_lost_replicas_leave_the_in_sync_set(
    before: LeaderAndIsr, gone: Replicas, expected: tuple[int, Replicas] | None
) -> None:
    after = leader_elections.without_replicas(before, gone)
    assert (after and (after.leader, after.isr)) == expected


@pytest.mark.parametrize(
    ("before", "online", "expected"),
    [
        pytest.param(state(1, 1, 2, 3), ids(1, 2), (1, ids(1, 2)), id="a follower died"),
        pytest.param(state(1, 1, 2, 3), ids(2, 3), (2, ids(2, 3)), id="the leader died"),
        pytest.param(state(1, 1, 2), ids(3), (NO_LEADER, ids(1, 2)), id="all in sync died"),
        pytest.param(state(-1, 1, 2), ids(3), None, id="leaderless already"),
        pytest.param(state(-1, 1, 2), ids(2), (2, ids(2)), id="one returned"),
        pytest.param(state(1, 1, 2), ALL, None, id="no change"),
    ],
)
def test_repair_is_one_change(
    before: LeaderAndIsr, online: Replicas, expected: tuple[int, Replicas] | None
) -> None:
    after = leader_elections.repair(ALL, before, online)
    assert (after and (after.leader, after.isr)) == expected
    assert after is None or after.leader_epoch == 8


@pytest.mark.parametrize(
    ("before", "online", "expected"),
    [
        pytest.param(state(1, 1, 2), ids(3), (1, ids(1)), id="the others died"),
        pytest.param(state(1, 1), ids(3), None, id="it was alone"),
        pytest.param(state(1, 1, 2), ids(2, 3), (2, ids(2)), id="another is in sync"),
        pytest.param(state(2, 1, 2), ids(3), (3, ids(3)), id="a follower shuts down"),
    ],
)
def test_a_leader_that_shuts_down_serves_until_another_is_in_sync(
    before: LeaderAndIsr, online: Replicas, expected: tuple[int, Replicas] | None
) -> None:
    after = leader_elections.repair(ALL, before, online, stopping=ids(1), allow_unclean=True)
    assert (after and (after.leader, after.isr)) == expected


def test_an_unclean_election_takes_replicas_that_are_being_added_last() -> None:
    before = state(4, 4)
    for online, leader in ((ids(1, 2, 3), 2), (ids(1, 3), 3), (ids(1), 1)):
        after = leader_elections.elect_offline(
            ids(1, 2, 3), before, online, adding=ids(1), allow_unclean=True
        )
        assert after.leader == leader

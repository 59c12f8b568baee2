"""Leader elections of partitions (decision): one function per reason.

Each takes a partition's state and its online replicas, and returns the next state, in the next
leader epoch. Only an in-sync replica is eligible, because it alone holds every committed record.
An unclean election is the one exception, and sets the recovery state.

Source: kafka.controller.Election, PartitionLeaderElectionAlgorithms of Kafka 3.9.
"""

from collections.abc import Collection, Set

from clusterstate.leader_and_isr import LeaderAndIsr, LeaderRecoveryState
from clusterstate.replica_assignment import Replicas
from controller.errors import StateChangeFailedError
from kafkawire.ids import BrokerId
from kafkawire.sentinels import NO_LEADER


def initial_state(
    replicas: Replicas, online: Collection[BrokerId], controller_epoch: int
) -> LeaderAndIsr:
    """Return the first state of a new partition, with every online replica in sync.

    Raises:
        StateChangeFailedError: no replica is online.
    """
    isr = tuple(replica for replica in replicas if replica in online)
    if not isr:
        raise StateChangeFailedError(f"none of the replicas {list(replicas)} is online")
    return LeaderAndIsr(leader=isr[0], isr=isr, controller_epoch=controller_epoch)


def elect_offline(
    replicas: Replicas,
    state: LeaderAndIsr,
    online: Collection[BrokerId],
    *,
    adding: Collection[BrokerId] = (),
    allow_unclean: bool = False,
) -> LeaderAndIsr:
    """Return the state led by the first replica that is online and in sync.

    With `allow_unclean`, any online replica is eligible if no in-sync one is online, and records
    may be lost. The new leader is then the only member of the in-sync set, and is recovering. The
    replicas that a reassignment is `adding` come last, because they may hold next to nothing.

    Raises:
        StateChangeFailedError: no replica is eligible.
    """
    in_sync = tuple(replica for replica in state.isr if replica in online)
    if leader := _first(replicas, in_sync):
        return state.led_by(leader[0], in_sync)
    alive: Replicas = ()
    if allow_unclean:
        alive = _first(tuple(sorted(replicas, key=adding.__contains__)), online)
    if not alive:
        text = f"none of the in-sync replicas {list(state.isr)} is online"
        raise StateChangeFailedError(text)
    recovering = state._replace(recovery_state=LeaderRecoveryState.RECOVERING)
    return recovering.led_by(alive[0], alive)


def elect_reassigned(
    target: Replicas, state: LeaderAndIsr, online: Collection[BrokerId]
) -> LeaderAndIsr:
    """Return the state led by the first replica of the target that is online and in sync.

    Raises:
        StateChangeFailedError: no replica is eligible.
    """
    leader = _first(target, [replica for replica in state.isr if replica in online])
    if not leader:
        raise StateChangeFailedError(f"no replica of {list(target)} is online and in sync")
    return state.led_by(leader[0])


def elect_preferred(
    replicas: Replicas, state: LeaderAndIsr, online: Collection[BrokerId]
) -> LeaderAndIsr:
    """Return the state led by the preferred replica, the first of `replicas`.

    Raises:
        StateChangeFailedError: it is not online, or not in sync.
    """
    if not may_lead_as_preferred(replicas, state, online):
        text = f"the preferred replica of {list(replicas)} is not online and in sync"
        raise StateChangeFailedError(text)
    return state.led_by(replicas[0])


def may_lead_as_preferred(
    replicas: Replicas, state: LeaderAndIsr, online: Collection[BrokerId]
) -> bool:
    """Whether the preferred replica is eligible."""
    return bool(replicas) and replicas[0] in online and replicas[0] in state.isr


def elect_for_shutdown(
    replicas: Replicas,
    state: LeaderAndIsr,
    online: Collection[BrokerId],
    shutting_down: Set[BrokerId],
) -> LeaderAndIsr:
    """Return the state without the brokers that are shutting down; `online` includes them.

    Raises:
        StateChangeFailedError: no other replica is online and in sync.
    """
    isr = tuple(replica for replica in state.isr if replica not in shutting_down)
    leader = _first(replicas, [replica for replica in isr if replica in online])
    if not leader:
        text = f"in {list(state.isr)} only brokers that are shutting down are online"
        raise StateChangeFailedError(text)
    return state.led_by(leader[0], isr)


def without_replicas(state: LeaderAndIsr, gone: Collection[BrokerId]) -> LeaderAndIsr | None:
    """Return the state after `gone` have left the in-sync set; None if none was in it.

    If the set would become empty, it stays unchanged and the partition has no leader: no other
    replica is known to hold the committed records.
    """
    isr = tuple(replica for replica in state.isr if replica not in gone)
    if isr == state.isr:
        return None
    leader = NO_LEADER if state.leader in gone else state.leader
    return state.led_by(leader, isr or state.isr) if isr or leader != state.leader else None


def repair(
    replicas: Replicas,
    state: LeaderAndIsr,
    online: Collection[BrokerId],
    *,
    adding: Collection[BrokerId] = (),
    stopping: Collection[BrokerId] = (),
    allow_unclean: bool = False,
) -> LeaderAndIsr | None:
    """Return the state after brokers have died; None if it stays the same.

    A dead leader is replaced and dead members leave the in-sync set, in one change. If all members
    are dead the set stays unchanged: the first that returns holds every committed record.

    The brokers in `stopping` are shutting down, but still serve: such a leader stays if no other
    replica is in sync.
    """
    if state.leader in online:
        return _without_dead(state, online)
    is_stopping = state.leader in stopping
    allow_unclean = allow_unclean and not is_stopping
    try:
        return elect_offline(replicas, state, online, adding=adding, allow_unclean=allow_unclean)
    except StateChangeFailedError:
        if is_stopping:
            return _without_dead(state, {*online, *stopping})
        return None if state.leader == NO_LEADER else state.led_by(NO_LEADER)


def _without_dead(state: LeaderAndIsr, alive: Collection[BrokerId]) -> LeaderAndIsr | None:
    """Return the state without dead members of the in-sync set; None if it stays the same."""
    isr = tuple(replica for replica in state.isr if replica in alive)
    return None if isr == state.isr else state.led_by(state.leader, isr)


def _first(replicas: Replicas, eligible: Collection[BrokerId]) -> Replicas:
    """Return the first of `replicas` that is eligible, as a tuple of one or none."""
    return tuple(replica for replica in replicas if replica in eligible)[:1]

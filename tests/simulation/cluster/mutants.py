"""Planted bugs: each breaks one rule of the decisions, and the simulation must notice."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from broker.replication import isr_state
from broker.replication.control_fence import ControlFence
from broker.replication.divergence import Divergence, EpochHistory, Truncation
from broker.replication.isr_state import Committed, IsrState, PendingExpand, PendingShrink, Refused
from broker.replication.leadership import Leadership
from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.plans import Check, SetData
from clusterstate.replica_assignment import Replicas
from controller import elections, failover, fenced_writes, last_told, live_brokers
from controller.channel import Channel
from controller.cluster import Cluster
from controller.effects import Connect, Disconnect, Plan
from controller.errors import StateChangeFailedError
from controller.request_batch import RequestBatch
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, Offset, TopicPartition
from tests.simulation.cluster import replica as sim

Plant = Callable[[pytest.MonkeyPatch], None]


def no_fence(patch: pytest.MonkeyPatch) -> None:
    """The controller's writes go through whoever is controller by then (T6)."""

    def unfenced(path: str, _: int) -> Check:
        return Check(path, -1)

    patch.setattr(fenced_writes, "Check", unfenced)


def any_version(patch: pytest.MonkeyPatch) -> None:
    """The controller overwrites what it has not read (C7, T8)."""
    real = fenced_writes._set_states

    def careless(*args: Any) -> Any:
        ops = [op for [op] in real(*args)]
        return [(op._replace(version=-1),) for op in ops if isinstance(op, SetData)]

    patch.setattr(fenced_writes, "_set_states", careless)


def blind_memory(patch: pytest.MonkeyPatch) -> None:
    """A new controller writes what it remembers, whatever stands there (T8)."""
    real = last_told.remember_leaderless

    def careless(cluster: Cluster, told: last_told.LastKnown) -> list[TopicPartition]:
        found = real(cluster, told)
        for partition in found:
            state = cluster.leaderships[partition]
            cluster.leaderships[partition] = state._replace(partition_epoch=-1)
        return found

    patch.setattr(failover, "remember_leaderless", careless)


def any_controller(patch: pytest.MonkeyPatch) -> None:
    """Brokers obey controllers of the past (T6)."""

    def obey(*_: object) -> None:
        return None

    def apply_all(*_: object) -> None:
        return None

    patch.setattr(ControlFence, "refuse", obey)
    patch.setattr(sim, "refuse_leadership", apply_all)


def any_leader_epoch(patch: pytest.MonkeyPatch) -> None:
    """Brokers apply leaderships in the order in which they come (T9)."""

    def apply_all(*_: object) -> None:
        return None

    patch.setattr(sim, "refuse_leadership", apply_all)


def same_epoch(patch: pytest.MonkeyPatch) -> None:
    """A new leader begins in the epoch of the old one."""
    real = LeaderAndIsr.led_by

    def led_by(state: LeaderAndIsr, leader: BrokerId, isr: Replicas | None = None) -> LeaderAndIsr:
        return real(state, leader, isr)._replace(leader_epoch=state.leader_epoch)

    patch.setattr(LeaderAndIsr, "led_by", led_by)


def any_live_leader(patch: pytest.MonkeyPatch) -> None:
    """Whoever lives may lead, and nobody says that records may be lost (T13)."""

    def elect(replicas: Replicas, state: LeaderAndIsr, online: Any, **_: bool) -> LeaderAndIsr:
        alive = tuple(one for one in replicas if one in online)
        if not alive:
            raise StateChangeFailedError("nobody lives")
        return state.led_by(alive[0], alive)

    patch.setattr(elections, "elect_offline", elect)


def last_member_leaves(patch: pytest.MonkeyPatch) -> None:
    """A dead replica leaves the in-sync set even as its last member (C6)."""
    real = elections.repair

    def repair(
        replicas: Replicas, state: LeaderAndIsr, online: Any, **options: bool
    ) -> LeaderAndIsr | None:
        after = real(replicas, state, online, **options)
        if after is not None and after.leader < 0:
            return after._replace(isr=())
        return after

    patch.setattr(elections, "repair", repair)


def unseen_bounces(patch: pytest.MonkeyPatch) -> None:
    """A broker that restarts between two looks is taken for the old one (T5)."""

    def on_change(cluster: Cluster) -> Plan[None]:
        current = yield from live_brokers.read_brokers()
        dead = cluster.brokers.keys() - current.keys()
        new = {one: current[one] for one in sorted(current.keys() - cluster.brokers.keys())}
        if dead:
            yield Disconnect(tuple(dead))
            for broker_id in dead:
                del cluster.brokers[broker_id]
            yield from live_brokers.on_failure(cluster, dead)
        if new:
            yield from live_brokers.on_startup(cluster, new)

    patch.setattr(live_brokers, "on_change", on_change)


def cut_at_the_watermark(patch: pytest.MonkeyPatch) -> None:
    """A follower cuts its log at its high watermark instead of by epochs (T1)."""
    real = sim.Replica.apply

    def apply(replica: sim.Replica, broker_id: BrokerId, *args: Any) -> ErrorCode:
        code = real(replica, broker_id, *args)
        if code is ErrorCode.NONE and replica.leadership is None:
            replica.truncate(replica.high_watermark)
        return code

    patch.setattr(sim.Replica, "apply", apply)


def never_cut(patch: pytest.MonkeyPatch) -> None:
    """A follower keeps what its leader does not have (T2)."""

    def keep(_: EpochHistory, end: Offset, __: Offset, ___: Divergence) -> Truncation:
        return Truncation(end, is_final=True)

    patch.setattr(sim, "truncation", keep)


def unchecked_history(patch: pytest.MonkeyPatch) -> None:
    """A leader serves followers whose last epoch it does not compare (T2)."""

    def agree(*_: object, **__: object) -> None:
        return None

    patch.setattr(sim, "divergence", agree)


def diverging_fetch_counts(patch: pytest.MonkeyPatch) -> None:
    """A leader takes a diverging follower's offset for progress in its own log (T3)."""

    def learn(replica: sim.Replica, follower: BrokerId, offset: Offset, now_ms: int) -> None:
        assert replica.leadership is not None
        known = min(offset, replica.log.end)
        replica.leadership.on_fetch(follower, known, now_ms)
        replica.settle()

    patch.setattr(sim.Replica, "on_diverging", learn)


def early_join(patch: pytest.MonkeyPatch) -> None:
    """A follower joins before it has reached the start of the leader's epoch (T10)."""
    real = Leadership._may_join

    def may_join(leadership: Leadership, follower: BrokerId, *, keeps_up: bool) -> bool:
        start, leadership.epoch_start_offset = leadership.epoch_start_offset, Offset(0)
        try:
            return real(leadership, follower, keeps_up=keeps_up)
        finally:
            leadership.epoch_start_offset = start

    patch.setattr(Leadership, "_may_join", may_join)


def joining_does_not_count(patch: pytest.MonkeyPatch) -> None:
    """The watermark does not wait for a member whose joining may be recorded already (T11)."""
    patch.setattr(PendingExpand, "maximal", property(lambda state: state.isr))

    def ignore(_: Leadership, __: BrokerId, ___: int) -> bool:
        return False

    patch.setattr(Leadership, "_is_about_to_join", ignore)


def leaving_does_not_count(patch: pytest.MonkeyPatch) -> None:
    """The watermark passes a member whose leaving is not recorded yet (D17)."""
    patch.setattr(PendingShrink, "maximal", property(lambda state: state.isr - state.leaving))


def refusal_resets(patch: pytest.MonkeyPatch) -> None:
    """Any refusal is taken for proof that nothing was recorded (T11)."""

    def reset(state: IsrState, _: ErrorCode) -> Refused:
        return Refused(Committed(state.isr), may_retry=False)

    patch.setattr(isr_state, "on_refusal", reset)
    patch.setattr("broker.replication.leadership.on_refusal", reset)


def strangers_do_not_count(patch: pytest.MonkeyPatch) -> None:
    """In-sync members that have left the assignment do not hold the watermark."""
    real = Leadership.__init__

    def forget(leadership: Leadership, *args: Any, **options: Any) -> None:
        real(leadership, *args, **options)
        for one in leadership._followers.keys() - leadership.replicas:
            del leadership._followers[one]
        leadership._advance(options["now_ms"])

    patch.setattr(Leadership, "__init__", forget)


def lost_requests(patch: pytest.MonkeyPatch) -> None:
    """A request that was not answered is not repeated (B10)."""

    def give_up(channel: Channel) -> None:
        channel._is_in_flight = False
        if channel._waiting:
            channel._waiting.popleft()

    patch.setattr(Channel, "on_failure", give_up)


def silent_controller(patch: pytest.MonkeyPatch) -> None:
    """Brokers that lead nothing are told nothing (X17)."""

    def tell_nobody(*_: object) -> None:
        return None

    patch.setattr(RequestBatch, "add_update_metadata", tell_nobody)


def one_connection_for_all_lives(patch: pytest.MonkeyPatch) -> None:
    """A broker that came back gets no channel of its own: requests go to its former life (T9)."""

    def stale(registration: Any, broker_epoch: int) -> Connect:
        return Connect(registration, broker_epoch - 1)

    patch.setattr(live_brokers, "Connect", stale)


MUTANTS: Mapping[str, Plant] = {
    plant.__name__: plant
    for plant in (
        no_fence,
        any_version,
        blind_memory,
        any_controller,
        any_leader_epoch,
        same_epoch,
        any_live_leader,
        last_member_leaves,
        unseen_bounces,
        cut_at_the_watermark,
        never_cut,
        unchecked_history,
        diverging_fetch_counts,
        early_join,
        joining_does_not_count,
        leaving_does_not_count,
        refusal_resets,
        strangers_do_not_count,
        lost_requests,
        silent_controller,
        one_connection_for_all_lives,
    )
}

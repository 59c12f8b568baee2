"""Planted bugs: each breaks one rule of the decisions, and the simulation must detect it."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from broker.cluster.control_fence import ControlFence
from broker.replication.divergence import Divergence, EpochHistory
from broker.replication.isr import isr_state
from broker.replication.isr.isr_state import (
    Committed,
    IsrState,
    PendingExpand,
    PendingShrink,
    Refused,
)
from broker.replication.leadership import Leadership
from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.plans import Check, SetData
from clusterstate.replica_assignment import Replicas
from controller import (
    failover,
    fenced_writes,
    last_told,
    leader_elections,
    live_brokers,
    partition_state_writes,
)
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
    """The controller's writes succeed even after another was elected (T6)."""

    def unfenced(path: str, _: int) -> Check:
        return Check(path, -1)

    patch.setattr(fenced_writes, "Check", unfenced)


def any_version(patch: pytest.MonkeyPatch) -> None:
    """The controller overwrites states that it has not read (C7, T8)."""
    real = partition_state_writes._set_states

    def careless(*args: Any) -> Any:
        ops = [op for [op] in real(*args)]
        return [(op._replace(version=-1),) for op in ops if isinstance(op, SetData)]

    patch.setattr(partition_state_writes, "_set_states", careless)


def blind_memory(patch: pytest.MonkeyPatch) -> None:
    """A new controller writes its last known states without checking the versions (T8)."""
    real = last_told.remember_leaderless

    def careless(cluster: Cluster, last_known: last_told.LastKnown) -> list[TopicPartition]:
        found = real(cluster, last_known)
        for partition in found:
            state = cluster.leaderships[partition]
            cluster.leaderships[partition] = state._replace(partition_epoch=-1)
        return found

    patch.setattr(failover, "remember_leaderless", careless)


def any_controller(patch: pytest.MonkeyPatch) -> None:
    """Brokers accept requests of earlier controllers (T6)."""

    def accept(*_: object) -> None:
        return None

    def apply_all(*_: object) -> None:
        return None

    patch.setattr(ControlFence, "refuse", accept)
    patch.setattr(sim, "refuse_leadership", apply_all)


def any_leader_epoch(patch: pytest.MonkeyPatch) -> None:
    """Brokers apply leaderships in order of arrival (T9)."""

    def apply_all(*_: object) -> None:
        return None

    patch.setattr(sim, "refuse_leadership", apply_all)


def same_epoch(patch: pytest.MonkeyPatch) -> None:
    """A new leader keeps the epoch of the old one."""
    real = LeaderAndIsr.led_by

    def led_by(state: LeaderAndIsr, leader: BrokerId, isr: Replicas | None = None) -> LeaderAndIsr:
        return real(state, leader, isr)._replace(leader_epoch=state.leader_epoch)

    patch.setattr(LeaderAndIsr, "led_by", led_by)


def any_live_leader(patch: pytest.MonkeyPatch) -> None:
    """Any live replica may lead, and the state does not show that records may be lost (T13)."""

    def elect(replicas: Replicas, state: LeaderAndIsr, online: Any, **_: bool) -> LeaderAndIsr:
        alive = tuple(one for one in replicas if one in online)
        if not alive:
            raise StateChangeFailedError("no replica is alive")
        return state.led_by(alive[0], alive)

    patch.setattr(leader_elections, "elect_offline", elect)


def last_member_leaves(patch: pytest.MonkeyPatch) -> None:
    """A dead replica leaves the in-sync set even as its last member (C6)."""
    real = leader_elections.repair

    def repair(
        replicas: Replicas, state: LeaderAndIsr, online: Any, **options: bool
    ) -> LeaderAndIsr | None:
        after = real(replicas, state, online, **options)
        if after is not None and after.leader < 0:
            return after._replace(isr=())
        return after

    patch.setattr(leader_elections, "repair", repair)


def unseen_bounces(patch: pytest.MonkeyPatch) -> None:
    """A broker that restarts between two reads counts as the earlier incarnation (T5)."""

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
    """A follower truncates its log to its high watermark instead of by epochs (T1)."""
    real = sim.Replica.apply

    def apply(replica: sim.Replica, broker_id: BrokerId, *args: Any) -> ErrorCode:
        code = real(replica, broker_id, *args)
        if code is ErrorCode.NONE and replica.leadership is None:
            replica.truncate(replica.high_watermark)
        return code

    patch.setattr(sim.Replica, "apply", apply)


def never_cut(patch: pytest.MonkeyPatch) -> None:
    """A follower keeps records that its leader does not have (T2)."""

    def keep(_: EpochHistory, end: Offset, __: Offset, ___: Divergence) -> Offset:
        return end

    patch.setattr(sim, "truncation_offset", keep)


def unchecked_history(patch: pytest.MonkeyPatch) -> None:
    """A leader serves followers without comparing their last epoch (T2)."""

    def agree(*_: object, **__: object) -> None:
        return None

    patch.setattr(sim, "divergence", agree)


def diverging_fetch_counts(patch: pytest.MonkeyPatch) -> None:
    """A leader counts the offset of a diverging follower as progress in its own log (T3)."""

    def learn(replica: sim.Replica, follower: BrokerId, offset: Offset, now_ms: int) -> None:
        assert replica.leadership is not None
        known = min(offset, replica.log.end)
        replica.leadership.on_fetch(follower, known, now_ms)
        replica.settle()

    patch.setattr(sim.Replica, "on_diverging", learn)


def early_join(patch: pytest.MonkeyPatch) -> None:
    """A follower joins the in-sync set before the start of the leader's epoch (T10)."""
    real = Leadership._may_join

    def may_join(leadership: Leadership, follower: BrokerId, *, keeps_up: bool) -> bool:
        start, leadership.epoch_start_offset = leadership.epoch_start_offset, Offset(0)
        try:
            return real(leadership, follower, keeps_up=keeps_up)
        finally:
            leadership.epoch_start_offset = start

    patch.setattr(Leadership, "_may_join", may_join)


def joining_does_not_count(patch: pytest.MonkeyPatch) -> None:
    """The watermark ignores a joining member that may be recorded already (T11)."""
    patch.setattr(PendingExpand, "maximal", property(lambda state: state.isr))

    def ignore(_: Leadership, __: BrokerId, ___: int) -> bool:
        return False

    patch.setattr(Leadership, "_is_about_to_join", ignore)


def leaving_does_not_count(patch: pytest.MonkeyPatch) -> None:
    """The watermark ignores a leaving member whose removal is not recorded yet (D17)."""
    patch.setattr(PendingShrink, "maximal", property(lambda state: state.isr - state.leaving))


def refusal_resets(patch: pytest.MonkeyPatch) -> None:
    """Any refusal counts as proof that the proposal was not recorded (T11)."""

    def reset(state: IsrState, _: ErrorCode) -> Refused:
        return Refused(Committed(state.isr), may_retry=False)

    patch.setattr(isr_state, "on_refusal", reset)
    patch.setattr("broker.replication.leadership.on_refusal", reset)


def removed_members_do_not_count(patch: pytest.MonkeyPatch) -> None:
    """The watermark ignores in-sync members that have left the assignment."""
    real = Leadership.__init__

    def forget(leadership: Leadership, *args: Any, **options: Any) -> None:
        real(leadership, *args, **options)
        for one in leadership._followers.keys() - leadership.replicas:
            del leadership._followers[one]
        leadership._advance(options["now_ms"])

    patch.setattr(Leadership, "__init__", forget)


def lost_requests(patch: pytest.MonkeyPatch) -> None:
    """A request without a response is not retried (B10)."""

    def give_up(channel: Channel) -> None:
        channel._is_in_flight = False
        if channel._waiting:
            channel._waiting.popleft()

    patch.setattr(Channel, "on_failure", give_up)


def silent_controller(patch: pytest.MonkeyPatch) -> None:
    """Brokers get no metadata updates (X17)."""

    def add_nothing(*_: object) -> None:
        return None

    patch.setattr(RequestBatch, "add_update_metadata", add_nothing)


def one_connection_for_all_incarnations(patch: pytest.MonkeyPatch) -> None:
    """A restarted broker gets no new channel: requests carry its earlier broker epoch (T9)."""

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
        removed_members_do_not_count,
        lost_requests,
        silent_controller,
        one_connection_for_all_incarnations,
    )
}

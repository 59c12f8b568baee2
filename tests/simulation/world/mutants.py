"""Planted bugs: each breaks one rule of the product, and the simulated worlds must detect it.

A mutant is a function that replaces an attribute of the product. Its first argument is the replaced
attribute, and its docstring states the broken rule.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from broker.cluster import control_fence
from broker.cluster.control_fence import ControlFence
from broker.cluster.coordinator_session import CoordinatorSession
from broker.groups.offsets import GroupOffsets
from broker.groups.rebalance import Rebalance
from broker.groups.replay import OffsetsReplay
from broker.handlers.follower_fetch import FollowerFetch
from broker.internal_log.store import DelayedStore
from broker.logs.broker_logs import BrokerLogs
from broker.network.processor import Processor
from broker.network.request_channel import EARLY_APIS, RequestChannel
from broker.node import Node
from broker.replication import divergence, fetcher, leadership, replica, replica_roles
from broker.replication.fetch_session import FetchSessions
from broker.replication.isr import isr_state
from broker.replication.isr.isr_state import Committed, PendingExpand, PendingShrink, Refused
from broker.replication.leadership import Leadership
from broker.replication.replica import Replica
from broker.replication.replica_fetchers import ReplicaFetchers
from broker.replication.replica_manager import ReplicaManager
from broker.replication.replica_roles import ReplicaRoles
from broker.replication.replica_table import ReplicaTable
from broker.replication.stray_logs import StrayLogs
from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.plans import Check, SetData, list_children
from clusterstate.znodes import paths
from controller import (
    failover,
    fenced_writes,
    leader_elections,
    live_brokers,
    partition_state_writes,
    reassignment,
)
from controller.channel import Channel
from controller.effects import Connect, Disconnect
from controller.errors import StateChangeFailedError
from controller.request_batch import RequestBatch
from coordination.client.watch_registry import WatchRegistry
from coordination.server.disk.state_recovery import _Replay
from coordination.server.disk.wal_writer import WalWriter
from coordination.server.state.service import Service
from coordination.server.state.sessions import SessionTable
from coordination.server.state.txns import CloseTxn
from kafkawire.errors import DecodeError, ErrorCode
from kafkawire.ids import Offset
from ottla.client.consumer.consumer_group import ConsumerGroup
from ottla.client.consumer.group.forgetful_assignor import RangeAssignor
from ottla.client.errors import CommitFailedError
from ottla.client.offset import Identity
from storage.compaction import cleanable
from storage.directory.log_checkpoints import LogCheckpoints
from storage.directory.log_table import LogTable
from storage.directory.logs import Logs
from storage.directory.partition_directories import PartitionDirectories
from storage.disk.deleted_files import DeletedFiles
from storage.errors import StorageError
from storage.log import loading
from storage.log.epoch_checkpoint import StoredEpochs
from storage.log.local_log import LocalLog
from storage.log.log import Log
from storage.log.segment_swap import SegmentSwap
from storage.producers import producer_replay
from storage.producers.producer_state import ProducerState
from tests.simulation.world.planted import MUTANTS, Bug, replaces
from tests.simulation.world.transaction_mutants import TRANSACTION_MUTANTS

__all__ = ["MUTANTS", "TRANSACTION_MUTANTS"]

# Leaders and followers.


@replaces((ReplicaManager, "is_committed"))
def acknowledged_at_once(*_: Any) -> bool:
    """A leader acknowledges records with acks=all before its followers have them."""
    return True


@replaces((Leadership, "_advance_high_watermark"))
def watermark_without_followers(_real: Bug, self: Leadership, _now_ms: int) -> None:
    """The high watermark is the end of the leader's log."""
    self.high_watermark = self.log_end_offset


@replaces((Replica, "read"))
def uncommitted_reads(real: Bug, *arguments: Any, **options: Any) -> Any:
    """Consumers read records above the high watermark."""
    return real(*arguments, **options | {"only_committed": False})


@replaces((fetcher, "truncation_offset"), (divergence, "truncation_offset"))
def kept_records(_real: Bug, _history: Any, end: Offset, *_: Any) -> Offset:
    """A follower keeps records that its leader does not have (T2)."""
    return end


@replaces((ReplicaFetchers, "add"))
def cut_at_the_watermark(real: Bug, self: ReplicaFetchers, replicas: Any) -> None:
    """A follower truncates its log to its high watermark instead of by epochs (T1)."""
    replicas = list(replicas)
    self._logs.truncate_to({each.topic_partition: each.high_watermark for each in replicas})
    real(self, replicas)


@replaces((replica, "divergence"), (divergence, "divergence"))
def unchecked_history(*_: Any, **__: Any) -> None:
    """A leader serves followers without comparing their last epoch (T2)."""


@replaces((FollowerFetch, "_read"))
def diverging_fetch_counts(real: Bug, fetch: Any, key: Any, wanted: Any, **options: Any) -> Any:
    """A leader counts the offset of a diverging follower as progress in its own log (T3)."""
    data, is_complete = real(fetch, key, wanted, **options)
    if data.diverging_epoch.end_offset >= 0 and options.get("now_ms") is not None:
        follower = fetch._session.follower
        fetch._replicas.followers.on_fetch(
            key,
            follower.broker_id,
            wanted.fetch_offset,
            broker_epoch=follower.broker_epoch,
            log_start_offset=wanted.log_start_offset,
            now_ms=options["now_ms"],
        )
    return data, is_complete


@replaces((replica_roles, "refuse_leadership"), (control_fence, "refuse_leadership"))
def any_leader_epoch(*_: Any) -> None:
    """Brokers apply leaderships in order of arrival (T9)."""


@replaces((Replica, "check_leader_epoch"))
def unchecked_epochs(*_: Any) -> None:
    """Leaders serve clients and followers that expect another leadership."""


@replaces((LocalLog, "_note_producers"))
def followers_without_producers(*_: Any) -> None:
    """A follower does not remember the sequence numbers that it copies."""


@replaces((ProducerState, "find_duplicate"))
def repeated_batches(*_: Any) -> None:
    """A leader appends a batch again that a producer has sent twice."""


# In-sync sets.


@replaces((Leadership, "_may_join"))
def anyone_joins(*_: Any, **__: Any) -> bool:
    """A follower joins the in-sync set with its first fetch."""
    return True


@replaces((Leadership, "_may_join"))
def early_join(real: Bug, self: Leadership, *arguments: Any, **options: Any) -> Any:
    """A follower joins the in-sync set before the start of the leader's epoch (T10)."""
    start, self.epoch_start_offset = self.epoch_start_offset, Offset(0)
    try:
        return real(self, *arguments, **options)
    finally:
        self.epoch_start_offset = start


@replaces((PendingExpand, "maximal"))
def joining_does_not_count(_real: Bug, state: PendingExpand) -> Any:
    """The watermark ignores a joining member that may be recorded already (T11)."""
    return state.isr


@replaces((PendingShrink, "maximal"))
def leaving_does_not_count(_real: Bug, state: PendingShrink) -> Any:
    """The watermark ignores a leaving member whose removal is not recorded yet (D17)."""
    return state.isr - state.leaving


@replaces((isr_state, "on_refusal"), (leadership, "on_refusal"))
def refusal_resets(_real: Bug, state: Any, _code: ErrorCode) -> Refused:
    """Any refusal counts as proof that the proposal was not recorded (T11)."""
    return Refused(Committed(state.isr), may_retry=False)


@replaces((Leadership, "__init__"))
def removed_members_do_not_count(real: Bug, self: Leadership, *rest: Any, **options: Any) -> None:
    """The watermark ignores in-sync members that have left the assignment."""
    real(self, *rest, **options)
    for one in self._followers.keys() - self.replicas:
        del self._followers[one]
    self._advance_high_watermark(options["now_ms"])


# The controller.


@replaces((fenced_writes, "Check"))
def no_fence(_real: Bug, path: str, _version: int) -> Check:
    """The controller's writes succeed even after another was elected (T6)."""
    return Check(path, -1)


@replaces((partition_state_writes, "_set_states"))
def any_version(real: Bug, *arguments: Any) -> Any:
    """The controller overwrites states that it has not read (C7, T8)."""
    ops = [op for [op] in real(*arguments)]
    return [(op._replace(version=-1),) for op in ops if isinstance(op, SetData)]


@replaces((failover, "remember_leaderless"))
def blind_memory(real: Bug, cluster: Any, last_known: Any) -> Any:
    """A new controller writes its last known states without checking the versions (T8)."""
    found = real(cluster, last_known)
    for partition in found:
        state = cluster.leaderships[partition]
        cluster.leaderships[partition] = state._replace(partition_epoch=-1)
    return found


@replaces((ControlFence, "refuse"))
def any_controller(_real: Bug, fence: ControlFence, controller_epoch: int, *_: Any) -> None:
    """Brokers accept requests of earlier controllers (T6)."""
    fence.controller_epoch = controller_epoch


@replaces((LeaderAndIsr, "led_by"))
def same_epoch(real: Bug, state: LeaderAndIsr, *arguments: Any) -> LeaderAndIsr:
    """A new leader keeps the epoch of the old one."""
    found: LeaderAndIsr = real(state, *arguments)
    return found._replace(leader_epoch=state.leader_epoch)


@replaces((leader_elections, "elect_offline"))
def any_live_leader(_real: Bug, replicas: Any, state: Any, online: Any, **_: Any) -> LeaderAndIsr:
    """Any live replica may lead, and the state does not show that records may be lost (T13)."""
    alive = tuple(one for one in replicas if one in online)
    if not alive:
        raise StateChangeFailedError("no replica is alive")
    found: LeaderAndIsr = state.led_by(alive[0], alive)
    return found


@replaces((leader_elections, "repair"))
def last_member_leaves(real: Bug, *arguments: Any, **options: Any) -> Any:
    """A dead replica leaves the in-sync set even as its last member (C6)."""
    after = real(*arguments, **options)
    return after._replace(isr=()) if after is not None and after.leader < 0 else after


@replaces((live_brokers, "on_change"))
def unseen_bounces(_real: Bug, cluster: Any) -> Any:
    """A broker that restarts between two reads counts as the earlier incarnation (T5)."""
    names = yield from list_children(paths.BROKER_IDS, watch=True)
    current = yield from live_brokers.read_brokers(names, {})
    dead = cluster.brokers.keys() - current.keys()
    new = {one: current[one] for one in sorted(current.keys() - cluster.brokers.keys())}
    if dead:
        yield Disconnect(tuple(dead))
        for broker_id in dead:
            del cluster.brokers[broker_id]
        yield from live_brokers.on_failure(cluster, dead)
    if new:
        yield from live_brokers.on_startup(cluster, new)


@replaces((live_brokers, "on_new_sessions"))
def new_sessions_are_failures(_real: Bug, cluster: Any, brokers: Any) -> Any:
    """A living broker with a new session loses its leaders and its places in in-sync sets."""
    for broker in brokers:
        del cluster.brokers[broker]
    yield from live_brokers.on_failure(cluster, brokers)
    yield from live_brokers.on_startup(cluster, brokers)


@replaces((Channel, "on_failure"))
def lost_requests(_real: Bug, channel: Channel) -> None:
    """A request without a response is not retried (B10)."""
    channel._is_in_flight = False
    if channel._waiting:
        channel._waiting.popleft()


@replaces((RequestBatch, "add_update_metadata"))
def silent_controller(*_: Any) -> None:
    """Brokers get no metadata updates (X17)."""


@replaces((live_brokers, "Connect"))
def one_connection_for_all_incarnations(_real: Bug, registration: Any, epoch: int) -> Connect:
    """A restarted broker gets no new channel: requests carry its earlier broker epoch (T9)."""
    return Connect(registration, epoch - 1)


@replaces((reassignment, "_is_all_in_sync"), (reassignment, "_begin"))
def last_copy_deleted(real: Bug, cluster: Any, partition: Any, target: Any) -> Any:
    """A reassignment that is taken back deletes the only in-sync replica."""
    return False if real.__name__ == "_is_all_in_sync" else _move(cluster, partition, target)


def _move(cluster: Any, partition: Any, target: Any) -> Any:
    current = cluster.assignment(partition)
    wanted = current.reassign_to(current.origin if target is None else target)
    yield from reassignment.proceed(cluster, partition, wanted)
    return reassignment.BEGUN


@replaces((ReplicaRoles, "_retry_later"))
def abandoned_creations(*_: Any) -> None:
    """A log that could not be created on a full disk is never created."""


@replaces((StrayLogs, "_is_elsewhere"))
def strays_by_absence(*_: Any) -> bool:
    """A broker puts away each log that its first LeaderAndIsr does not name."""
    return True


@replaces((replica_roles, "refuse_stop"), (control_fence, "refuse_stop"))
def any_stop(*_: Any) -> None:
    """A broker stops and deletes replicas for an earlier leadership (T15)."""


# Storage.


@replaces((PartitionDirectories, "make_way"), (Logs, "_delete_unopened"), (Logs, "_rename"))
def inherited_directories(real: Bug, logs: Any, *arguments: Any) -> Any:
    """A failed deletion forgets the log, and a new topic of that name continues its directory."""
    if real.__name__ != "_rename":
        return None
    home, partitions, _ = arguments
    try:
        logs.checkpoints.write_bounds_in(home)
    except StorageError:
        for each in partitions:
            logs._forget(each)
        raise
    return real(logs, *arguments)


@replaces((ReplicaRoles, "_delete"))
def unnoticed_deletions(real: Bug, roles: ReplicaRoles, partitions: Any) -> ErrorCode:
    """A broker deletes only logs for which it has a role, not those it finds at its start."""
    code: ErrorCode = real(roles, [each for each in partitions if each in roles._table.by_key])
    return code


@replaces((ReplicaTable, "leader"), (ReplicaTable, "topic_name"))
def fetch_by_name(real: Bug, table: Any, *arguments: Any) -> Any:
    """A fetch with the id of a deleted topic reads the new topic of that name."""
    if real.__name__ == "leader":
        return real(table, *arguments[:2])
    names = vars(table.topic_names).setdefault("ever", {})
    name = real(table, *arguments)
    return names.setdefault(arguments[0], name) if name is not None else names.get(arguments[0])


@replaces((FetchSessions, "find"))
def sessions_for_strangers(real: Bug, *arguments: Any, **_: Any) -> Any:
    """A leader keeps fetch sessions of brokers that are not registered."""
    return real(*arguments)


@replaces((LogTable, "for_each_directory"))
def one_full_directory(_real: Bug, table: LogTable, work: Callable[[Any], None]) -> None:
    """A full log dir stops the upkeep of the others."""
    for directory in table.online_directories:
        work(directory)


@replaces((LogCheckpoints, "write_high_watermarks"))
def emptied_checkpoint(real: Bug, checkpoints: LogCheckpoints, offsets: Any) -> None:
    """The checkpoint of high watermarks forgets the logs that no controller has assigned yet."""
    for directory in checkpoints._table.online_directories:
        directory.checkpoints.high_watermarks.clear()
    real(checkpoints, offsets)


@replaces((Log, "_drop_stored_epochs"), (StoredEpochs, "store_begun"))
def stale_epochs(real: Bug, owner: Any, *_: Any) -> None:
    """The checkpoint of leader epochs keeps leaderships that were truncated."""
    if real.__name__ == "store_begun":
        owner.begun = owner.history.latest


@replaces((LogCheckpoints, "write_bounds_in"))
def stale_recovery_points(*_: Any) -> None:
    """The checkpoints keep their recovery points when a log is truncated."""


@replaces((LocalLog, "_sync_segments"))
def recovery_point_without_sync(*_: Any) -> None:
    """The recovery point rises without a sync."""


@replaces((SegmentSwap, "begin"))
def unchecked_swap(_real: Bug, swap: SegmentSwap) -> bool:
    """The old segments of a cleaning are deleted before the new one is in place."""
    for segment in swap.old:
        segment.files.change_state("", ".deleted")
    swap._files.change_state(".cleaned", ".swap")
    return True


@replaces((loading, "_recover"))
def no_recovery(*_: Any, **__: Any) -> list[Any]:
    """A start after a crash does not check the segments."""
    return []


@replaces((producer_replay, "rebuild"))
def forgotten_producers(*_: Any) -> None:
    """A start forgets the sequence numbers of producers."""


@replaces((cleanable, "_first_uncleanable_offset"))
def cleaned_active_segment(_real: Bug, log: Any, *_: Any) -> Offset:
    """The cleaner ignores the high watermark."""
    found: Offset = log.active_base_offset
    return found


@replaces((DeletedFiles, "remove_due"))
def deleted_by_wall_clock(real: Bug, files: DeletedFiles, _clock_ms: int, *rest: Any) -> None:
    """Deleted files wait by the wall clock."""
    real(files, int(time.time() * 1000), *rest)


# The network.


@replaces(
    (RequestChannel, "submit"),
    (RequestChannel, "open"),
    (Processor, "_is_early"),
    (Processor, "buffer_updated"),
)
def recycled_arenas(real: Bug, self: Any, *arguments: Any) -> Any:
    """Requests wait for the end of the start in memory that later requests overwrite."""
    match real.__name__:
        case "_is_early":
            return False
        case "buffer_updated":
            room = self._room()
            self._submit(self._receiver.receive(arguments[0], room), room)
        case "open":
            real(self)
            self.submit(vars(self).pop("early", []))
        case "submit":
            may_run = [self.is_open or each.header.api_key in EARLY_APIS for each in arguments[0]]
            real(self, [each for each, may in zip(arguments[0], may_run, strict=True) if may])
            early = vars(self).setdefault("early", [])
            early += [each for each, may in zip(arguments[0], may_run, strict=True) if not may]
    return None


# The coordinator and its clients.


@replaces((Service, "close_session"))
def immortal_ephemerals(_real: Bug, self: Service, session_id: int, **when: Any) -> None:
    """The ephemeral nodes of a session survive it."""
    self._log(session_id, when["cxid"], when["wall_ms"], CloseTxn(()))
    self.state.timeouts_ms.pop(session_id, None)
    self.sessions.remove(session_id)


@replaces((WatchRegistry, "rearm"))
def unarmed_watches(*_: Any) -> Any:
    """A client does not set its watches again after it has lost its connection."""
    return iter(())


@replaces((Service, "_rearm"))
def lost_events(*_: Any) -> None:
    """The coordinator does not compare the watches of a new connection with its tree."""


@replaces((WalWriter, "sync"))
def unsynced_transactions(*_: Any) -> None:
    """The coordinator answers before its log is on disk."""


@replaces((_Replay, "_needed_segments"))
def snapshot_without_tail(*_: Any) -> list[Any]:
    """The coordinator starts from its snapshot without the log behind it."""
    return []


@replaces((SessionTable, "expired"))
def immortal_sessions(*_: Any) -> list[Any]:
    """The sessions of dead brokers never expire."""
    return []


@replaces((BrokerLogs, "lock"), (Node, "_open_logs"))
def late_lock(real: Bug, owner: Any, *arguments: Any) -> Any:
    """A start ends the session of the process before it without the lock of its log dirs."""
    if real.__name__ == "lock":
        vars(owner)["late"] = partial(real, owner)
        paths = [Path(each) for each in owner._config.log_directories]
        for path in paths:
            path.mkdir(parents=True, exist_ok=True)
        return paths
    vars(owner._broker_logs)["late"]()
    return real(owner, *arguments)


@replaces((CoordinatorSession, "_try_to_register"))
def one_own_session(real: Bug, session: CoordinatorSession, *arguments: Any) -> Any:
    """A broker recognises the registration of its last session only."""
    session._own_sessions = set(sorted(session._own_sessions)[-1:])
    return real(session, *arguments)


# Groups.


@replaces((GroupOffsets, "restore"))
def forgotten_offsets(*_: Any) -> None:
    """A new group coordinator does not load the committed offsets."""


@replaces((OffsetsReplay, "_add"))
def poisoned_group_log(real: Bug, *arguments: Any) -> None:
    """A group coordinator does not load a log with a record that it does not understand."""
    try:
        real(*arguments)
    except DecodeError as error:
        raise LookupError("an unknown record") from error


@replaces((DelayedStore, "is_satisfied"))
def commits_at_once(_real: Bug, store: DelayedStore, _changed: Any) -> bool:
    """A group coordinator acknowledges a commit before it is replicated."""
    store._error = ErrorCode.NONE
    return True


@replaces((Rebalance, "check"))
def any_generation(real: Bug, rebalance: Rebalance, member: str, instance: Any, _: int) -> Any:
    """A group coordinator accepts commits of earlier generations."""
    return real(rebalance, member, instance, rebalance.generation_id)


@replaces((ConsumerGroup, "_author"))
def commits_as_nobody(real: Bug, *arguments: Any) -> Any:
    """A consumer that was put out of its group commits like a client outside of groups."""
    author = real(*arguments)

    def anyone() -> Identity:
        try:
            found: Identity = author()
        except CommitFailedError:
            return Identity()
        return found

    return anyone


@replaces((RangeAssignor, "assign"))
def shared_partitions(real: Bug, *arguments: Any) -> Any:
    """The leader of a group assigns all partitions to every member."""
    found = real(*arguments)
    every = [each for owned in found.values() for each in owned]
    return dict.fromkeys(found, every)

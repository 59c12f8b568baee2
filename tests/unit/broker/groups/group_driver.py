"""A group whose clock, members and log are controlled by the test."""

from collections.abc import Mapping

from broker.groups.group import Group
from broker.groups.group_effects import (
    Joining,
    JoinResult,
    Protocols,
    RespondToJoin,
    RespondToSync,
    Store,
    Syncing,
    SyncResult,
)
from broker.groups.rebalance import GroupLimits
from broker.groups.state import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, GroupState
from kafkawire.errors import ErrorCode

DELAY_MS = 3_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000
RANGE: Protocols = (("range", b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"),)
"""A subscription to topic t."""


class World:
    """One group and its environment; records are stored at once while `stores_at_once` is set."""

    def __init__(self, max_size: int = 100, delay_ms: int = DELAY_MS) -> None:
        limits = GroupLimits(max_size=max_size, initial_rebalance_delay_ms=delay_ms)
        self.group = Group("g", limits)
        self.now_ms = 1_000
        self.stores_at_once = True
        self.stored: list[Store] = []
        self.unstored: list[Store] = []
        self._id_count = 0

    def join(
        self,
        member_id: str = "",
        instance_id: str | None = None,
        *,
        protocols: Protocols = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        requires_known_id: bool = False,
        can_skip_assignment: bool = False,
    ) -> list[JoinResult]:
        """Join; the response is appended to the returned list when it is ready."""
        self._id_count += 1
        answers: list[JoinResult] = []
        joining = Joining(
            member_id=member_id,
            instance_id=instance_id,
            client_id="client",
            client_host="/host",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=protocols,
            fresh_member_id=f"{instance_id or 'm'}{self._id_count}",
            requires_known_id=requires_known_id,
            can_skip_assignment=can_skip_assignment,
        )
        self.group.join(joining, answers.append, self.now_ms)
        self.settle()
        return answers

    def sync(
        self,
        member_id: str,
        assignments: Mapping[str, bytes] | None = None,
        *,
        generation_id: int | None = None,
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> list[SyncResult]:
        """Request the assignment; the response is appended to the returned list when ready."""
        answers: list[SyncResult] = []
        syncing = Syncing(
            member_id=member_id,
            instance_id=instance_id,
            generation_id=self.group.generation_id if generation_id is None else generation_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=assignments or {},
        )
        self.group.sync(syncing, answers.append, self.now_ms)
        self.settle()
        return answers

    def heartbeat(
        self, member_id: str, generation_id: int | None = None, instance_id: str | None = None
    ) -> ErrorCode:
        """Send a heartbeat of a member."""
        generation_id = self.group.generation_id if generation_id is None else generation_id
        code = self.group.heartbeat(member_id, instance_id, generation_id, self.now_ms)
        self.settle()
        return code

    def leave(self, member_id: str, instance_id: str | None = None) -> ErrorCode:
        """Leave the group."""
        code = self.group.leave(member_id, instance_id, self.now_ms)
        self.settle()
        return code

    def commit(
        self, member_id: str, generation_id: int | None = None, instance_id: str | None = None
    ) -> ErrorCode:
        """Check whether the member may commit."""
        generation_id = self.group.generation_id if generation_id is None else generation_id
        code = self.group.check_commit(member_id, instance_id, generation_id, self.now_ms)
        self.settle()
        return code

    def unload(self) -> None:
        """Unload the group."""
        self.group.unload()
        self.settle()

    def finish_store(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Complete the oldest pending write to the log."""
        store = self.unstored.pop(0)
        self.stored.append(store)
        self.group.on_stored(store, error, self.now_ms)
        self.settle()

    def pass_time(self, duration_ms: int) -> None:
        """Advance the clock, and run all deadlines on the way."""
        end_ms = self.now_ms + duration_ms
        while (next_ms := self.group.deadlines.next_ms) is not None and next_ms <= end_ms:
            self.now_ms = max(self.now_ms, next_ms)
            self.group.on_time(self.now_ms)
            self.settle()
        self.now_ms = end_ms

    def settle(self) -> None:
        """Execute the effects of the group."""
        while effects := self.group.take_effects():
            for effect in effects:
                match effect:
                    case RespondToJoin(join_waiter, join_result):
                        join_waiter(join_result)
                    case RespondToSync(sync_waiter, sync_result):
                        sync_waiter(sync_result)
                    case Store():
                        self.unstored.append(effect)
        while self.stores_at_once and self.unstored:
            self.finish_store()

    # Groups in a given state.

    def begin_generation(self, *instance_ids: str | None, **options: bool) -> list[str]:
        """Let a member join per instance id; return their ids, the leader's first: COMPLETING."""
        joins = [self.join("", each) for each in instance_ids]
        self.pass_time(REBALANCE_MS + DELAY_MS if options.get("slowly") else DELAY_MS * 2)
        ids = [answers[-1].member_id for answers in joins]
        assert all(answers[-1].error is ErrorCode.NONE for answers in joins), joins
        assert self.group.state is COMPLETING
        return ids

    def stabilize(self, *instance_ids: str | None) -> list[str]:
        """Like `begin_generation`, then let the leader assign each member its own id: STABLE."""
        ids = self.begin_generation(*instance_ids)
        for member_id in ids:
            self.sync(member_id, {each: each.encode() for each in ids})
        assert self.group.state is STABLE
        return ids


def world_in(state: GroupState, instance_id: str | None = None) -> tuple[World, str]:
    """Return a group in `state`, and the id of its only or last member."""
    world = World()
    if state is COMPLETING:
        return world, world.begin_generation(instance_id)[0]
    [member_id] = world.stabilize(instance_id)
    if state is EMPTY:
        world.leave(member_id)
    elif state is PREPARING:
        # Another member joins, and the first one has not rejoined yet.
        world.join()
    elif state is DEAD:
        world.unload()
    assert world.group.state is state
    return world, member_id

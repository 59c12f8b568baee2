"""A consumer's membership in its group: rebalances, heartbeats, leaving (edge).

Two tasks: `_join_when_needed` runs one rebalance after the other, and `_beat` sends heartbeats in
the meantime.
Invariants: partitions are taken away only while no record is in hand, after all processed records
were committed. The listener is called in Kafka's order, by one task at a time. Once the membership
is lost, no record is handed over or committed.
"""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterable
from math import inf
from typing import Final

from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.messages.group_membership import (
    MEMBERS_SINCE,
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from ottla.client.background import TaskSet
from ottla.client.consumer.group.group_config import GroupConfig
from ottla.client.consumer.group.group_member import Holding, Member
from ottla.client.consumer.group.joining import Joining
from ottla.client.consumer.group.read_gate import ReadGate
from ottla.client.consumer.group.rebalance_listener import RebalanceListener
from ottla.client.errors import BrokerError, OttlaError, RebalanceFailedError
from ottla.client.network.coordinator import Coordinator
from ottla.client.network.group_coordinator import Verdict, judge
from ottla.client.retry import Backoff

HEARTBEAT_SHARE: Final = 1 / 3
"""Share of the session timeout for which a heartbeat waits for its response.

After a connection that has died without a word, another heartbeat keeps the membership.
"""
LEAVE_TIMEOUT_S: Final = 5.0
PROMPT_REJOINS: Final = 3
"""Refusals in a row after which a member joins again at once.

The group needs it soon: it assigns an id first, and rebalances while others join.
"""

log = logging.getLogger(__name__)


class GroupSession:
    """Keeps a consumer in its group, from the first `subscribe` until `stop`."""

    def __init__(
        self,
        config: GroupConfig,
        coordinator: Coordinator,
        member: Member,
        joining: Joining,
        holding: Holding,
        gate: ReadGate,
        backoff: Backoff,
        *,
        request_timeout_s: float,
    ) -> None:
        self._config = config
        session_timeout_s = config.session_timeout_ms / 1000
        self._heartbeat_timeout_s = min(request_timeout_s, session_timeout_s * HEARTBEAT_SHARE)
        self._coordinator = coordinator
        self._member = member
        self._joining = joining
        self._holding = holding
        self._gate = gate
        self._backoff = backoff
        self._listener = RebalanceListener()
        self._topics: frozenset[str] = frozenset()
        self.is_subscribed = False
        """Whether this consumer is a member, or becomes one: from `subscribe` until `stop`."""
        self._held_before: list[TopicPartition] = []
        self._tasks = TaskSet(asyncio.get_running_loop())
        self._join_needed = asyncio.Event()
        self._is_joining = False
        self._is_lost = False
        self._waits_for_reader = False
        self._is_leaving = False
        """Whether an idle member leaves: the gate stays held until it has left."""
        self._listener_error: OttlaError | None = None
        self._join_error: OttlaError | None = None
        """The error of a join, until one succeeds."""
        self._heartbeat_error: OttlaError | None = None
        """The error of a heartbeat, until one succeeds, or a join."""

    @property
    def error(self) -> OttlaError | None:
        """The error that keeps this consumer out of the group; the next read raises it."""
        return self._listener_error or self._join_error or self._heartbeat_error

    @property
    def topics(self) -> frozenset[str]:
        """The subscribed topics."""
        return self._topics

    @property
    def is_joining(self) -> bool:
        """Whether this consumer joins the next generation, or is about to."""
        return self._is_joining or self._join_needed.is_set()

    def subscribe(self, topics: Iterable[str], listener: RebalanceListener) -> None:
        """Read `topics` as a member of the group; join in the background."""
        self._forget_errors()
        self.is_subscribed = True
        self._topics = frozenset(topics)
        self._listener = listener
        self._holding.keep_topics(self._topics)
        self._join_needed.set()
        if not self._tasks:
            self._tasks.spawn(self._join_when_needed(), f"member of {self._config.group_id}")
            self._tasks.spawn(self._beat(), f"heartbeats to {self._config.group_id}")

    def change_topics(self, topics: Iterable[str]) -> None:
        """Read other topics from now on, with the same listener."""
        self.subscribe(topics, self._listener)

    def on_metadata(self) -> None:
        """Start a rebalance if the changed metadata requires one."""
        if self._member.is_confirmed and not self._is_joining and self._joining.is_outdated():
            self._joining.forget()
            self._join_needed.set()

    async def stop(self, deadline_s: float) -> None:
        """Give up all partitions and leave the group; a static member only stops its heartbeats.

        At `deadline_s` of the loop's clock it stops waiting, even for the listener.

        Raises:
            Exception: the error that the listener raised.
        """
        try:
            async with asyncio.timeout_at(deadline_s) as limit:
                await self._tasks.cancel_all()
                await self._give_up(self._holding.owned())
        except TimeoutError:
            if not limit.expired():
                raise
            log.warning("close.timed_out group=%s", self._config.group_id)
        finally:
            self._joining.forget()
            await self._leave("the consumer was closed", deadline_s)
            self._member.on_left()
            self._topics = frozenset()
            self.is_subscribed = False
            self._held_before = []
            self._forget_errors()
            self._end_loss()

    # Rebalances

    async def _join_when_needed(self) -> None:
        failure_count = 0
        while True:
            await self._join_needed.wait()
            if self._waits_for_reader:
                await self._gate.reader()
                self._waits_for_reader = False
            self._join_needed.clear()
            try:
                await self._rebalance()
                failure_count = 0
            except RebalanceFailedError as error:
                self._on_callback_failed(error)
            except OttlaError as error:
                verdict = self._on_refused(error)
                failure_count += 1
                if verdict in (Verdict.RETRY, Verdict.FIND):
                    self._join_needed.set()
                    await asyncio.sleep(self._backoff.delay_s(failure_count))
                elif verdict is Verdict.FATAL:
                    await self._await_another_attempt()
                elif failure_count > PROMPT_REJOINS:
                    await asyncio.sleep(self._backoff.delay_s(failure_count - PROMPT_REJOINS))
            except Exception as error:
                # Raised by the user's listener: the next read reports it.
                self._on_callback_failed(RebalanceFailedError(self._config.group_id, error))

    def _on_callback_failed(self, error: RebalanceFailedError) -> None:
        log.error("rebalance.failed group=%s", self._config.group_id, exc_info=error)
        self._listener_error = error
        self._gate.on_open()

    async def _await_another_attempt(self) -> None:
        """Wait after a refusal of a join, whose cause may pass; `subscribe` ends the wait."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._config.heartbeat_interval_ms / 1000):
                await self._join_needed.wait()
        self._join_needed.set()

    async def _rebalance(self) -> None:
        await self._with_callbacks(self._prepare())
        owned = self._holding.owned()
        held = owned if self._config.is_cooperative else self._held_before
        topics = self._topics
        # This rebalance satisfies all requests for one up to now.
        self._join_needed.clear()
        self._is_joining = True
        try:
            mine = await self._joining.join(topics, held)
            self._join_error = self._heartbeat_error = None
        finally:
            self._is_joining = False
        # The metadata may have changed since this member, as leader, used it.
        self.on_metadata()
        log.info(
            "group.joined group=%s generation=%s partitions=%s",
            self._config.group_id,
            self._member.generation,
            len(mine),
        )
        await self._with_callbacks(self._adopt(mine, owned, topics))

    async def _with_callbacks(self, step: Coroutine[object, object, None]) -> None:
        """Run a step of a rebalance that calls the listener.

        Raises:
            RebalanceFailedError: a callback raised an error of the client that does not concern the
                membership. Each further join would repeat it, and rebalance the whole group.
        """
        try:
            await step
        except OttlaError as error:
            if judge(error) is not Verdict.FATAL:
                raise
            raise RebalanceFailedError(self._config.group_id, error) from error

    async def _adopt(
        self, mine: list[TopicPartition], owned: list[TopicPartition], topics: frozenset[str]
    ) -> None:
        """Read the partitions `mine` in place of `owned`, as the new generation assigns them."""
        kept = set(mine).intersection(owned)
        given_away = [each for each in owned if each not in kept]
        if given_away:
            await self._give_up(given_away)
            # The leader may assign them to other members only after this one has joined again.
            self._join_needed.set()
        await self._take([each for each in mine if each not in kept], topics)

    async def _prepare(self) -> None:
        """Give up the partitions that must not be held during a rebalance."""
        owned = self._holding.owned()
        if not self._config.is_cooperative or self._is_lost:
            await self._give_up(owned)
        else:
            await self._give_up([each for each in owned if each.topic not in self._topics])

    async def _give_up(self, partitions: list[TopicPartition]) -> None:
        """Take partitions away from the reader, once no record is in hand."""
        if partitions:
            async with self._gate.held():
                if not self._is_lost:
                    await self._holding.commit_processed()
                # The group may have removed this member during the commit, or during the callback.
                if not self._is_lost:
                    await self._listener.revoked(partitions)
                    self._holding.take_away(partitions)
                if self._is_lost:
                    # Other members may own all of them already: nothing is committed for them.
                    lost = self._holding.owned()
                    self._holding.take_away(lost)
                    await self._listener.lost(lost)
        self._end_loss()

    def _begin_loss(self) -> None:
        """Hold the gate, since other members may own the partitions."""
        if not self._is_lost:
            self._is_lost = True
            self._gate.hold()

    def _end_loss(self) -> None:
        """Open the gate, since no partition of a lost membership is left."""
        if self._is_lost and not self._is_leaving:
            self._is_lost = self._waits_for_reader = False
            self._gate.release()

    async def _take(self, partitions: list[TopicPartition], subscribed: frozenset[str]) -> None:
        """Read partitions that were assigned to a member with the topics `subscribed`."""
        async with self._gate.held():
            if not self._member.is_confirmed:
                # The group has removed this member in the meantime, and it joins again.
                return
            self._member.on_assigned()
            # The next rebalance, which is due already, gives their partitions to other members.
            dropped = subscribed - self._topics
            partitions = [each for each in partitions if each.topic not in dropped]
            self._holding.add(partitions)
            self._held_before = self._holding.owned()
            await self._listener.assigned(partitions)

    # Heartbeats and leaving

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._config.heartbeat_interval_ms / 1000)
            if not self._member.is_confirmed or self._is_joining:
                continue
            if self._gate.idle_s() > self._config.max_poll_interval_ms / 1000:
                await self._leave_for_idleness()
                continue
            generation = self._member.generation
            try:
                await self._heartbeat()
            except OttlaError as error:
                # A join that began in the meantime handles the error itself. After one that has
                # ended, too, the error is about an earlier membership.
                if generation == self._member.generation and not self._is_joining:
                    self._on_refused(error, is_heartbeat=True)
            else:
                self._heartbeat_error = None

    async def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self._config.group_id,
            generation_id=self._member.generation,
            member_id=self._member.member_id,
            group_instance_id=self._config.group_instance_id,
        )
        await self._coordinator.ask(request, HeartbeatResponse, timeout_s=self._heartbeat_timeout_s)

    def _on_refused(self, error: OttlaError, *, is_heartbeat: bool = False) -> Verdict:
        """React to an error, except for waiting; return the verdict."""
        verdict = judge(error)
        log.info("group.refused group=%s error=%s", self._config.group_id, error)
        match verdict:
            case Verdict.FATAL:
                if is_heartbeat:
                    self._heartbeat_error = error
                else:
                    self._join_error = error
                self._gate.on_open()
            case Verdict.LOST:
                code = error.code if isinstance(error, BrokerError) else ErrorCode.NONE
                self._lose(code)
            case Verdict.REJOIN:
                self._join_needed.set()
            case Verdict.RETRY | Verdict.FIND:
                # The next request may succeed.
                pass
        return verdict

    def _lose(self, code: ErrorCode) -> None:
        """Drop the membership, stop reading at once, and join as a new member."""
        self._member.on_lost(code)
        self._begin_loss()
        self._join_needed.set()

    async def _leave_for_idleness(self) -> None:
        """Leave the group, since the application has not read for `max_poll_interval_ms`."""
        reason = f"nothing was read for {self._config.max_poll_interval_ms} ms"
        log.warning("group.left group=%s reason=%s", self._config.group_id, reason)
        self._waits_for_reader = self._is_leaving = True
        # Before the request: a reader that returns now would get records of the next owner. It also
        # ends the wait of a rebalance, which may then take partitions for the old membership.
        self._begin_loss()
        try:
            await self._leave(reason)
        finally:
            self._is_leaving = False
        self._lose(ErrorCode.UNKNOWN_MEMBER_ID)

    async def _leave(self, reason: str, deadline_s: float = inf) -> None:
        """Send a request to leave, unless this member is static and keeps its place.

        After `deadline_s` the request is still sent if a connection is open, without waiting.
        """
        member, config = self._member, self._config
        if not member.member_id or config.group_instance_id is not None:
            return

        def request(version: int) -> LeaveGroupRequest:
            if version < MEMBERS_SINCE:
                return LeaveGroupRequest(group_id=config.group_id, member_id=member.member_id)
            leaving = MemberIdentity(member_id=member.member_id, reason=reason)
            return LeaveGroupRequest(group_id=config.group_id, members=[leaving])

        end_s = min(deadline_s, asyncio.get_running_loop().time() + LEAVE_TIMEOUT_S)
        try:
            async with asyncio.timeout_at(end_s):
                await self._coordinator.ask(request, LeaveGroupResponse)
        except TimeoutError:
            log.info("leave.failed group=%s error=no response in time", config.group_id)
        except OttlaError as error:
            log.info("leave.failed group=%s error=%s", config.group_id, error)

    def _forget_errors(self) -> None:
        self._listener_error = self._join_error = self._heartbeat_error = None

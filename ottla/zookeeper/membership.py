"""Carries out the effects of a member's rebalances, one at a time, in its session (edge)."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from clusterstate.znodes import consumer_nodes
from coordination.client import Client, SessionState
from coordination.errors import OperationError
from ottla.client.background import TaskSet
from ottla.client.errors import ConfigurationError, OttlaError
from ottla.zookeeper.assignment import Slot, Strategy
from ottla.zookeeper.claims import Claims
from ottla.zookeeper.nodes import GroupNodes
from ottla.zookeeper.offset_nodes import OffsetNodes
from ottla.zookeeper.rebalance import Phase, Rebalance
from ottla.zookeeper.rebalance_events import (
    Changed,
    Claim,
    Closing,
    Drain,
    Drained,
    Due,
    Effect,
    Event,
    Expired,
    Failed,
    GaveUp,
    GiveUp,
    Hold,
    Impossible,
    Lasting,
    Leave,
    Lose,
    Missing,
    Open,
    Refused,
    Register,
    Registered,
    Release,
    Released,
    Restored,
    SessionBegan,
    Start,
    Started,
    Suspected,
    View,
    Viewed,
    Wait,
)
from ottla.zookeeper.registration import Layout, Registration
from ottla.zookeeper.view import GroupView, wanted

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S: Final = 30.0
RECONNECT_DELAY_S: Final = 0.5
STUBBORN_CONFLICTS: Final = 3
"""Number of conflicts in a row with a live owner after which different formulas are suspected."""


class TooManyConflictsError(OttlaError):
    """Other members kept partitions that are this member's, so it left the group."""


class Holder(Protocol):
    """The consumer, as its membership sees it."""

    async def drain(self, slots: frozenset[Slot]) -> None:
        """Stop reading these partitions, once their records in hand are processed, and commit."""

    async def start(self, slots: frozenset[Slot]) -> frozenset[Slot]:
        """Read these partitions too; return the ones that no broker knows yet."""

    def lose(self, slots: frozenset[Slot]) -> None:
        """Stop reading these partitions at once."""

    def hold(self) -> None:
        """Hand over no record."""

    def open(self) -> None:
        """Hand over records again."""

    def fail(self, error: OttlaError) -> None:
        """Let the next read raise `error`."""


class Membership:
    """One member of one group. Call `start` and `stop` once each."""

    def __init__(
        self,
        client: Client,
        holder: Holder,
        machine: Rebalance,
        *,
        group: str,
        consumer: str,
        registration: Registration,
        layout: Layout,
        strategy: Strategy,
        exclude_internal: bool,
        session_timeout_ms: int,
        now_ms: Callable[[], int],
    ) -> None:
        self.consumer = consumer
        self.machine = machine
        self.rebalance_count = self.conflict_count = 0
        self.nodes = GroupNodes(client, group, layout, self._on_change)
        self.offsets = OffsetNodes(self.nodes)
        self._client = client
        self._holder = holder
        self._claims = Claims(self.nodes, self.offsets, consumer)
        self._registration = registration
        self._strategy = strategy
        self._exclude_internal = exclude_internal
        self._session_timeout_s = session_timeout_ms / 1000
        self._now_ms = now_ms
        self._sessions: set[int] = set()
        self._effects: deque[Lasting] = deque()
        self._work = asyncio.Event()
        self._interrupt = asyncio.Event()
        """Set when a wait is no longer worthwhile: the session ended, or the member leaves."""
        self._tasks = TaskSet(asyncio.get_running_loop())
        self._view: GroupView | None = None
        self._conflicts_in_a_row = 0
        self.is_over = asyncio.Event()

    def start(self) -> None:
        """Join the group in the client's session."""
        self._client.on_state_change(self._on_state)
        if self._client.state is not SessionState.EXPIRED:
            self._begin_session()
        self._tasks.spawn(self._run(), f"member {self.consumer} of {self.nodes.group}")

    async def stop(self, deadline_s: float) -> None:
        """Release everything and end the session; give up at `deadline_s`."""
        if self.machine.phase is Phase.OUT:
            # Nothing is left to release; the next session need not be awaited.
            self.is_over.set()
        self.feed(Closing())
        try:
            async with asyncio.timeout_at(deadline_s):
                await self.is_over.wait()
        except TimeoutError:
            log.warning("close.timed_out group=%s", self.nodes.group)
        await self._tasks.cancel_all()

    def feed(self, event: Event) -> None:
        """Pass an event to the machine, and carry out or queue its effects."""
        for effect in self.machine.on(event):
            self._accept(effect)
        if isinstance(event, Expired | Closing):
            self._interrupt.set()
        self._work.set()

    def certain_session(self) -> int:
        """Return the session that holds the claims; 0 if there is none, or it may have ended."""
        is_certain = self._client.state in (SessionState.CONNECTED, SessionState.SUSPENDED)
        return self._client.session_id if is_certain else 0

    # Events

    def _begin_session(self) -> None:
        self._sessions.add(self._client.session_id)
        self.offsets.versions.clear()
        self._interrupt.clear()
        self.feed(SessionBegan(self._client.session_id))

    def _on_change(self) -> None:
        self.feed(Changed())

    def _on_state(self, state: SessionState) -> None:
        match state:
            case SessionState.CONNECTED:
                self.feed(Restored())
            case SessionState.SUSPECT:
                log.warning("group.session_in_doubt group=%s", self.nodes.group)
                self.feed(Suspected())
            case SessionState.EXPIRED if self.machine.session:
                log.warning("group.session_lost group=%s", self.nodes.group)
                self.feed(Expired())

    # Effects

    def _accept(self, effect: Effect) -> None:
        match effect:
            case Lose(slots=slots):
                self.offsets.forget(slots)
                log.warning("group.lost group=%s partitions=%d", self.nodes.group, len(slots))
                self._holder.lose(slots)
            case Hold():
                self._holder.hold()
            case Open():
                self._holder.open()
            case _:
                self._effects.append(effect)

    async def _run(self) -> None:
        while not self.is_over.is_set():
            if self._effects:
                await self._perform_safely(self._effects.popleft())
            elif self.machine.phase is Phase.OUT:
                await self._reconnect()
            else:
                self._work.clear()
                await self._work.wait()

    async def _reconnect(self) -> None:
        try:
            await self._client.connect(CONNECT_TIMEOUT_S)
        except OperationError as error:
            log.warning("group.cannot_connect group=%s error=%s", self.nodes.group, error)
            await asyncio.sleep(RECONNECT_DELAY_S)
            return
        self._begin_session()

    async def _perform_safely(self, effect: Lasting) -> None:
        if effect.session != self._client.session_id and not isinstance(effect, Leave):
            return
        try:
            event = await self._perform(effect)
        except OperationError as error:
            log.info("group.step_failed group=%s error=%s", self.nodes.group, error)
            if isinstance(effect, Leave):
                self.is_over.set()
                return
            event = Failed(effect.session)
        except ConfigurationError as error:
            self._holder.fail(error)
            event = Impossible(effect.session)
        if event is not None:
            self.feed(event)

    async def _perform(self, effect: Lasting) -> Event | None:
        session = effect.session
        match effect:
            case Register(held=former):
                await self._register(former)
                return Registered(session)
            case View():
                return await self._look(session)
            case Drain(slots=slots):
                await self._holder.drain(slots)
                return Drained(session)
            case Release(slots=slots):
                await self._claims.release(slots)
                return Released(session)
            case Claim(wanted=mine):
                return await self._claim(session, mine)
            case Start(slots=slots):
                self.rebalance_count += 1
                return Started(session, await self._holder.start(slots))
            case Wait():
                is_early = await self._wait(effect)
                return Due(session, is_early)
            case GiveUp():
                await self._give_up(effect)
                return GaveUp(session)
            case Leave(slots=slots):
                await self._holder.drain(slots)
                await self._claims.release(slots)
                self.is_over.set()
        return None

    async def _register(self, former: frozenset[Slot]) -> None:
        data = self._registration.encode(self.nodes.layout, self._now_ms())
        await self.nodes.register(
            self.consumer, data, frozenset(self._sessions), former, 2 * self._session_timeout_s
        )
        log.info("group.registered group=%s consumer=%s", self.nodes.group, self.consumer)

    async def _look(self, session: int) -> Event:
        view = await self.nodes.read_view(
            self._registration, self._strategy, exclude_internal=self._exclude_internal
        )
        if self.consumer in view.malformed:
            # Another tool has overwritten it, and may do so again after each registration: only a
            # read of the application registers again.
            raise ConfigurationError(
                f"group {self.nodes.group}: the registration of {self.consumer!r} cannot be read."
                " This consumer has left the group; the next read joins again."
            )
        if self.consumer not in view.members:
            return Missing(session)
        self._view = view
        self.offsets.created = view.created
        mine: Mapping[Slot, str] = wanted(
            view,
            self.consumer,
            layout=self.nodes.layout,
            strategy=self._strategy,
            exclude_internal=self._exclude_internal,
        )
        if not view.has_brokers:
            log.warning("group.no_brokers group=%s", self.nodes.group)
        return Viewed(session, mine, view.has_brokers)

    async def _claim(self, session: int, mine: Mapping[Slot, str]) -> Event:
        outcome = await self._claims.claim(session, mine)
        if not isinstance(outcome, Refused):
            self._conflicts_in_a_row = 0
            return outcome
        self.conflict_count += 1
        self._conflicts_in_a_row += outcome.is_live
        if self._conflicts_in_a_row == STUBBORN_CONFLICTS:
            log.warning(
                "group.formulas_differ group=%s partition=%s-%s owner=%r: the formula gives it to "
                "us. Compare strategy, layout and exclude_internal_topics of all members.",
                self.nodes.group,
                *outcome.slot,
                outcome.owner,
            )
        return outcome

    async def _wait(self, effect: Wait) -> bool:
        """Wait for the time, the end of the blocking claim or an interrupt; return True if early.

        Raises:
            OperationError: the blocking claim cannot be watched.
        """
        timeout_s = effect.delay_ms / 1000
        interrupted: asyncio.Future[object] = asyncio.ensure_future(self._interrupt.wait())
        waits: list[asyncio.Future[object]] = [interrupted]
        if effect.blocker is not None:
            path = consumer_nodes.owner(self.nodes.group, *effect.blocker)
            waits.append(asyncio.ensure_future(self.nodes.gone(path, timeout_s)))
        try:
            done, _ = await asyncio.wait(
                waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            is_early = any(each.result() for each in waits if each in done)
        finally:
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        if is_early:
            self._conflicts_in_a_row = 0
        return is_early

    async def _give_up(self, effect: GiveUp) -> None:
        await self._holder.drain(effect.slots)
        if (conflict := effect.conflict) is not None:
            topic, name = conflict.slot
            self._holder.fail(
                TooManyConflictsError(
                    f"group {self.nodes.group}: {conflict.owner!r} keeps {topic}-{name}."
                    " This consumer has left the group; the next read joins again."
                )
            )
        await self._claims.release(effect.slots)
        await self.nodes.unregister(self.consumer)

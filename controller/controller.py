"""The controller component of a running broker (edge): processes one event at a time.

It performs the effects of the plans and owns their timers and channels. When the session expires,
the owner calls and awaits `expire` before it starts a new session, so that nothing of the old
controller epoch is still running. A plan that raises is a bug: it ends the controllership, not the
broker (ADR 0052).
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import structlog

from clusterstate.coordinator_edge import CoordinatorEdge
from clusterstate.plans import Answer, ListChildren, Read, Write
from clusterstate.znodes.registration import Registration
from controller import events as e
from controller.channel import Channel
from controller.channel_task import BrokerConnection, ChannelTask
from controller.cluster import Cluster
from controller.controller_config import ControllerConfig
from controller.controller_state import ControllerState, state_during
from controller.controller_stats import ControllerStats
from controller.effects import (
    AwaitWriters,
    Connect,
    Disconnect,
    Effect,
    Elected,
    Enqueue,
    Note,
    Plan,
    Send,
)
from controller.event_queue import EventQueue
from controller.last_told import LastKnown, nothing_known
from controller.plan import Planner, Result
from controller.topics import NewTopicId
from coordination.client import Client, WatchEvent
from coordination.errors import SessionExpiredError
from coordination.protocol.messages import EventType
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicPartition

log = structlog.get_logger(__name__)

REREAD_S: Final = 60.0
"""Time between readings of watched znodes; see `controller.lost_watches`."""
EXCHANGES_TO_WRITE: Final = 4
"""Exchanges until a producer has written after a failover: for metadata that may still be old, for
new metadata, for the records, and for their replication. Each takes about as long as an exchange of
the controller with the brokers under the same load."""
FAILURE_PAUSE_S: Final = 1.0
"""Pause after a failed plan in which other brokers can win the election."""

DialBroker = Callable[[Registration], BrokerConnection]
CountMissingWrites = Callable[[Sequence[TopicPartition]], int]
"""Counts the partitions without a record of their leadership, and those without a committed one.

It knows only the partitions that this broker leads, and returns 0 if producers wait for others.
"""


class _Queued(NamedTuple):
    """The future of an event, and the time at which it was queued."""

    future: "asyncio.Future[Result]"
    queued_at_s: float


class Controller:
    """Takes part in controller elections, and controls the cluster while it is elected."""

    def __init__(
        self,
        config: ControllerConfig,
        client: Client,
        *,
        dial: DialBroker,
        new_topic_id: NewTopicId,
        now_ms: Callable[[], int],
        last_known: LastKnown = nothing_known,
    ) -> None:
        self._planner = Planner(config, new_topic_id, last_known)
        self._edge = CoordinatorEdge(client, self._on_watch)
        self._dial = dial
        self._now_ms = now_ms
        self._queue: EventQueue[_Queued] = EventQueue()
        self._wakeup = asyncio.Event()
        self._channels: dict[BrokerId, ChannelTask] = {}
        self._timers: set[asyncio.TimerHandle] = set()
        self._task: asyncio.Task[None] | None = None
        self._rereads: asyncio.Task[None] | None = None
        self._state = ControllerState.IDLE
        self._on_elected: Callable[[], None] = lambda: None
        self._count_missing_writes: CountMissingWrites = lambda _partitions: 0
        self.stats = ControllerStats()
        """The times of events, for metrics."""

    @property
    def is_active(self) -> bool:
        """Whether this broker believes that it is the controller."""
        return self._planner.is_active

    @property
    def state(self) -> ControllerState:
        """State for the event being processed; IDLE between events."""
        return self._state

    @property
    def offline_partition_count(self) -> int:
        """Number of partitions without a leader; 0 if this broker is not the controller."""
        cluster = self._planner.cluster
        return 0 if cluster is None else len(list(cluster.partitions_without_leader()))

    @property
    def unclean_election_count(self) -> int:
        """Number of elections in this controller epoch that may have lost records."""
        cluster = self._planner.cluster
        return 0 if cluster is None else cluster.unclean_election_count

    @property
    def event_queue_size(self) -> int:
        """Number of events that wait."""
        return len(self._queue)

    @property
    def channel_queue_size(self) -> int:
        """Number of requests that wait for their brokers, or for a response."""
        return sum(each.waiting_count for each in self._channels.values())

    @property
    def cluster(self) -> Cluster | None:
        """The image of the cluster, only to be read; None if this is not the controller."""
        return self._planner.cluster

    @property
    def controller_id(self) -> BrokerId | None:
        """The current controller, as far as this broker knows."""
        return self._planner.controller_id

    def start(self, count_missing_writes: CountMissingWrites) -> None:
        """Start the task; the broker must be registered."""
        self._count_missing_writes = count_missing_writes
        self._task = asyncio.create_task(self._run(), name="controller")
        self._rereads = asyncio.create_task(self._read_again(), name="controller rereads")
        self.put(e.Reelect())

    def reconfigure(self, config: ControllerConfig) -> None:
        """Use `config` from now on; an event must follow if the new config allows more."""
        self._planner.reconfigure(config)

    def on_elected(self, callback: Callable[[], None]) -> None:
        """Call `callback` when this broker has won an election or read the winner."""
        self._on_elected = callback

    def on_failure(self, callback: Callable[[BaseException], None]) -> None:
        """Call `callback` if the task dies: a bug, after which the node must stop.

        Must be called after `start`.
        """
        assert self._task is not None, "start first"

        def ended(task: asyncio.Task[None]) -> None:
            error = None if task.cancelled() else task.exception()
            if error is not None:
                callback(error)

        self._task.add_done_callback(ended)

    def put(self, event: e.Event) -> "asyncio.Future[Result]":
        """Queue `event`; the future holds its result, for an event that has one."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        if not self._queue.put(event, _Queued(future, loop.time())):
            future.set_result(None)
        self._wakeup.set()
        return future

    async def expire(self) -> None:
        """Resign because the session expired, and drop all pending events."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        for _, dropped in self._queue.expire(_Queued(future, loop.time())):
            if not dropped.future.done():
                dropped.future.set_result(ErrorCode.NOT_CONTROLLER)
        self._wakeup.set()
        await future

    async def stop(self) -> None:
        """Resign, so that another broker can be elected, and stop the task."""
        tasks = [each for each in (self._rereads, self._task) if each is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await self._perform_all(self._planner.give_up())
        except SessionExpiredError:
            log.info("controller.session_lost")
        finally:
            self._disconnect(None)

    def _on_watch(self, fired: WatchEvent) -> None:
        event = _event_of(fired)
        if event is not None:
            self.put(event)

    async def _read_again(self) -> None:
        while True:
            await asyncio.sleep(REREAD_S)
            self.put(e.RereadDue())

    async def _run(self) -> None:
        while True:
            while not len(self._queue):
                self._wakeup.clear()
                await self._wakeup.wait()
            loop = asyncio.get_running_loop()
            event, (future, queued_at_s) = self._queue.take()
            self._state = state_during(event)
            began_s = loop.time()
            self.stats.queue_time.add((began_s - queued_at_s) * 1000)
            result: Result = ErrorCode.NOT_CONTROLLER
            has_failed = False
            try:
                result = await self._perform_all(self._planner.plan(event, self._now_ms()))
            except SessionExpiredError:
                # Our owner is notified too, and calls `expire`.
                log.info("controller.session_lost", event_name=type(event).__name__)
            except Exception:
                log.exception("controller.failed", event_name=type(event).__name__)
                has_failed = True
            finally:
                self.stats.on_event(self._state, (loop.time() - began_s) * 1000)
                self._state = ControllerState.IDLE
                if not future.done():
                    future.set_result(result)
            if has_failed:
                await self._let_another_be_elected()

    async def _let_another_be_elected(self) -> None:
        """Resign, because the image may be half updated, and run for election later."""
        try:
            await self._perform_all(self._planner.give_up())
        except Exception:
            # The next election recognises the remaining znode as our own and deletes it.
            log.exception("controller.not_resigned")
        await asyncio.sleep(FAILURE_PAUSE_S)
        self.put(e.Reelect())

    async def _perform_all(self, plan: Plan[Result] | Plan[None]) -> Result:
        answer: Answer = None
        while True:
            try:
                effect = plan.send(answer)
            except StopIteration as stop:
                result: Result = stop.value
                return result
            if isinstance(effect, Read | ListChildren | Write):
                answer = await self._edge.perform(effect)
            else:
                answer = None
                if isinstance(effect, AwaitWriters):
                    await self._await_writers(effect)
                else:
                    self._perform(effect)

    async def _await_writers(self, effect: AwaitWriters) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(effect.timeout_ms / 1000):
                began_s = asyncio.get_running_loop().time()
                for channel in list(self._channels.values()):
                    await channel.wait_settled()
                exchange_s = asyncio.get_running_loop().time() - began_s
                missing, quiet_count = self._count_missing_writes(effect.partitions), 0
                while (
                    missing
                    and quiet_count < EXCHANGES_TO_WRITE
                    and not self._queue.has(e.AlterPartitionRequested, e.BrokerChange, e.Expire)
                ):
                    await asyncio.sleep(exchange_s)
                    before, missing = missing, self._count_missing_writes(effect.partitions)
                    quiet_count = 0 if missing < before else quiet_count + 1

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send(requests):
                for request in requests:
                    channel = self._channels.get(request.broker_id)
                    if channel is not None:
                        channel.put(request)
            case Connect(registration, epoch):
                self._disconnect((registration.broker_id,))
                self._channels[registration.broker_id] = ChannelTask(
                    Channel(registration.broker_id, epoch),
                    lambda: self._dial(self._latest(registration, epoch)),
                    self.put,
                )
            case Disconnect(brokers):
                if brokers is None:
                    self._drop_timers()
                self._disconnect(brokers)
            case Enqueue(event, delay_ms):
                self._enqueue(event, delay_ms)
            case Elected():
                self._on_elected()
            case Note(name, fields, is_trouble):
                (log.error if is_trouble else log.info)(name, **fields)
            case _:
                raise AssertionError(f"{effect} is performed elsewhere")

    def _latest(self, registration: Registration, epoch: int) -> Registration:
        """Return the registration of the same incarnation, which may have changed its endpoints."""
        cluster = self._planner.cluster
        known = None if cluster is None else cluster.brokers.get(registration.broker_id)
        return known.registration if known is not None and known.epoch == epoch else registration

    def _enqueue(self, event: e.Event, delay_ms: int) -> None:
        if not delay_ms:
            self.put(event)
            return

        def due() -> None:
            self._timers.discard(timer)
            self.put(event)

        timer = asyncio.get_running_loop().call_later(delay_ms / 1000, due)
        self._timers.add(timer)

    def _drop_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _disconnect(self, brokers: tuple[BrokerId, ...] | None) -> None:
        for broker in list(self._channels) if brokers is None else brokers:
            if broker in self._channels:
                self._channels.pop(broker).close()


def _event_of(fired: WatchEvent) -> e.Event | None:
    """Return the controller's event for a notification; None if it needs none."""
    if fired.type is EventType.NODE_CHILDREN_CHANGED:
        return e.event_of_children(fired.path)
    return e.event_of_node(fired.path, is_deleted=fired.type is EventType.NODE_DELETED)

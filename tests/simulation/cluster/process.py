"""A simulated broker process: the real planner, channels and replica decisions, without I/O.

Actions of a paused process are queued; actions of a dead one are lost. Other actions run between
any two effects of a plan.
"""

import uuid
from collections.abc import Callable
from typing import Any, Protocol

from broker.cluster.control_fence import ControlFence, refuse_stop
from broker.cluster.metadata_cache import ClusterImage
from broker.cluster.metadata_update import updated
from broker.replication.isr.isr_state import Proposal
from broker.replication.leadership import Limits
from clusterstate.broker_registration import Registered, Sessions, create_top_nodes, register
from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.plans import Answer, ListChildren, Read, Write
from clusterstate.znodes.registration import Endpoint, Registration
from controller import events as e
from controller.channel import RETRY_BACKOFF_MS, Channel, ControlResponse
from controller.controller_config import ControllerConfig
from controller.effects import (
    AwaitResponses,
    BrokerRequest,
    Connect,
    ControlRequest,
    Disconnect,
    Effect,
    Elected,
    Enqueue,
    Note,
    Plan,
    Send,
)
from controller.event_queue import EventQueue
from controller.plan import Planner
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafkawire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from kafkawire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from kafkawire.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from kafkawire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kafkawire.sentinels import NO_EPOCH
from tests.simulation.cluster.coordinator import Coordinator, Fired, SessionExpiredError
from tests.simulation.cluster.fake_log import FakeLog
from tests.simulation.cluster.network import Clock, Network
from tests.simulation.cluster.replica import MAX_LAG_MS, FetchResponse, Replica

COORDINATOR = -1
REQUEST_TIMEOUT_MS = 150
TICK_MS = 40
FETCH_EVERY_MS = 30
ALTER_PARTITION_VERSION = 3

Reply = Callable[[Any], None]


class Disk:
    """State that survives the process."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, FakeLog] = {}
        self.topic_ids: dict[TopicPartition, uuid.UUID] = {}
        self.high_watermarks: dict[TopicPartition, Offset] = {}
        self.session = 0


class Surroundings(Protocol):
    """Interface of the world for a process."""

    clock: Clock
    network: Network
    coordinator: Coordinator
    min_insync_replicas: int
    unclean_default: bool

    def process(self, broker_id: BrokerId) -> "Process | None":
        """Return the live process of a broker, if any."""

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""

    def pick_ms(self, limit: int) -> int:
        """Return a random number below `limit`."""

    def new_topic_id(self) -> uuid.UUID:
        """Return an unused topic id."""

    def next_number(self) -> int:
        """Return a number larger than all earlier ones."""

    def on_change(self, broker_id: BrokerId, replica: Replica) -> None:
        """Check a replica that may have changed."""

    def on_failure(self, error: BaseException) -> None:
        """Record a bug."""


class Process:
    """One incarnation of a broker."""

    def __init__(self, broker_id: BrokerId, disk: Disk, world: Surroundings) -> None:
        self.broker_id = broker_id
        self.disk = disk
        self.world = world
        self.is_alive = True
        self.is_paused = False
        self.pause_at_effect: int | None = None
        self.effect_count = 0
        self.backlog: list[Callable[[], None]] = []
        config = ControllerConfig(
            broker_id=broker_id, unclean_leader_election_enable=world.unclean_default
        )
        self.planner = Planner(
            config, world.new_topic_id, lambda topic, known: self.image.known_states(topic, known)
        )
        self.queue: EventQueue[Reply] = EventQueue()
        self.is_planning = False
        self.resignation_count = 0
        self.channels: dict[BrokerId, Channel] = {}
        self.connections: dict[BrokerId, int] = {}
        self.received: set[int] = set()
        self.session = world.coordinator.open_session()
        self.fence: ControlFence | None = None
        self.controller_id: BrokerId | None = None
        self.replicas: dict[TopicPartition, Replica] = {}
        self.metadata: dict[TopicPartition, tuple[int, int]] = {}
        self.image = ClusterImage()
        self.live: set[BrokerId] = set()
        self._run(create_top_nodes(), lambda _: self._register())
        self._tick()
        self._fetch_all()

    # Lifecycle

    def act(self, action: Callable[[], None]) -> None:
        """Run an action, now or after the pause; drop it if the process is dead."""
        if not self.is_alive:
            return
        if self.is_paused:
            self.backlog.append(action)
        else:
            action()

    def resume(self) -> None:
        """End a pause: run all queued actions now, in order."""
        self.is_paused = False
        waiting, self.backlog = self.backlog, []
        for action in waiting:
            self.act(action)

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Run an action after `delay_ms`, unless the process is dead by then."""
        self.world.clock.after(delay_ms, lambda: self.act(action))

    def _register(self) -> None:
        registration = Registration(
            broker_id=self.broker_id, endpoints=(Endpoint("PLAINTEXT", "h", 9092 + self.broker_id),)
        )
        data = registration.encode(timestamp_ms=self.world.clock.now_ms)
        sessions = Sessions(self.session, {self.disk.session})
        self._run(register(self.broker_id, data, sessions), self._on_registered)

    def _on_registered(self, result: object) -> None:
        if not isinstance(result, Registered):
            self.later(100, self._register)
            return
        self.disk.session = self.session
        if self.fence is None:
            self.fence = ControlFence(result.broker_epoch)
        self.fence.broker_epoch = result.broker_epoch
        self.put(e.Reelect())

    def _tick(self) -> None:
        if self.session not in self.world.coordinator.sessions and self.fence is not None:
            self._expire()
        for replica in list(self.replicas.values()):
            if replica.leadership is not None:
                replica.leadership.on_tick(self.world.clock.now_ms)
                self._propose(replica)
            if self.world.chance(0.2):
                self.disk.high_watermarks[replica.partition] = replica.high_watermark
        self.later(TICK_MS, self._tick)

    def _expire(self) -> None:
        self.session = self.world.coordinator.open_session()
        for event, reply in self.queue.expire(lambda _: self._register()):
            if not isinstance(event, e.Expire):
                reply(ErrorCode.NOT_CONTROLLER)
        self._plan_next()

    # The controller component

    def put(self, event: e.Event, reply: Reply = lambda _: None) -> None:
        """Queue an event for the controller component."""
        self.queue.put(event, reply)
        self._plan_next()

    def on_watch(self, fired: Fired) -> None:
        """Handle a notification of the coordinator."""
        if fired.session != self.session:
            return
        event = (
            e.event_of_children(fired.path)
            if fired.is_children
            else e.event_of_node(fired.path, is_deleted=fired.is_deleted)
        )
        if event is not None:
            self.put(event)

    def _plan_next(self) -> None:
        if self.is_planning or not len(self.queue):
            return
        self.is_planning = True
        event, reply = self.queue.take()

        def done(result: object) -> None:
            self.is_planning = False
            reply(result)
            self._plan_next()

        self._run(self.planner.plan(event, self.world.clock.now_ms), done)

    def _run(self, plan: Plan[Any], done: Callable[[Any], None]) -> None:
        self._continue(plan, None, done)

    def _continue(self, plan: Plan[Any], answer: Answer, done: Callable[[Any], None]) -> None:
        try:
            effect = plan.send(answer)
            while isinstance(effect, Elected | Note):
                # Logging takes no time and changes nothing; nor does reading ahead.
                effect = plan.send(None)
        except StopIteration as stop:
            done(stop.value)
            return
        except Exception as error:
            self.world.on_failure(error)
            raise
        self.effect_count += 1
        if self.effect_count == self.pause_at_effect:
            self.is_paused = True
        if isinstance(effect, Read | ListChildren | Write):
            self._ask(effect, lambda found: self._continue(plan, found, done))
        else:
            self.act(lambda: self._perform(effect))
            wait_ms = effect.timeout_ms if isinstance(effect, AwaitResponses) else 0
            self._resume_within(wait_ms, lambda: self._continue(plan, None, done))

    def _resume_within(self, wait_ms: int, resume: Callable[[], None]) -> None:
        """Call `resume` once every request has its response, at the latest after `wait_ms`."""
        step_ms = self.world.pick_ms(3)
        if wait_ms > 0 and any(map(len, self.channels.values())):
            self.later(1 + step_ms, lambda: self._resume_within(wait_ms - 1 - step_ms, resume))
        else:
            self.later(step_ms, resume)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send(requests):
                for request in requests:
                    self._send(request)
            case Connect(registration, epoch):
                self._close(registration.broker_id)
                channel = Channel(registration.broker_id, epoch)
                self.channels[registration.broker_id] = channel
                self._reconnect(registration.broker_id)
            case Disconnect(brokers):
                self.resignation_count += brokers is None
                for broker in list(self.channels) if brokers is None else brokers:
                    self._close(broker)
            case Enqueue(event, delay_ms):
                before = self.resignation_count

                def put_unless_resigned() -> None:
                    if before == self.resignation_count:
                        self.put(event)

                self.later(delay_ms, put_unless_resigned)
            case AwaitResponses():
                pass
            case _:
                raise AssertionError(effect)

    def _close(self, broker: BrokerId) -> None:
        if broker in self.channels:
            self.channels.pop(broker).close()

    def _ask(self, effect: Read | ListChildren | Write, done: Callable[[Answer], None]) -> None:
        """Send a request to the coordinator until it answers; it may be applied several times.

        A copy that arrives after the answer is ignored: it was sent on an abandoned connection,
        which the coordinator closes when the session moves to another.
        """
        is_open = True
        network, coordinator, session = self.world.network, self.world.coordinator, self.session

        def execute() -> None:
            if not is_open:
                return
            try:
                answer = coordinator.perform(session, effect)
            except SessionExpiredError:
                network.send(COORDINATOR, self.broker_id, lambda: self.act(refuse))
                return
            network.send(COORDINATOR, self.broker_id, lambda: self.act(lambda: finish(answer)))

        def finish(answer: Answer) -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                done(answer)

        def refuse() -> None:
            nonlocal is_open, session
            # A real client would fail the operation; here the next session retries it.
            if is_open and session == self.session:
                if self.fence is None:
                    self.session = self.world.coordinator.open_session()
                else:
                    self._expire()
            session = self.session

        def attempt() -> None:
            if is_open:
                network.send(self.broker_id, COORDINATOR, execute)
                self.later(REQUEST_TIMEOUT_MS, attempt)

        attempt()

    def _reconnect(self, broker: BrokerId) -> None:
        self.connections[broker] = self.world.next_number()

    def _send(self, request: BrokerRequest) -> None:
        channel = self.channels.get(request.broker_id)
        if channel is not None:
            channel.put(request)
            self._pump(channel)

    def _pump(self, channel: Channel) -> None:
        request = channel.next()
        if request is None:
            return
        is_open = True

        def finish(response: ControlResponse) -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                event = channel.on_response(response)
                if event is not None:
                    self.put(event)
                self._pump(channel)

        def give_up() -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                channel.on_failure()
                self._reconnect(channel.broker_id)
                self.later(RETRY_BACKOFF_MS, lambda: self._pump(channel))

        connection, number = self.connections[channel.broker_id], self.world.next_number()

        def serve(broker: Process, reply: Reply) -> None:
            # A message repeated by the network is handled once per connection.
            if number not in broker.received:
                broker.received.add(number)
                broker.on_control(request.message, reply, connection)

        self._call(channel.broker_id, serve, finish)
        self.later(REQUEST_TIMEOUT_MS, give_up)

    def _call(
        self, target: BrokerId, action: "Callable[[Process, Reply], None]", finish: Reply
    ) -> None:
        """Run `action` in another process and send its reply back, if the network allows."""
        network = self.world.network

        def answer(response: object) -> None:
            network.send(target, self.broker_id, lambda: self.act(lambda: finish(response)))

        def deliver() -> None:
            process = self.world.process(target)
            if process is not None:
                process.act(lambda: action(process, answer))

        network.send(self.broker_id, target, deliver)

    # The broker

    def on_control(self, message: ControlRequest, reply: Reply, connection: int = 0) -> None:
        """Handle a control request, or refuse it."""
        if self.fence is None:
            return
        code = self.fence.refuse(message.controller_epoch, message.broker_epoch, connection)
        if code is None:
            self.controller_id = BrokerId(message.controller_id)
        match message:
            case LeaderAndIsrRequest():
                reply(self._on_leader_and_isr(message, code))
            case UpdateMetadataRequest():
                reply(self._on_update_metadata(message, code))
            case StopReplicaRequest():
                reply(self._on_stop_replica(message, code))

    def _on_leader_and_isr(
        self, message: LeaderAndIsrRequest, code: ErrorCode | None
    ) -> LeaderAndIsrResponse:
        if code is not None:
            return LeaderAndIsrResponse(error_code=code)
        topics = []
        for topic in message.topic_states:
            errors = []
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                replica = self._replica(partition, topic.topic_id)
                result = replica.apply(
                    self.broker_id,
                    state,
                    topic.topic_id,
                    Limits(
                        min_insync_replicas=self.world.min_insync_replicas, max_lag_ms=MAX_LAG_MS
                    ),
                    self._live_epoch,
                    self.world.clock.now_ms,
                )
                self.world.on_change(self.broker_id, replica)
                errors.append(
                    LeaderAndIsrPartitionError(
                        partition_index=state.partition_index, error_code=result
                    )
                )
            topics.append(LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=errors))
        return LeaderAndIsrResponse(topics=topics)

    def _replica(self, partition: TopicPartition, topic_id: uuid.UUID) -> Replica:
        if partition in self.disk.logs and self.disk.topic_ids[partition] != topic_id:
            # A stray: the log belongs to a deleted topic of the same name.
            self._forget(partition)
        if partition not in self.replicas:
            log = self.disk.logs.setdefault(partition, FakeLog())
            self.disk.topic_ids[partition] = topic_id
            mark = self.disk.high_watermarks.get(partition, Offset(0))
            self.replicas[partition] = Replica(partition, log, mark)
        return self.replicas[partition]

    def _forget(self, partition: TopicPartition) -> None:
        self.replicas.pop(partition, None)
        self.disk.logs.pop(partition, None)
        self.disk.topic_ids.pop(partition, None)
        self.disk.high_watermarks.pop(partition, None)

    def _live_epoch(self, broker: BrokerId) -> int | None:
        return -1 if broker in self.live or broker == self.broker_id else None

    def _on_update_metadata(
        self, message: UpdateMetadataRequest, code: ErrorCode | None
    ) -> UpdateMetadataResponse:
        if code is not None:
            return UpdateMetadataResponse(error_code=code)
        self.live = {BrokerId(one.id) for one in message.live_brokers}
        self.image = updated(self.image, message)
        for topic in message.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                if state.leader == -2:
                    self.metadata.pop(partition, None)
                else:
                    self.metadata[partition] = (state.leader, state.leader_epoch)
        return UpdateMetadataResponse()

    def _on_stop_replica(
        self, message: StopReplicaRequest, code: ErrorCode | None
    ) -> StopReplicaResponse:
        if code is not None:
            return StopReplicaResponse(error_code=code)
        errors = []
        for topic in message.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                replica = self.replicas.get(partition)
                current = replica.leader_epoch if replica else None
                refusal = refuse_stop(current, state.leader_epoch)
                if refusal is None and state.delete_partition:
                    self._forget(partition)
                elif refusal is None and replica is not None:
                    self.disk.high_watermarks[partition] = replica.high_watermark
                    replica.leadership, replica.leader = None, None
                errors.append(
                    StopReplicaPartitionError(
                        topic_name=topic.topic_name,
                        partition_index=state.partition_index,
                        error_code=refusal or ErrorCode.NONE,
                    )
                )
        return StopReplicaResponse(partition_errors=errors)

    # Replication

    def _fetch_all(self) -> None:
        for replica in list(self.replicas.values()):
            if replica.leader is not None and replica.leader >= 0 and replica.leadership is None:
                self._fetch(replica)
        self.later(FETCH_EVERY_MS + self.world.pick_ms(FETCH_EVERY_MS), self._fetch_all)

    def _fetch(self, replica: Replica) -> None:
        epoch, offset = replica.leader_epoch, replica.log.end
        last_epoch, broker_epoch = replica.log.epochs.latest, self.fence_epoch
        if replica.fetch is not None or epoch is None or replica.leader is None:
            return
        replica.fetch = fetch = self.world.next_number()

        def is_awaited() -> bool:
            # The number ensures that the timeout of an earlier fetch does not end this one.
            return self.replicas.get(replica.partition) is replica and replica.fetch == fetch

        def finish(answer: FetchResponse) -> None:
            if is_awaited():
                replica.fetch = None
                if replica.leader is not None:
                    replica.on_response(answer, offset)
                    self.world.on_change(self.broker_id, replica)

        def give_up() -> None:
            if is_awaited():
                replica.fetch = None

        def serve(leader: Process, reply: Reply) -> None:
            led = leader.replicas.get(replica.partition)
            if led is None:
                reply(FetchResponse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                return
            now_ms = leader.world.clock.now_ms
            reply(led.on_fetch(self.broker_id, epoch, offset, last_epoch, broker_epoch, now_ms))
            leader.after_fetch(led)

        self._call(replica.leader, serve, finish)
        self.later(REQUEST_TIMEOUT_MS, give_up)

    @property
    def fence_epoch(self) -> int:
        """Broker epoch of this incarnation."""
        return -1 if self.fence is None else self.fence.broker_epoch

    def after_fetch(self, replica: Replica) -> None:
        """Send the in-sync set that a fetch has made possible to the controller."""
        self.world.on_change(self.broker_id, replica)
        self._propose(replica)

    def _propose(self, replica: Replica) -> None:
        leadership = replica.leadership
        proposal = leadership.proposal_to_send if leadership is not None else None
        now_ms = self.world.clock.now_ms
        if proposal is None or self.controller_id is None:
            return
        if proposal == replica.proposed and now_ms - replica.proposed_at_ms < REQUEST_TIMEOUT_MS:
            return
        replica.proposed, replica.proposed_at_ms = proposal, now_ms
        request = self._alter_partition(replica, proposal)

        def finish(response: object) -> None:
            if self.replicas.get(replica.partition) is replica:
                self._on_altered(replica, proposal, response)

        def serve(controller: Process, reply: Reply) -> None:
            controller.put(e.AlterPartitionRequested(request, ALTER_PARTITION_VERSION), reply)

        self._call(self.controller_id, serve, finish)

    def _alter_partition(self, replica: Replica, proposal: Proposal) -> AlterPartitionRequest:
        members = [BrokerState(broker_id=one, broker_epoch=epoch) for one, epoch in proposal.isr]
        data = RequestPartitionData(
            partition_index=replica.partition.partition,
            leader_epoch=proposal.leader_epoch,
            new_isr_with_epochs=members,
            partition_epoch=proposal.partition_epoch,
        )
        assert replica.topic_id is not None
        topic = RequestTopicData(topic_id=replica.topic_id, partitions=[data])
        return AlterPartitionRequest(
            broker_id=self.broker_id, broker_epoch=self.fence_epoch, topics=[topic]
        )

    def _on_altered(self, replica: Replica, proposal: Proposal, response: object) -> None:
        leadership = replica.leadership
        if leadership is None or not isinstance(response, AlterPartitionResponse):
            return
        if response.error_code != ErrorCode.NONE:
            return
        data = response.topics[0].partitions[0]
        if data.error_code != ErrorCode.NONE:
            leadership.on_refused(proposal, ErrorCode(data.error_code), self.world.clock.now_ms)
        else:
            recorded = LeaderAndIsr(
                leader=BrokerId(data.leader_id),
                isr=tuple(BrokerId(one) for one in data.isr),
                controller_epoch=NO_EPOCH,
                leader_epoch=LeaderEpoch(data.leader_epoch),
                partition_epoch=data.partition_epoch,
            )
            leadership.on_recorded(proposal, recorded, self.world.clock.now_ms)
            replica.settle()
        self.world.on_change(self.broker_id, replica)

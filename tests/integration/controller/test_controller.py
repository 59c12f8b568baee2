"""Controllers with a real coordinator and fake brokers that record their requests."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from clusterstate.broker_registration import (
    Registered,
    Sessions,
    create_top_nodes,
    register,
    update,
)
from clusterstate.coordinator_edge import CoordinatorEdge
from clusterstate.errors import MalformedZnodeError
from clusterstate.plans import (
    UNREADABLE,
    UNREADABLE_VERSION,
    Delete,
    ListChildren,
    Read,
    Refusal,
    Write,
    read,
    write,
)
from clusterstate.replica_assignment import ReplicaAssignment
from clusterstate.znodes import paths
from clusterstate.znodes.controller_node import decode_controller_epoch
from clusterstate.znodes.partition_node import decode_partition_state
from clusterstate.znodes.registration import Endpoint, Registration
from clusterstate.znodes.topic import TopicAssignment, decode_topic
from controller import (
    controller,
    controller_election,
    partition_transitions,
    requested_elections,
)
from controller import events as e
from controller.channel import ControlResponse
from controller.controller import Controller
from controller.controller_config import ControllerConfig
from controller.effects import ControlRequest, Plan
from coordination.client import Client
from coordination.errors import ConnectionLossError, NoNodeError
from coordination.protocol.messages import OPEN_ACL, Acl
from coordination.protocol.multi import Op, Result
from coordination.server.state.acl import Permission
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kafkawire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kafkawire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from kafkawire.schema import decode, encode
from tests.integration.broker.test_unreadable_znodes import set_acl
from tests.integration.coordination.process import Coordinator, kill_all
from tests.waiting import until

DEADLINE_S = 60.0
SESSION_TIMEOUT_MS = 60_000
"""The sessions end when they are closed. All belong to the process of the tests, which may hang."""
T0 = TopicPartition("orders", 0)
UNREAD = -1
"""A count of missing writes for which no controller may ask."""
NO_READER = (Acl(30, "world", "anyone"),)
IDS = [BrokerId(number) for number in (1, 2, 3)]


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    started = Coordinator(tmp_path / "coordinator")
    yield started
    kill_all([started])


class FakeBroker:
    """Broker that records every decoded request and accepts it."""

    def __init__(self) -> None:
        self.received: list[ControlRequest] = []
        self.hangs_after: int | None = None
        self.is_unreachable = False
        self.dialled: list[Endpoint] = []

    def dial(self, registration: Registration) -> "FakeBroker":
        self.dialled += registration.endpoints
        return self

    async def request(self, message: ControlRequest) -> ControlResponse:
        if self.is_unreachable:
            raise ConnectionError
        match message:
            case LeaderAndIsrRequest():
                self.received.append(decode(LeaderAndIsrRequest, encode(message, 7), 7))
                if self.hangs_after is not None and len(self.received) > self.hangs_after:
                    await asyncio.Event().wait()
                return LeaderAndIsrResponse()
            case UpdateMetadataRequest():
                self.received.append(decode(UpdateMetadataRequest, encode(message, 8), 8))
                return UpdateMetadataResponse()
            case StopReplicaRequest():
                self.received.append(decode(StopReplicaRequest, encode(message, 4), 4))
                return StopReplicaResponse()

    async def close(self) -> None:
        return None


class Node:
    """Session, registration and controller component of one broker."""

    def __init__(
        self, broker_id: BrokerId, address: str, brokers: dict[BrokerId, FakeBroker]
    ) -> None:
        self.broker_id = broker_id
        self.missing_writes = list[int]()
        """Counts that the controller gets, in order; after these nothing is missing."""
        self.client = Client(address, session_timeout_ms=SESSION_TIMEOUT_MS)
        self.controller = Controller(
            ControllerConfig(broker_id=broker_id),
            self.client,
            dial=lambda registration: brokers[registration.broker_id].dial(registration),
            new_topic_id=uuid.uuid4,
            now_ms=lambda: 0,
        )

    async def start(self) -> None:
        await self.client.connect()
        edge = CoordinatorEdge(self.client, lambda _: None)
        await run(edge, create_top_nodes())
        registration = Registration(
            broker_id=self.broker_id, endpoints=(Endpoint("PLAINTEXT", "h", 1),)
        )
        sessions = Sessions(self.client.session_id)
        plan = register(self.broker_id, registration.encode(timestamp_ms=0), sessions)
        assert isinstance(await run(edge, plan), Registered)
        self.controller.start(self._count_missing_writes)

    def _count_missing_writes(self, partitions: Sequence[TopicPartition]) -> int:
        assert partitions
        return self.missing_writes.pop(0) if self.missing_writes else 0

    async def die(self) -> None:
        """End the session, and with it the registration and any controllership."""
        await self.client.close()


class CountingClient(Client):
    """Client that records the sizes of its multi-reads, and loses the first."""

    def __init__(self, address: str) -> None:
        super().__init__(address, session_timeout_ms=SESSION_TIMEOUT_MS)
        self.sizes: list[int] = []

    def multi_read(self, ops: Iterable[Op]) -> "asyncio.Future[list[Result]]":
        wanted = list(ops)
        self.sizes.append(len(wanted))
        if len(self.sizes) > 1:
            return super().multi_read(wanted)
        lost: asyncio.Future[list[Result]] = asyncio.get_running_loop().create_future()
        lost.set_exception(ConnectionLossError())
        return lost


async def run(edge: CoordinatorEdge, plan: Plan[object]) -> object:
    answer = None
    while True:
        try:
            effect = plan.send(answer)
        except StopIteration as stop:
            return stop.value
        assert isinstance(effect, Read | ListChildren | Write)
        answer = await edge.perform(effect)


async def turn() -> None:
    """Let other tasks run for a moment."""
    loop = asyncio.get_running_loop()
    moment = loop.create_future()
    loop.call_later(0.005, moment.set_result, None)
    await moment


@asynccontextmanager
async def cluster(address: str) -> AsyncIterator[tuple[list[Node], dict[BrokerId, FakeBroker]]]:
    brokers = {broker: FakeBroker() for broker in IDS}
    nodes = [Node(broker, address, brokers) for broker in IDS]
    for node in nodes:
        await node.start()
    try:
        yield nodes, brokers
    finally:
        for node in nodes:
            await node.controller.stop()
            await node.client.close()


async def create_topic(client: Client, partition_count: int) -> None:
    assigned = {
        number: ReplicaAssignment(replicas=tuple(IDS[number % 3 :] + IDS[: number % 3]))
        for number in range(partition_count)
    }
    await client.create(paths.topic("orders"), TopicAssignment(uuid.uuid4(), assigned).encode())


def active(nodes: list[Node]) -> list[Node]:
    return [node for node in nodes if node.controller.is_active]


def states_sent(
    brokers: dict[BrokerId, FakeBroker], broker: BrokerId
) -> Iterator[UpdateMetadataPartitionState]:
    """Yield the states of partitions that were sent to a broker, in order."""
    for message in brokers[broker].received:
        if isinstance(message, UpdateMetadataRequest):
            for topic in message.topic_states:
                yield from topic.partition_states


def led(brokers: dict[BrokerId, FakeBroker], broker: BrokerId) -> dict[int, int]:
    """Return the leader of each partition as last sent to a broker."""
    return {state.partition_index: state.leader for state in states_sent(brokers, broker)}


@asynccontextmanager
async def cluster_with_topic(
    address: str,
) -> AsyncIterator[tuple[Node, list[Node], dict[BrokerId, FakeBroker]]]:
    """Yield the controller, the other nodes and all brokers; each leads one partition of three."""
    async with cluster(address) as (nodes, brokers):
        await until(lambda: len(active(nodes)) == 1)
        await create_topic(nodes[0].client, partition_count=3)
        await until(lambda: all(len(led(brokers, broker)) == 3 for broker in IDS))
        [controlling] = active(nodes)
        yield controlling, [node for node in nodes if node is not controlling], brokers


async def fail_over(dead: Node, survivors: list[Node], *meanwhile: e.Event) -> Node:
    """End the controller; return the next one after its takeover, and after events meanwhile."""
    await dead.die()
    await until(lambda: len(active(survivors)) == 1)
    [heir] = active(survivors)
    for event in meanwhile:
        heir.controller.put(event)
    # The response comes after the failover, because events are processed one at a time.
    request = e.ReassignmentsListed(None)
    assert await asyncio.wait_for(heir.controller.put(request), DEADLINE_S) == {}
    return heir


async def test_one_controller_is_elected_and_elects_the_leaders_of_a_topic(
    coordinator: Coordinator,
) -> None:
    async with cluster(coordinator.address) as (nodes, brokers):
        await until(lambda: len(active(nodes)) == 1)
        await create_topic(nodes[0].client, partition_count=150)
        await until(lambda: all(len(led(brokers, broker)) == 150 for broker in IDS))
        state, stat = await nodes[0].client.get_data(paths.partition_state(T0))
        found = decode_partition_state(state, stat.version)
        assert (found.leader, found.isr, found.controller_epoch) == (1, (1, 2, 3), 1)
        [controller] = active(nodes)
        refused = next(node for node in nodes if node is not controller).controller
        request = e.ElectLeadersRequested(None)
        assert await refused.put(request) is ErrorCode.NOT_CONTROLLER
        answers = await controller.controller.put(request)
        assert isinstance(answers, dict)
        assert set(answers.values()) == {ErrorCode.ELECTION_NOT_NEEDED}


async def test_another_broker_replaces_a_dead_controller_and_its_leaderships(
    coordinator: Coordinator,
) -> None:
    async with cluster(coordinator.address) as (nodes, brokers):
        await until(lambda: len(active(nodes)) == 1)
        await create_topic(nodes[0].client, partition_count=30)
        await until(lambda: all(len(led(brokers, broker)) == 30 for broker in IDS))
        [dead] = active(nodes)
        survivors = [node for node in nodes if node is not dead]
        await dead.die()
        await until(lambda: len(active(survivors)) == 1)
        [heir] = active(survivors)
        await until(lambda: dead.broker_id not in led(brokers, heir.broker_id).values())
        data, _ = await heir.client.get_data(paths.CONTROLLER_EPOCH)
        assert decode_controller_epoch(data) == 2
        last = brokers[heir.broker_id].received[-1]
        assert last.controller_epoch == 2


@pytest.mark.parametrize(
    "missing",
    [
        # Producers write to one partition after the other.
        [3, 3, 2, 2, 2, 1, 0],
        # No producer returns within the exchanges that it needs.
        [3, 3, 3, 3, 3],
        [3, 2, 2, 2, 2, 2],
        [0],
    ],
)
async def test_a_failover_repairs_the_others_once_producers_are_back(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch, missing: list[int]
) -> None:
    monkeypatch.setattr(partition_transitions, "FIRST_ELECTIONS_TIMEOUT_MS", DEADLINE_S * 1000)
    async with cluster_with_topic(coordinator.address) as (dead, survivors, brokers):
        for node in survivors:
            node.missing_writes = [*missing, UNREAD]
        heir = await fail_over(dead, survivors)
        assert heir.missing_writes == [UNREAD]
        in_sync = {
            state.partition_index: state.isr for state in states_sent(brokers, heir.broker_id)
        }
        assert all(dead.broker_id not in isr for isr in in_sync.values())


async def test_producers_that_return_slowly_hold_up_a_failover_for_a_limited_time(
    coordinator: Coordinator,
) -> None:
    async with cluster_with_topic(coordinator.address) as (dead, survivors, _):
        for node in survivors:
            node.missing_writes = list(range(100_000, 1, -1))
        heir = await fail_over(dead, survivors)
        assert heir.missing_writes, "otherwise the test proves nothing"


async def test_a_failover_does_not_wait_for_producers_while_another_broker_is_dead(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_transitions, "FIRST_ELECTIONS_TIMEOUT_MS", DEADLINE_S * 1000)
    async with cluster_with_topic(coordinator.address) as (dead, survivors, _):
        for node in survivors:
            node.missing_writes = list(range(100_000, 1, -1))
        heir = await fail_over(dead, survivors, e.BrokerChange())
        assert heir.missing_writes, "otherwise the test proves nothing"


async def test_a_failover_does_not_wait_for_a_hanging_broker(coordinator: Coordinator) -> None:
    async with cluster_with_topic(coordinator.address) as (dead, survivors, brokers):
        for node in survivors:
            brokers[node.broker_id].hangs_after = len(brokers[node.broker_id].received)
        await fail_over(dead, survivors)


async def test_a_broker_that_moved_is_reached_at_its_new_address(
    coordinator: Coordinator,
) -> None:
    async with cluster(coordinator.address) as (nodes, brokers):
        await until(lambda: len(active(nodes)) == 1)
        await until(lambda: all(brokers[broker].received for broker in IDS))
        moved = brokers[IDS[1]]
        moved.is_unreachable = True
        endpoint = Endpoint("PLAINTEXT", "elsewhere", 2)
        registration = Registration(broker_id=IDS[1], endpoints=(endpoint,))
        edge = CoordinatorEdge(nodes[1].client, lambda _: None)
        _, stat = await nodes[1].client.get_data(paths.broker(IDS[1]))
        data = registration.encode(timestamp_ms=0)
        assert await run(edge, update(IDS[1], stat.czxid, data))
        await until(lambda: endpoint in moved.dialled)
        moved.is_unreachable = False
        await create_topic(nodes[0].client, partition_count=3)
        await until(lambda: all(len(led(brokers, broker)) == 3 for broker in IDS))


async def test_a_deleted_topic_leaves_no_znodes(coordinator: Coordinator) -> None:
    async with cluster(coordinator.address) as (nodes, brokers):
        await until(lambda: len(active(nodes)) == 1)
        await create_topic(nodes[0].client, partition_count=3)
        await until(lambda: all(len(led(brokers, broker)) == 3 for broker in IDS))
        client = nodes[0].client
        await client.create(paths.topic_deletion("orders"))
        deadline = time.monotonic() + DEADLINE_S
        while await client.exists(paths.topic_deletion("orders")) is not None:
            assert time.monotonic() < deadline
            await turn()
        with pytest.raises(NoNodeError):
            await client.get_data(paths.topic("orders"))
        stops = [one for one in brokers[IDS[0]].received if isinstance(one, StopReplicaRequest)]
        assert [
            [
                state.delete_partition
                for topic in one.topic_states
                for state in topic.partition_states
            ]
            for one in stops
        ] == [[False] * 3, [True] * 3]


async def test_an_expired_session_ends_the_controllership(coordinator: Coordinator) -> None:
    async with cluster(coordinator.address) as (nodes, _):
        await until(lambda: len(active(nodes)) == 1)
        [former] = active(nodes)
        waiting = former.controller.put(e.ElectLeadersRequested(None))
        await former.controller.expire()
        assert await waiting is ErrorCode.NOT_CONTROLLER
        assert (former.controller.is_active, former.controller.controller_id) == (False, None)
        # Its znode is still there: the controller recognises it as its own and deletes it.
        former.controller.put(e.Reelect())
        await until(lambda: len(active(nodes)) == 1)
        data, _stat = await former.client.get_data(paths.CONTROLLER_EPOCH)
        assert decode_controller_epoch(data) == 2


@pytest.mark.parametrize("is_refused_first", [False, True])
async def test_a_topic_created_without_permission_to_read_it_is_led_once_it_is_restored(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch, is_refused_first: bool
) -> None:
    """The creation uses up the watch and notifies nobody."""
    monkeypatch.setattr(controller, "REREAD_S", 0.05)
    async with cluster(coordinator.address) as (nodes, brokers):
        await until(lambda: len(active(nodes)) == 1)
        await until(lambda: all(brokers[broker].received for broker in IDS))
        [before] = active(nodes)
        with capture_logs() as lines:
            set_acl(coordinator, paths.TOPICS, NO_READER)
            if is_refused_first:
                await until(lambda: "watch.not_read" in [line["event"] for line in lines])
            await create_topic(nodes[0].client, partition_count=3)
            await turn()
            assert led(brokers, IDS[0]) == {}
            set_acl(coordinator, paths.TOPICS, OPEN_ACL)
            await until(lambda: all(len(led(brokers, broker)) == 3 for broker in IDS))
        assert active(nodes) == [before]
        assert "controller.failed" not in [line["event"] for line in lines]


async def test_a_controller_that_leaves_without_a_notification_is_replaced(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "REREAD_S", 0.05)
    async with cluster(coordinator.address) as (nodes, _):
        await until(lambda: len(active(nodes)) == 1)
        [former] = active(nodes)
        set_acl(coordinator, paths.CONTROLLER, NO_READER)
        await turn()
        assert active(nodes) == [former]
        await former.die()
        survivors = [node for node in nodes if node is not former]
        await until(lambda: len(active(survivors)) == 1)


async def test_a_failed_plan_ends_the_controllership_and_another_broker_is_elected(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Plan[None]:
        raise ZeroDivisionError

    # The failed controller does not run again, so another is elected, however slow it is.
    monkeypatch.setattr(controller, "FAILURE_PAUSE_S", 3600)
    async with cluster(coordinator.address) as (nodes, brokers):
        await until(lambda: len(active(nodes)) == 1)
        [failing] = active(nodes)
        with monkeypatch.context() as patch, capture_logs() as captured:
            patch.setattr(requested_elections, "on_request", fail)
            answer = await failing.controller.put(e.ElectLeadersRequested(None))
        assert answer is ErrorCode.NOT_CONTROLLER
        assert "controller.failed" in {each["event"] for each in captured}
        assert not failing.controller.is_active
        await until(lambda: len(active(nodes)) == 1)
        await create_topic(nodes[0].client, partition_count=3)
        await until(lambda: all(len(led(brokers, broker)) == 3 for broker in IDS))
        [heir] = active(nodes)
        assert heir is not failing
        data, _ = await heir.client.get_data(paths.CONTROLLER_EPOCH)
        assert decode_controller_epoch(data) == 2


async def test_a_failed_controller_that_cannot_resign_is_elected_again(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Plan[None]:
        raise ZeroDivisionError

    monkeypatch.setattr(controller, "FAILURE_PAUSE_S", 0)
    async with cluster(coordinator.address) as (nodes, _):
        await until(lambda: len(active(nodes)) == 1)
        [failing] = active(nodes)
        with monkeypatch.context() as patch:
            patch.setattr(controller_election, "abdicate", fail)
            patch.setattr(requested_elections, "on_request", fail)
            answer = await failing.controller.put(e.ElectLeadersRequested(None))
        assert answer is ErrorCode.NOT_CONTROLLER
        await until(lambda: len(active(nodes)) == 1)
        data, _ = await failing.client.get_data(paths.CONTROLLER_EPOCH)
        assert decode_controller_epoch(data) == 2


async def test_reads_without_watch_share_requests(coordinator: Coordinator) -> None:
    client = CountingClient(coordinator.address)
    await client.connect()
    wanted = [f"/n{number}" for number in range(250)]
    await asyncio.gather(*[client.create(path, path.encode()) for path in wanted[::2]])
    found = await run(CoordinatorEdge(client, lambda _: None), read(wanted))
    assert isinstance(found, tuple)
    assert [node and node.data for node in found] == [
        None if number % 2 else path.encode() for number, path in enumerate(wanted)
    ]
    # The lost one is retried in halves, because its response may have been too large.
    assert sorted(client.sizes) == [50, 50, 50, 100, 100]
    await client.close()


async def test_a_refused_multi_read_is_not_a_missing_znode(coordinator: Coordinator) -> None:
    client = Client(coordinator.address, session_timeout_ms=SESSION_TIMEOUT_MS)
    await client.connect()
    nobody = Acl(Permission.READ, "digest", "nobody:else")
    await client.create("/secret", b"x", acl=[nobody])
    edge = CoordinatorEdge(client, lambda _: None)
    for watch in (False, True):
        _, secret = await edge.run(read(["/", "/secret"], watch=watch))
        assert secret is not None
        assert (secret.data, secret.version) == (UNREADABLE, UNREADABLE_VERSION)
        with pytest.raises(MalformedZnodeError):
            decode_topic(secret.data)
        # Nothing overwrites it, although anybody may delete it.
        [outcome] = await edge.run(write([(Delete("/secret", secret.version),)]))
        assert outcome.refusal is Refusal.BAD_VERSION
    await client.close()

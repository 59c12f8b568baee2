"""Plans of the controller for each event, with a coordinator in memory."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from clusterstate.broker_registration import (
    Registered,
    Sessions,
    Taken,
    cluster_id,
    generate_broker_id,
    register,
    update,
)
from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.plans import Answer, Create, ListChildren, Nodes, Read, SetData, Write
from clusterstate.replica_assignment import ReplicaAssignment
from clusterstate.znodes import paths
from clusterstate.znodes.admin import decode_reassignment, encode_reassignment
from clusterstate.znodes.cluster_node import ProducerIdBlock
from clusterstate.znodes.config import encode_config
from clusterstate.znodes.controller_node import encode_controller, encode_controller_epoch
from clusterstate.znodes.notification import encode_log_dir_event, encode_partitions
from clusterstate.znodes.partition_node import decode_partition_state, encode_partition_state
from clusterstate.znodes.registration import Endpoint, Registration
from clusterstate.znodes.topic import TopicAssignment, decode_topic
from controller import controller_election
from controller import events as e
from controller.cluster import Cluster
from controller.controller_config import ControllerConfig
from controller.deletion import MAX_PARTITIONS_AT_ONCE
from controller.effects import AwaitWriters, Connect, Elected, Enqueue, Note, Send
from controller.errors import ControllerMovedError
from controller.fenced_writes import write_fenced
from controller.last_told import LastKnown, nothing_known
from controller.live_brokers import read_brokers
from controller.partition_state import PartitionState
from controller.partition_transitions import FIRST_ELECTIONS_TIMEOUT_MS, MAX_NAMED, Strategy, elect
from controller.plan import Planner
from controller.replica_state import PartitionReplica
from controller.replica_transitions import to_offline
from controller.request_batch import RequestBatch
from controller.topics import adopt_topics
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from kafkawire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from kafkawire.messages.controlled_shutdown import ControlledShutdownResponse
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
from kafkawire.messages.update_metadata import UpdateMetadataRequest
from kafkawire.sentinels import NO_LEADER
from kafkawire.update_type import UpdateType
from tests.plans.driver import ORDERS_ID, Driver, empty_cluster, join, put_topic

B1, B2, B3 = map(BrokerId, (1, 2, 3))
T0 = TopicPartition("orders", 0)
NEW_ID = TopicId(int=99)
STALE = ErrorCode.STALE_BROKER_EPOCH


class Harness:
    """Broker 1 as the controller of three brokers, with one topic."""

    def __init__(self, *replicas: tuple[int, ...], delete_topic_enable: bool = True) -> None:
        self.driver = empty_cluster(1)
        self.coordinator = self.driver.coordinator
        self.sessions = {broker: join(self.coordinator, broker) for broker in (B2, B3)}
        self.first_epochs: dict[BrokerId, int] = {}
        put_topic(self.coordinator, *(replicas or ((1, 2, 3),)))
        config = ControllerConfig(broker_id=B1, delete_topic_enable=delete_topic_enable)
        self.planner = Planner(config, lambda: NEW_ID)
        self.do(e.Reelect())
        self.driver.effects.clear()

    @property
    def cluster(self) -> Cluster:
        assert self.planner.cluster is not None
        return self.planner.cluster

    def do(self, event: e.Event) -> object:
        return self.driver.run(self.planner.plan(event, 0))

    def move(
        self, targets: Mapping[TopicPartition, Sequence[BrokerId] | None]
    ) -> dict[TopicPartition, ErrorCode]:
        """Request reassignments, and return the error codes."""
        answers = self.do(e.ReassignmentRequested(targets))
        assert isinstance(answers, dict)
        return {partition: answer.code for partition, answer in answers.items()}

    def state(self, partition: TopicPartition = T0) -> LeaderAndIsr:
        node = self.coordinator.nodes[paths.partition_state(partition)]
        return decode_partition_state(node.data, node.version)

    def end(self, broker: BrokerId) -> None:
        self.coordinator.end_session(self.sessions[broker].session)

    def succeed(self, last_known: LastKnown = nothing_known) -> Driver:
        """Let broker 1 die and broker 2 become controller; return the driver of broker 2."""
        for path in (paths.broker(B1), paths.CONTROLLER):
            self.coordinator.remove(path)
        driver = Driver(self.coordinator)
        planner = Planner(ControllerConfig(broker_id=B2), lambda: NEW_ID, last_known)
        driver.run(planner.plan(e.Reelect(), 0))
        return driver

    def sent(self, kind: type) -> list[tuple[BrokerId, object]]:
        return [
            (one.broker_id, one.message)
            for sent in self.driver.take(Send)
            for one in sent.requests
            if isinstance(one.message, kind)
        ]

    def epoch(self, broker: BrokerId) -> int:
        return self.coordinator.nodes[paths.broker(broker)].czxid

    def propose(self, isr: list[int], version: int = 3, **fields: int) -> ErrorCode:
        """Propose an in-sync set as broker 1, and return the partition's error code."""
        known = {
            "partition_index": 0,
            "leader_epoch": self.state().leader_epoch,
            "partition_epoch": self.state().partition_epoch,
            "leader_recovery_state": 0,
        }
        data = RequestPartitionData(
            **{**known, **fields},
            new_isr=isr,
            new_isr_with_epochs=[BrokerState(broker_id=one) for one in isr],
        )
        topic = RequestTopicData(topic_name="orders", topic_id=ORDERS_ID, partitions=[data])
        request = AlterPartitionRequest(broker_id=1, broker_epoch=self.epoch(B1), topics=[topic])
        response = self.do(e.AlterPartitionRequested(request, version))
        assert isinstance(response, AlterPartitionResponse)
        return ErrorCode(response.topics[0].partitions[0].error_code)


def test_a_broker_that_is_not_controller_refuses_events() -> None:
    planner = Planner(ControllerConfig(broker_id=B1), lambda: NEW_ID)
    driver = empty_cluster(1)
    driver.coordinator.put(paths.CONTROLLER, encode_controller(B2, 0))
    for event in (e.ElectLeadersRequested(None), e.BrokerChange(), e.ProducerIdsRequested(B1, 1)):
        assert driver.run(planner.plan(event, 0)) is ErrorCode.NOT_CONTROLLER
    driver.run(planner.plan(e.Reelect(), 0))
    assert (planner.controller_id, planner.is_active) == (B2, False)


def test_the_first_controller_of_a_cluster_writes_epoch_1() -> None:
    driver = empty_cluster(1)
    driver.coordinator.remove(paths.CONTROLLER_EPOCH)
    planner = Planner(ControllerConfig(broker_id=B1), lambda: NEW_ID)
    driver.run(planner.plan(e.Reelect(), 0))
    assert driver.coordinator.nodes[paths.CONTROLLER_EPOCH].data == b"1"


def test_a_deposed_controller_resigns_on_its_first_rejected_write() -> None:
    harness = Harness()
    harness.coordinator.put(paths.CONTROLLER_EPOCH, encode_controller_epoch(9))
    assert harness.do(e.ElectLeadersRequested([T0])) == {T0: ErrorCode.ELECTION_NOT_NEEDED}
    harness.end(B2)
    assert harness.do(e.BrokerChange()) is ErrorCode.NOT_CONTROLLER
    assert not harness.planner.is_active
    assert [one.event for one in harness.driver.take(Enqueue)] == [e.Reelect()]


def test_a_controller_that_gives_up_deletes_its_znode() -> None:
    harness = Harness()
    harness.driver.run(harness.planner.give_up())
    assert paths.CONTROLLER not in harness.coordinator.nodes
    assert not harness.planner.is_active


def test_a_controller_resigns_when_another_is_elected() -> None:
    harness = Harness()
    harness.coordinator.put(paths.CONTROLLER, encode_controller(B2, 0))
    harness.do(e.ControllerChange())
    assert (harness.planner.is_active, harness.planner.controller_id) == (False, B2)
    assert [one.event for one in harness.driver.take(Note)] == ["controller.resigned"]


def test_a_leftover_controller_znode_of_this_broker_is_deleted() -> None:
    harness = Harness()
    harness.do(e.Expire())
    harness.do(e.Reelect())
    assert harness.cluster.epoch == 3


def test_a_dead_leader_is_replaced_in_one_write() -> None:
    harness = Harness((2, 3, 1), (1, 2, 3))
    harness.end(B2)
    harness.do(e.BrokerChange())
    assert (harness.state().leader, harness.state().isr, harness.state().leader_epoch) == (
        3,
        (3, 1),
        1,
    )
    second = harness.state(TopicPartition("orders", 1))
    assert (second.leader, second.isr) == (1, (1, 3))
    sent = [_leader_and_isr_requests(one) for one in harness.driver.take(Send)]
    some, other = (UpdateType.INCREMENTAL, 1), (UpdateType.UNKNOWN, 1)
    assert sent == [[some, some], [other, other]], "partitions without a leader come first"


def _leader_and_isr_requests(sent: Send) -> list[tuple[int, int]]:
    """Return the type and the partition count of each LeaderAndIsr request."""
    return [
        (message.type, sum(len(topic.partition_states) for topic in message.topic_states))
        for _, _, message in sent.requests
        if isinstance(message, LeaderAndIsrRequest)
    ]


def test_a_failover_elects_missing_leaders_first() -> None:
    harness = Harness((1, 2, 3), (2, 3, 1), (2, 1, 3))
    driver = harness.succeed()
    steps = [
        _leader_and_isr_requests(one) if isinstance(one, Send) else one
        for one in driver.effects
        if isinstance(one, Send | AwaitWriters)
    ]
    some, all_three = (UpdateType.INCREMENTAL, 1), (UpdateType.UNKNOWN, 3)
    wait = AwaitWriters([T0], FIRST_ELECTIONS_TIMEOUT_MS)
    assert steps == [[], [some, some], wait, [all_three, all_three]]
    assert (harness.state().leader, harness.state().isr) == (2, (2, 3))
    assert harness.state(TopicPartition("orders", 1)).isr == (2, 3)


def test_a_failover_marks_the_update_with_all_partitions() -> None:
    harness = Harness((1, 2, 3), (2, 3, 1), (2, 1, 3))
    sent = [
        (message.type, sum(len(topic.partition_states) for topic in message.topic_states))
        for send in harness.succeed().take(Send)
        for broker, _, message in send.requests
        if broker == B3 and isinstance(message, UpdateMetadataRequest)
    ]
    some = UpdateType.INCREMENTAL
    assert sent == [(some, 0), (some, 1), (UpdateType.FULL, 3)]


class Memory:
    """Last known states of broker 2, by partition; they become stale when the state changes."""

    def __init__(self, *states: LeaderAndIsr) -> None:
        self.states = dict(enumerate(states))
        self.topic_id = ORDERS_ID

    def __call__(self, topic: str, topic_id: TopicId) -> dict[int, LeaderAndIsr]:
        return self.states if (topic, topic_id) == ("orders", self.topic_id) else {}


def _uses(driver: Driver, partition: TopicPartition) -> list[type]:
    """Return the kinds of effects on the znode of a partition's state, in order."""
    path = paths.partition_state(partition)
    return [
        type(one)
        for one in driver.requests
        if (isinstance(one, Read) and path in one.paths)
        or (
            isinstance(one, Write)
            and any(op.path == path for ops in one.transactions for op in ops)
        )
    ]


def test_a_failover_elects_from_last_known_states_before_it_reads_them() -> None:
    harness, other = Harness((1, 2, 3), (2, 3, 1)), TopicPartition("orders", 1)
    driver = harness.succeed(Memory(harness.state(), harness.state(other)))
    assert _uses(driver, T0) == [Write, Read]
    assert _uses(driver, other) == [Read, Write], "its leader is alive"
    assert (harness.state().leader, harness.state().isr) == (2, (2, 3))
    assert harness.state(other).isr == (2, 3)
    kinds = [type(one) for one in driver.effects if isinstance(one, Send | AwaitWriters)]
    assert kinds == [Send, Send, AwaitWriters, Send]


def test_an_outdated_last_known_state_is_read_again_before_the_election() -> None:
    harness = Harness()
    stale = harness.state()
    assert harness.propose([1, 3]) is ErrorCode.NONE
    driver = harness.succeed(Memory(stale))
    # Refused, read, and elected; the last read is the one of all states.
    assert _uses(driver, T0) == [Write, Read, Write, Read]
    assert (harness.state().leader, harness.state().isr) == (3, (3,))


@pytest.mark.parametrize("flaw", ["another topic id", "one in-sync replica", "no leader"])
def test_a_failover_reads_states_that_are_unusable_from_memory(flaw: str) -> None:
    harness = Harness()
    memory = Memory(harness.state())
    match flaw:
        case "another topic id":
            memory.topic_id = NEW_ID
        case "one in-sync replica":
            # It may be recovering from an unclean election, which the metadata does not show.
            memory.states[0] = harness.state()._replace(isr=(B1,))
        case _:
            memory.states[0] = harness.state()._replace(leader=NO_LEADER)
    assert _uses(harness.succeed(memory), T0) == [Read, Write]
    assert harness.state().leader == B2


def test_a_failover_elects_no_leader_for_a_topic_under_deletion() -> None:
    harness = Harness()
    memory = Memory(harness.state())
    harness.coordinator.put(f"{paths.DELETE_TOPICS}/orders", b"")
    assert _uses(harness.succeed(memory), T0) == [Read]


def test_a_failover_without_dead_leaders_waits_for_no_writer() -> None:
    harness = Harness((2, 3), (3, 2))
    assert harness.succeed().take(AwaitWriters) == []


def test_the_death_of_a_broker_that_led_nothing_waits_for_no_writer() -> None:
    harness = Harness()
    harness.end(B3)
    harness.do(e.BrokerChange())
    assert harness.state().isr == (1, 2)
    assert harness.driver.take(AwaitWriters) == []


def test_a_write_after_another_election_raises_controller_moved() -> None:
    harness = Harness()
    harness.coordinator.put(paths.CONTROLLER_EPOCH, encode_controller_epoch(5))
    with pytest.raises(ControllerMovedError):
        harness.driver.run(write_fenced(harness.cluster, [(), ()]))


def test_valid_in_sync_sets_are_recorded() -> None:
    harness = Harness()
    before = harness.state().partition_epoch
    assert harness.propose([1, 2]) is ErrorCode.NONE
    assert (harness.state().isr, harness.state().partition_epoch) == ((1, 2), before + 1)
    assert harness.propose([1, 2], partition_epoch=before) is ErrorCode.NONE, "a lost response"
    assert harness.state().partition_epoch == before + 1
    assert harness.propose([1, 2, 3], version=1) is ErrorCode.NONE


def test_invalid_in_sync_sets_are_refused() -> None:
    harness = Harness()
    assert harness.propose([1], partition_epoch=99) is ErrorCode.NOT_CONTROLLER
    assert harness.propose([1], leader_epoch=-1) is ErrorCode.FENCED_LEADER_EPOCH
    assert harness.propose([2]) is ErrorCode.INVALID_REQUEST
    assert harness.propose([1, 2], leader_recovery_state=1) is ErrorCode.INVALID_REQUEST
    assert harness.propose([1, 2, 9]) is ErrorCode.INELIGIBLE_REPLICA
    assert harness.propose([1, 2, 9], version=1) is ErrorCode.OPERATION_NOT_ATTEMPTED
    assert harness.propose([1, 2]) is ErrorCode.NONE
    assert harness.propose([1], partition_epoch=0) is ErrorCode.INVALID_UPDATE_VERSION
    assert harness.propose([1], partition_index=7) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_in_sync_sets_from_a_stale_broker_or_of_an_unknown_topic_are_refused() -> None:
    harness = Harness()
    stale = AlterPartitionRequest(broker_id=1, broker_epoch=harness.epoch(B1) - 1)
    response = harness.do(e.AlterPartitionRequested(stale, 3))
    assert isinstance(response, AlterPartitionResponse)
    assert response.error_code == ErrorCode.STALE_BROKER_EPOCH
    unknown = RequestTopicData(topic_id=NEW_ID, partitions=[RequestPartitionData()])
    request = AlterPartitionRequest(broker_id=1, broker_epoch=harness.epoch(B1), topics=[unknown])
    response = harness.do(e.AlterPartitionRequested(request, 3))
    assert isinstance(response, AlterPartitionResponse)
    code = response.topics[0].partitions[0].error_code
    assert code == ErrorCode.UNKNOWN_TOPIC_ID


def test_in_sync_sets_written_by_leaders_are_adopted() -> None:
    harness = Harness()
    path = paths.partition_state(T0)
    shrunk = LeaderAndIsr(leader=B1, isr=(B1, B2), controller_epoch=1)
    harness.coordinator.put(path, encode_partition_state(shrunk, 1))
    harness.coordinator.put(f"{paths.ISR_CHANGE_PREFIX}1", encode_partitions([T0]))
    harness.coordinator.put(f"{paths.ISR_CHANGE_PREFIX}2", b"nonsense")
    harness.do(e.IsrChange())
    assert harness.cluster.leaderships[T0].isr == (1, 2)
    assert harness.coordinator.children(paths.ISR_CHANGES) == []
    assert len(harness.sent(UpdateMetadataRequest)) == 3


def test_a_controlled_shutdown_moves_leaderships_away() -> None:
    harness = Harness((2, 3, 1), (1, 2, 3), (2,))
    response = harness.do(e.ControlledShutdownRequested(B2, harness.epoch(B2)))
    assert isinstance(response, ControlledShutdownResponse)
    assert list(response.remaining_partitions) == []
    assert (harness.state().leader, harness.state().isr) == (3, (3, 1))
    assert harness.state(TopicPartition("orders", 1)).isr == (1, 3)
    alone = harness.state(TopicPartition("orders", 2))
    assert alone.leader == 2, "no other broker has a replica"
    assert harness.sent(StopReplicaRequest) != []


def test_a_controlled_shutdown_returns_partitions_without_another_replica() -> None:
    harness = Harness((2, 3))
    harness.end(B3)
    harness.do(e.BrokerChange())
    response = harness.do(e.ControlledShutdownRequested(B2, harness.epoch(B2)))
    assert isinstance(response, ControlledShutdownResponse)
    assert [one.topic_name for one in response.remaining_partitions] == ["orders"]


@pytest.mark.parametrize("allows_unclean", [False, True])
def test_a_leader_in_controlled_shutdown_serves_until_it_has_left(allows_unclean: bool) -> None:
    harness = Harness((2, 3, 1))
    config = encode_config({"unclean.leader.election.enable": str(allows_unclean).lower()})
    harness.coordinator.put(paths.config("topics/orders"), config)
    alone = harness.state()._replace(isr=(B2,))
    harness.coordinator.put(paths.partition_state(T0), encode_partition_state(alone, 1))
    harness.coordinator.put(f"{paths.ISR_CHANGE_PREFIX}1", encode_partitions([T0]))
    harness.do(e.IsrChange())
    harness.do(e.ControlledShutdownRequested(B2, harness.epoch(B2)))
    harness.end(B3)
    harness.do(e.BrokerChange())
    assert (harness.state().leader, harness.state().isr) == (2, (2,))
    assert harness.cluster.unclean_election_count == 0
    harness.end(B2)
    harness.do(e.BrokerChange())
    assert (harness.state().leader == B1) is allows_unclean
    assert harness.cluster.unclean_election_count == int(allows_unclean)


@pytest.mark.parametrize(
    ("broker", "epoch", "code"),
    [(9, 1, ErrorCode.BROKER_NOT_AVAILABLE), (2, 0, STALE), (2, -1, STALE)],
)
def test_a_controlled_shutdown_of_a_stale_or_unknown_broker_is_refused(
    broker: int, epoch: int, code: ErrorCode
) -> None:
    response = Harness().do(e.ControlledShutdownRequested(BrokerId(broker), epoch))
    assert isinstance(response, ControlledShutdownResponse)
    assert response.error_code == code


def test_blocks_of_producer_ids_do_not_overlap() -> None:
    harness = Harness()
    first, second = (harness.do(e.ProducerIdsRequested(B2, harness.epoch(B2))) for _ in range(2))
    assert isinstance(first, ProducerIdBlock)
    assert isinstance(second, ProducerIdBlock)
    assert (first.first, first.last, second.first) == (0, 999, 1000)
    assert harness.do(e.ProducerIdsRequested(B2, 0)) is ErrorCode.STALE_BROKER_EPOCH
    unknown = e.ProducerIdsRequested(BrokerId(9), 0)
    assert harness.do(unknown) is ErrorCode.BROKER_ID_NOT_REGISTERED
    harness.coordinator.put(paths.PRODUCER_ID_BLOCK, b"nonsense")
    request = e.ProducerIdsRequested(B2, harness.epoch(B2))
    assert harness.do(request) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_invalid_reassignments_are_refused() -> None:
    harness = Harness((1, 2))
    targets: dict[TopicPartition, tuple[BrokerId, ...] | None] = {
        T0: (B1, BrokerId(9)),
        TopicPartition("orders", 5): (B1,),
        TopicPartition("gone", 0): None,
    }
    assert harness.move(targets) == {
        T0: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        TopicPartition("orders", 5): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        TopicPartition("gone", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    for target in ((), (B1, B1), (BrokerId(-1),)):
        code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert harness.move({T0: target}) == {T0: code}
    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert harness.move({T0: None}) == {T0: code}


def assignment(harness: Harness) -> ReplicaAssignment:
    return decode_topic(harness.coordinator.nodes[paths.topic("orders")].data).partitions[0]


def started_replicas(harness: Harness) -> list[tuple[BrokerId, bool]]:
    """Return the brokers that got a LeaderAndIsr, each with whether the replica is new."""
    return [
        (broker, state.is_new)
        for broker, message in harness.sent(LeaderAndIsrRequest)
        if isinstance(message, LeaderAndIsrRequest)
        for topic in message.topic_states
        for state in topic.partition_states
    ]


def test_a_reassignment_completes_once_its_target_is_in_sync() -> None:
    harness = Harness((1, 2))
    assert harness.move({T0: (B3, B1)}) == {T0: ErrorCode.NONE}
    moving = ReplicaAssignment(replicas=(B3, B1, B2), adding=(B3,), removing=(B2,))
    assert assignment(harness) == moving
    assert harness.do(e.ReassignmentsListed()) == {T0: moving}
    assert harness.do(e.ReassignmentsListed([])) == {}
    assert started_replicas(harness) == [(1, False), (2, False), (3, True)]
    assert harness.propose([1, 2, 3]) is ErrorCode.NONE
    assert assignment(harness) == ReplicaAssignment(replicas=(B3, B1))
    assert (harness.state().leader, set(harness.state().isr)) == (1, {1, 3})
    assert harness.do(e.ReassignmentsListed()) == {}


def test_a_reassignment_can_be_cancelled() -> None:
    harness = Harness((1, 2))
    harness.do(e.ReassignmentRequested({T0: (B3, B1)}))
    assert harness.move({T0: None}) == {T0: ErrorCode.NONE}
    assert assignment(harness) == ReplicaAssignment(replicas=(B1, B2))
    deleted = [broker for broker, _ in harness.sent(StopReplicaRequest)]
    assert set(deleted) == {B3}


def test_a_refused_reassignment_names_the_missing_brokers() -> None:
    harness = Harness((1, 2))
    answers = harness.do(e.ReassignmentRequested({T0: (B1, BrokerId(9), BrokerId(8))}))
    assert isinstance(answers, dict)
    assert answers[T0].text == "brokers that are not alive: 8, 9"


def both_are_in_sync(harness: Harness) -> None:
    state = harness.state()._replace(isr=(B2, B3))
    harness.coordinator.put(paths.partition_state(T0), encode_partition_state(state, 1))
    harness.coordinator.put(f"{paths.ISR_CHANGE_PREFIX}1", encode_partitions([T0]))
    harness.do(e.IsrChange())


def only_the_target_is_in_sync(*, allows_unclean: bool) -> Harness:
    """Reassign a partition from broker 2 to 3 and 1; only 3 gets in sync, and 2 dies."""
    harness = Harness((2,))
    if allows_unclean:
        config = encode_config({"unclean.leader.election.enable": "true"})
        harness.coordinator.put(paths.config("topics/orders"), config)
    harness.move({T0: (B3, B1)})
    both_are_in_sync(harness)
    harness.end(B2)
    harness.do(e.BrokerChange())
    assert (harness.state().leader, harness.state().isr) == (3, (3,))
    harness.driver.effects.clear()
    return harness


@pytest.mark.parametrize("is_failover", [False, True])
def test_a_resumed_reassignment_starts_no_in_sync_replica_as_new(is_failover: bool) -> None:
    harness = only_the_target_is_in_sync(allows_unclean=False)
    if is_failover:
        harness.driver.run(harness.planner.give_up())
        harness.do(e.Reelect())
    else:
        harness.end(B3)
        harness.do(e.BrokerChange())
        harness.sessions[B3] = join(harness.coordinator, B3)
        harness.do(e.BrokerChange())
    assert (harness.state().leader, harness.state().isr) == (3, (3,))
    started = started_replicas(harness)
    assert (B1, True) in started
    assert (B3, False) in started
    assert (B3, True) not in started, "its log may be in a directory that has failed"


@pytest.mark.parametrize("target", [None, (B1,)])
def test_a_reassignment_is_kept_while_only_its_adding_replicas_are_in_sync(
    target: tuple[BrokerId, ...] | None,
) -> None:
    harness = only_the_target_is_in_sync(allows_unclean=False)
    before = assignment(harness)
    assert harness.move({T0: target}) == {T0: ErrorCode.INVALID_REPLICA_ASSIGNMENT}
    assert (harness.state().leader, harness.state().isr) == (3, (3,))
    assert assignment(harness) == before
    assert harness.sent(StopReplicaRequest) == []


def test_an_unclean_cancellation_needs_another_online_replica() -> None:
    harness = only_the_target_is_in_sync(allows_unclean=True)
    assert harness.move({T0: None}) == {T0: ErrorCode.INVALID_REPLICA_ASSIGNMENT}, "2 is dead"
    join(harness.coordinator, B2)
    harness.do(e.BrokerChange())
    assert harness.move({T0: None}) == {T0: ErrorCode.NONE}
    assert (harness.state().leader, harness.state().isr) == (2, (2,))
    assert assignment(harness) == ReplicaAssignment(replicas=(B2,))
    assert {broker for broker, _ in harness.sent(StopReplicaRequest)} == {1, 3}


def test_a_replica_that_becomes_the_only_in_sync_one_is_not_deleted() -> None:
    harness = Harness((2,))
    harness.move({T0: (B3, B1)})
    both_are_in_sync(harness)
    shrunk = encode_partition_state(harness.state()._replace(isr=(B3,)), 1)

    def others_leave() -> None:
        if paths.partition_state(T0) in str(harness.driver.requests[-1]):
            harness.driver.before_write = lambda: None
            harness.coordinator.put(paths.partition_state(T0), shrunk)

    harness.driver.before_write = others_leave
    assert harness.move({T0: None}) == {T0: ErrorCode.UNKNOWN_SERVER_ERROR}
    deletes = [
        state.delete_partition
        for _, message in harness.sent(StopReplicaRequest)
        if isinstance(message, StopReplicaRequest)
        for topic in message.topic_states
        for state in topic.partition_states
    ]
    assert not any(deletes)


def led_by_an_adding_replica() -> Harness:
    """Reassign a partition from brokers 1 and 2 to 3 and 4; 3 gets in sync, and leads."""
    harness = Harness((1, 2))
    for broker in (BrokerId(4), BrokerId(5)):
        join(harness.coordinator, broker)
    harness.do(e.BrokerChange())
    assert harness.move({T0: (B3, BrokerId(4))}) == {T0: ErrorCode.NONE}
    is_in_sync(harness, 1)
    assert harness.do(e.ElectLeadersRequested([T0])) == {T0: ErrorCode.NONE}
    assert (harness.state().leader, harness.state().isr) == (3, (1, 2, 3))
    harness.driver.effects.clear()
    return harness


def test_a_new_target_without_the_leader_elects_another_in_sync_replica() -> None:
    harness = led_by_an_adding_replica()
    assert harness.move({T0: (BrokerId(4), BrokerId(5))}) == {T0: ErrorCode.NONE}
    assert (harness.state().leader, set(harness.state().isr)) == (1, {1, 2})
    assert harness.cluster.partition_state(T0) is PartitionState.ONLINE
    assert deleted_replicas(harness) == [B3]


def test_a_partition_whose_leader_is_stopped_is_offline_until_another_is_elected() -> None:
    harness = led_by_an_adding_replica()
    batch = RequestBatch(harness.cluster)
    lost = [PartitionReplica(T0, B3)]
    harness.driver.run(to_offline(harness.cluster, batch, lost))
    assert (harness.state().leader, set(harness.state().isr)) == (NO_LEADER, {1, 2})
    assert harness.cluster.partition_state(T0) is PartitionState.OFFLINE
    harness.end(B2)
    harness.do(e.BrokerChange())
    assert harness.state().leader == B1, "the next event elects a leader"


def test_a_reassignment_requested_by_a_tool_is_performed() -> None:
    harness = Harness((1, 2), (2, 1))
    targets = {T0: (B2, B1), TopicPartition("gone", 0): (B1,)}
    harness.coordinator.put(paths.REASSIGN_PARTITIONS, encode_reassignment(targets))
    harness.do(e.ReassignmentNode())
    assert assignment(harness).replicas == (2, 1)
    assert paths.REASSIGN_PARTITIONS not in harness.coordinator.nodes
    harness.coordinator.put(paths.REASSIGN_PARTITIONS, b"nonsense")
    harness.do(e.ReassignmentNode())
    assert paths.REASSIGN_PARTITIONS not in harness.coordinator.nodes


def test_requested_elections_return_a_code_per_partition() -> None:
    harness = Harness((2, 1, 3))
    harness.do(e.ControlledShutdownRequested(B2, harness.epoch(B2)))
    assert harness.do(e.ElectLeadersRequested(None)) == {
        T0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    }
    unclean = e.ElectLeadersRequested([T0, TopicPartition("gone", 0)], is_unclean=True)
    assert harness.do(unclean) == {
        T0: ErrorCode.ELECTION_NOT_NEEDED,
        TopicPartition("gone", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_an_operator_can_request_an_unclean_election() -> None:
    harness = Harness((2, 1))
    assert harness.do(e.ControlledShutdownRequested(B2, harness.epoch(B2))) is not None
    harness = Harness((2, 3))
    path = paths.partition_state(T0)
    alone = LeaderAndIsr(leader=B2, isr=(B2,), controller_epoch=1)
    harness.coordinator.put(path, encode_partition_state(alone, 1))
    harness.end(B2)
    harness.do(e.BrokerChange())
    assert harness.state().leader == -1
    assert harness.do(e.ElectLeadersRequested([T0], is_unclean=True)) == {T0: ErrorCode.NONE}
    assert (harness.state().leader, harness.state().recovery_state) == (3, 1)


def test_a_rebalance_restores_preferred_leaders() -> None:
    harness = Harness((2, 1), (2, 1))
    harness.end(B2)
    harness.do(e.BrokerChange())
    assert harness.state().leader == 1
    harness.sessions[B2] = join(harness.coordinator, B2)
    harness.do(e.BrokerChange())
    assert harness.propose([1, 2]) is ErrorCode.NONE
    harness.driver.effects.clear()
    harness.do(e.RebalanceDue())
    assert (harness.state().leader, harness.state(TopicPartition("orders", 1)).leader) == (2, 1)
    assert [one.delay_ms for one in harness.driver.take(Enqueue)] == [300_000]


def test_a_rebalance_leaves_partitions_under_reassignment_to_their_leaders() -> None:
    harness = Harness((1, 2))
    join(harness.coordinator, BrokerId(4))
    harness.do(e.BrokerChange())
    assert harness.move({T0: (B3, BrokerId(4))}) == {T0: ErrorCode.NONE}
    is_in_sync(harness, 1)
    harness.do(e.RebalanceDue())
    assert (harness.state().leader, harness.cluster.moving) == (1, {T0})


def test_the_request_of_a_tool_for_preferred_elections_is_deleted() -> None:
    harness = Harness((2, 1))
    for data in (encode_partitions([T0]), b"nonsense"):
        harness.coordinator.put(paths.PREFERRED_ELECTION, data)
        harness.do(e.PreferredElectionNode())
        assert paths.PREFERRED_ELECTION not in harness.coordinator.nodes


def test_a_failed_disk_moves_its_leaderships() -> None:
    harness = Harness((2, 3, 1))
    event = encode_log_dir_event(B2)
    harness.coordinator.put(f"{paths.LOG_DIR_EVENT_PREFIX}1", event)
    harness.do(e.LogDirEvent())
    assert [broker for broker, _ in harness.sent(LeaderAndIsrRequest)] == [B2]
    errors = [LeaderAndIsrPartitionError(error_code=ErrorCode.KAFKA_STORAGE_ERROR)]
    lost = LeaderAndIsrResponse(
        topics=[LeaderAndIsrTopicError(topic_id=ORDERS_ID, partition_errors=errors)]
    )
    harness.do(e.LeaderAndIsrResponseReceived(B2, harness.epoch(B2) - 1, lost))
    assert harness.state().leader == 2, "the response of an earlier incarnation is dropped"
    harness.do(e.LeaderAndIsrResponseReceived(B2, harness.epoch(B2), lost))
    assert (harness.state().leader, harness.state().isr) == (3, (3, 1))


@pytest.mark.parametrize(
    ("code", "name"),
    [(ErrorCode.STALE_CONTROLLER_EPOCH, "STALE_CONTROLLER_EPOCH"), (9999, "error 9999")],
)
def test_a_refusal_is_logged_even_with_the_code_of_another_release(code: int, name: str) -> None:
    harness = Harness()
    refused = LeaderAndIsrResponse(error_code=code)
    harness.do(e.LeaderAndIsrResponseReceived(B2, harness.epoch(B2), refused))
    logged = [(one.event, one.fields["error"]) for one in harness.driver.take(Note)]
    assert logged == [("request.refused", name)]


def test_a_replica_whose_disk_works_again_comes_online() -> None:
    harness = Harness((2,))
    state = LeaderAndIsrPartitionError(error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    topic = LeaderAndIsrTopicError(topic_id=ORDERS_ID, partition_errors=[state])
    lost = LeaderAndIsrResponse(topics=[topic])
    harness.do(e.LeaderAndIsrResponseReceived(B2, harness.epoch(B2), lost))
    assert harness.state().leader == NO_LEADER
    harness.driver.effects.clear()
    state.error_code = ErrorCode.NONE
    harness.do(e.LeaderAndIsrResponseReceived(B2, harness.epoch(B2), lost))
    assert harness.state().leader == 2
    assert [broker for broker, _ in harness.sent(LeaderAndIsrRequest)] == [B2]


def test_a_deletion_resumes_when_the_failed_disk_works_again() -> None:
    harness = Harness((1, 2))
    state = LeaderAndIsrPartitionError(error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    topic = LeaderAndIsrTopicError(topic_id=ORDERS_ID, partition_errors=[state])
    answer = LeaderAndIsrResponse(topics=[topic])
    harness.do(e.LeaderAndIsrResponseReceived(B2, harness.epoch(B2), answer))
    delete(harness)
    assert harness.cluster.deletions.halted == {"orders"}
    harness.do(e.StopReplicaResponseReceived(B1, harness.epoch(B1), StopReplicaResponse(), [T0]))
    harness.driver.effects.clear()
    state.error_code = ErrorCode.NONE
    harness.do(e.LeaderAndIsrResponseReceived(B2, harness.epoch(B2), answer))
    assert B2 in {broker for broker, _ in harness.sent(StopReplicaRequest)}


def test_a_deletion_waits_for_a_reassignment_even_if_a_disk_works_again() -> None:
    harness = Harness((1, 2))
    harness.do(e.ReassignmentRequested({T0: (B3, B1)}))
    state = LeaderAndIsrPartitionError(error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    topic = LeaderAndIsrTopicError(topic_id=ORDERS_ID, partition_errors=[state])
    answer = LeaderAndIsrResponse(topics=[topic])
    harness.do(e.LeaderAndIsrResponseReceived(B2, harness.epoch(B2), answer))
    delete(harness)
    state.error_code = ErrorCode.NONE
    harness.do(e.LeaderAndIsrResponseReceived(B2, harness.epoch(B2), answer))
    assert harness.cluster.deletions.halted == {"orders"}
    assert harness.cluster.partition_state(T0) is PartitionState.ONLINE


def notes(harness: Harness) -> list[tuple[str, object]]:
    """Return the logged events, each with its reason or its broker."""
    return [
        (one.event, one.fields.get("reason", one.fields.get("broker_id")))
        for one in harness.driver.take(Note)
    ]


def renew(harness: Harness, *brokers: BrokerId) -> None:
    """Let brokers register in new sessions before the controller sees that they are missing."""
    for broker in brokers:
        first = harness.first_epochs.setdefault(broker, harness.epoch(broker))
        harness.end(broker)
        harness.sessions[broker] = join(harness.coordinator, broker, first_epoch=first)


def test_brokers_with_new_sessions_keep_their_places() -> None:
    harness = Harness((2, 1, 3), (3, 2), (2,))
    partitions = [TopicPartition("orders", index) for index in range(3)]
    before = [harness.state(each) for each in partitions]
    for _ in range(2):
        renew(harness, B2)
        renew(harness, B2, B3)
        harness.do(e.BrokerChange())
        assert [harness.state(each) for each in partitions] == before
        connected = [one for one in harness.driver.effects if isinstance(one, Connect)]
        assert [one.broker_epoch for one in connected] == [harness.epoch(B2), harness.epoch(B3)]
        assert {broker for broker, _ in harness.sent(LeaderAndIsrRequest)} == {B2, B3}


def update_types(harness: Harness, broker: BrokerId) -> list[int]:
    """Return the types of the updates with partitions that a broker got."""
    return [
        message.type
        for receiver, message in harness.sent(UpdateMetadataRequest)
        if receiver == broker and isinstance(message, UpdateMetadataRequest)
        if message.topic_states
    ]


def test_brokers_forget_topics_whose_deletion_they_have_missed() -> None:
    harness = Harness((1, 2))
    renew(harness, B3)
    harness.do(e.BrokerChange())
    assert update_types(harness, B3) == [UpdateType.FULL]


@pytest.mark.parametrize("is_readable", [False, True])
def test_brokers_keep_topics_that_the_controller_cannot_name(is_readable: bool) -> None:
    harness = Harness((1, 2))
    if is_readable:
        # None of its replicas is alive, so it has no leader yet.
        put_topic(harness.coordinator, (9,), name="late")
    else:
        harness.coordinator.put(paths.topic("late"), b"nonsense")
    harness.do(e.TopicChange())
    renew(harness, B3)
    harness.driver.effects.clear()
    harness.do(e.BrokerChange())
    assert update_types(harness, B3) == [UpdateType.UNKNOWN]


def test_a_restarted_broker_loses_its_places_even_if_it_was_never_missing() -> None:
    harness = Harness((2, 1))
    renew(harness, B2)
    harness.do(e.BrokerChange())
    assert harness.state().leader == 2
    harness.end(B2)
    join(harness.coordinator, B2)
    harness.do(e.BrokerChange())
    assert (harness.state().leader, harness.state().isr) == (1, (1,))


def test_a_broker_with_a_new_session_inherits_from_a_dead_one() -> None:
    harness = Harness((3, 2), (2, 3))
    renew(harness, B2)
    harness.end(B3)
    harness.do(e.BrokerChange())
    for index in range(2):
        state = harness.state(TopicPartition("orders", index))
        assert (state.leader, state.isr) == (2, (2,))


def test_a_new_session_does_not_repair_a_disk() -> None:
    harness = Harness((2,))
    state = LeaderAndIsrPartitionError(error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    topic = LeaderAndIsrTopicError(topic_id=ORDERS_ID, partition_errors=[state])
    lost = LeaderAndIsrResponse(topics=[topic])
    harness.do(e.LeaderAndIsrResponseReceived(B2, harness.epoch(B2), lost))
    renew(harness, B2)
    harness.do(e.BrokerChange())
    assert harness.state().leader == NO_LEADER


def test_a_broker_with_a_new_session_is_still_shutting_down() -> None:
    harness = Harness((2, 1), (1, 2))
    harness.do(e.ControlledShutdownRequested(B2, harness.epoch(B2)))
    renew(harness, B2)
    harness.do(e.BrokerChange())
    assert harness.cluster.shutting_down == {B2}


def test_a_deletion_requested_in_an_earlier_session_is_requested_again() -> None:
    harness = Harness((1, 2))
    delete(harness)
    harness.do(e.StopReplicaResponseReceived(B1, harness.epoch(B1), StopReplicaResponse(), [T0]))
    harness.driver.effects.clear()
    renew(harness, B2)
    harness.do(e.BrokerChange())
    assert B2 in {broker for broker, _ in harness.sent(StopReplicaRequest)}


def test_the_log_names_left_brokers_and_elected_leaders_with_the_reason() -> None:
    harness = Harness((2, 1), (2,), (3, 2))
    harness.end(B2)
    harness.do(e.BrokerChange())
    lost = "broker 2 left"
    assert notes(harness) == [
        ("broker.left", 2), ("leaders.elected", lost), ("partitions.went_offline", lost),
    ]  # fmt: skip
    join(harness.coordinator, B2)
    harness.do(e.BrokerChange())
    assert notes(harness) == [("broker.joined", 2), ("leaders.elected", "broker 2 joined")]
    harness.do(e.ElectLeadersRequested([T0]))
    assert notes(harness) == [], "2 is not in sync"


def test_the_log_names_the_former_controller_of_a_new_one() -> None:
    harness = Harness((1, 2, 3))
    driver = Driver(harness.coordinator)
    planner = Planner(ControllerConfig(broker_id=B2), lambda: NEW_ID)
    driver.run(planner.plan(e.Reelect(), 0))
    assert not planner.is_active
    for path in (paths.broker(B1), paths.CONTROLLER):
        harness.coordinator.remove(path)
    driver.run(planner.plan(e.Reelect(), 0))
    [elected] = [one for one in driver.take(Note) if one.event == "controller.elected"]
    assert elected.fields["former_controller"] == B1


def test_partitions_without_their_preferred_leader_are_counted() -> None:
    harness = Harness((2, 1), (1, 2))
    assert harness.cluster.imbalance_count == 0
    harness.end(B2)
    harness.do(e.BrokerChange())
    assert harness.cluster.imbalance_count == 1


def test_the_log_names_some_of_many_partitions_and_counts_all() -> None:
    harness = Harness(*[(2, 1)] * (MAX_NAMED + 5))
    harness.end(B2)
    harness.do(e.BrokerChange())
    [elected] = [one for one in harness.driver.take(Note) if one.event == "leaders.elected"]
    named = elected.fields["partitions"]
    assert isinstance(named, list)
    assert (elected.fields["partition_count"], len(named)) == (MAX_NAMED + 5, MAX_NAMED)
    assert named[0] == "orders-0: leader 1, epoch 1, isr [1]"


def test_changed_endpoints_of_a_broker_are_announced() -> None:
    harness = Harness()
    moved = Registration(broker_id=B2, endpoints=(Endpoint("PLAINTEXT", "elsewhere", 1),))
    harness.driver.run(update(B2, harness.epoch(B2), moved.encode(timestamp_ms=0)))
    harness.do(e.BrokerModification(B2))
    assert len(harness.sent(UpdateMetadataRequest)) == 3
    harness.do(e.BrokerModification(B2))
    assert harness.sent(UpdateMetadataRequest) == []
    harness.driver.run(update(B2, harness.epoch(B2), b"nonsense"))
    harness.do(e.BrokerModification(B2))
    harness.do(e.BrokerChange())
    assert {one.event for one in harness.driver.take(Note)} == {"broker.ignored", "broker.left"}


def test_added_partitions_get_leaders_and_existing_ones_are_kept() -> None:
    harness = Harness((1, 2))
    node = harness.coordinator.nodes[paths.topic("orders")]
    topic = decode_topic(node.data)
    before = harness.state()
    put_topic(harness.coordinator, (1, 2), (3, 1))
    harness.do(e.PartitionModification("orders"))
    assert harness.state(TopicPartition("orders", 1)).leader == 3
    assert harness.state() == before
    assert topic.topic_id == ORDERS_ID
    harness.do(e.PartitionModification("unknown"))
    harness.coordinator.put(paths.topic("orders"), b"nonsense")
    harness.do(e.PartitionModification("orders"))
    assert harness.state() == before


def test_a_topic_created_by_an_old_tool_gets_an_id() -> None:
    harness = Harness()
    harness.coordinator.put(paths.topic("old"), b'{"version":1,"partitions":{"0":[1]}}')
    harness.coordinator.put(paths.topic("bad"), b"nonsense")
    harness.do(e.TopicChange())
    node = harness.coordinator.nodes[paths.topic("old")]
    assert decode_topic(node.data).topic_id == NEW_ID
    assert harness.state(TopicPartition("old", 0)).leader == 1
    harness.coordinator.remove(paths.partition_state(TopicPartition("old", 0)))
    harness.coordinator.remove(paths.partition(TopicPartition("old", 0)))
    harness.coordinator.remove(paths.partitions("old"))
    harness.coordinator.remove(paths.topic("old"))
    harness.do(e.TopicChange())
    assert "old" not in harness.cluster.topics


def delete(harness: Harness) -> None:
    harness.coordinator.put(paths.topic_deletion("orders"))
    harness.do(e.TopicDeletion())


def test_a_topic_is_deleted_once_every_broker_has_deleted_its_replicas() -> None:
    harness = Harness((1, 2))
    delete(harness)
    kinds = [
        (
            broker,
            [state.delete_partition for t in message.topic_states for state in t.partition_states],
        )
        for broker, message in harness.sent(StopReplicaRequest)
        if isinstance(message, StopReplicaRequest)
    ]
    assert kinds == [(1, [False]), (2, [False]), (1, [True]), (2, [True])]
    for broker in (B1, B2):
        assert paths.topic("orders") in harness.coordinator.nodes
        answer = e.StopReplicaResponseReceived(
            broker, harness.epoch(broker), StopReplicaResponse(), [T0]
        )
        harness.do(answer)
    assert paths.topic("orders") not in harness.coordinator.nodes
    assert paths.topic_deletion("orders") not in harness.coordinator.nodes


def deleted_topics(*topics: tuple[str, int], spoil: Callable[[Harness], None]) -> list[int]:
    """Delete topics with their numbers of partitions; return the changes per transaction."""
    harness = Harness((1,))
    partitions = [T0]
    for name, count in topics:
        partitions += put_topic(harness.coordinator, *((1,) for _ in range(count)), name=name)
    harness.do(e.TopicChange())
    for name in harness.cluster.topics:
        harness.coordinator.put(paths.topic_deletion(name))
    harness.do(e.TopicDeletion())
    harness.coordinator.put(paths.config("topics/orders"), encode_config({"retention.ms": "5"}))
    spoil(harness)
    harness.driver.requests.clear()
    answer = StopReplicaResponse()
    harness.do(e.StopReplicaResponseReceived(B1, harness.epoch(B1), answer, partitions))
    for path in (paths.TOPICS, paths.DELETE_TOPICS, "/config/topics"):
        assert harness.coordinator.children(path) == []
    assert harness.cluster.topics == set()
    return [
        len(transaction) - 1
        for request in harness.driver.requests
        if isinstance(request, Write)
        for transaction in request.transactions
    ]


def test_the_znodes_of_deleted_topics_go_in_one_transaction() -> None:
    # The parent of the partitions, topic and request; states and partitions; a config.
    changes = deleted_topics(("payments", 2), spoil=lambda _harness: None)
    assert changes == [3 + 2 + 1 + 3 + 4]


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(
            lambda harness: harness.coordinator.put(paths.partition(T0._replace(partition=7))),
            id="one znode more",
        ),
        pytest.param(
            lambda harness: harness.coordinator.remove(paths.partition_state(T0)),
            id="one znode less",
        ),
    ],
)
def test_a_deleted_topic_with_other_znodes_is_cleared_by_levels(
    spoil: Callable[[Harness], None],
) -> None:
    changes = deleted_topics(("payments", 2), spoil=spoil)
    assert changes[:3] == [13, 6, 7], "together, then each topic alone"
    assert len(changes) > 3


def test_a_large_deleted_topic_is_cleared_by_levels() -> None:
    count = MAX_PARTITIONS_AT_ONCE + 1
    changes = deleted_topics(("payments", count), spoil=lambda _harness: None)
    assert changes[:3] == [6, count, count]


@pytest.mark.parametrize(
    ("found", "is_spared"),
    [
        pytest.param(None, False, id="nothing is left"),
        pytest.param(TopicAssignment(NEW_ID, {}).encode(), True, id="another topic"),
        pytest.param(TopicAssignment(ORDERS_ID, {}).encode(), False, id="the same topic"),
        pytest.param(b"nonsense", False, id="damaged"),
    ],
)
def test_a_deletion_whose_response_was_lost_spares_a_topic_of_the_same_name(
    found: bytes | None, is_spared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = Harness((1, 2))
    delete(harness)
    harness.do(e.StopReplicaResponseReceived(B1, harness.epoch(B1), StopReplicaResponse(), [T0]))
    coordinator, path = harness.coordinator, paths.topic("orders")
    real = coordinator.perform

    def lose_response(session: int, effect: Read | ListChildren | Write) -> Answer:
        answer = real(session, effect)
        if not isinstance(effect, Write) or path in coordinator.nodes:
            return answer
        if found is not None:
            coordinator.put(path, found)
            coordinator.put(paths.config("topics/orders"), encode_config({}))
        monkeypatch.undo()
        return real(session, effect)

    monkeypatch.setattr(coordinator, "perform", lose_response)
    answer = e.StopReplicaResponseReceived(B2, harness.epoch(B2), StopReplicaResponse(), [T0])
    harness.do(answer)
    assert "orders" not in harness.cluster.topics
    assert (path in coordinator.nodes) is is_spared
    assert (paths.config("topics/orders") in coordinator.nodes) is is_spared


def test_a_reassignment_is_not_cancelled_by_an_outdated_in_sync_set() -> None:
    """The leader writes its in-sync sets itself, and informs the controller later."""
    harness = Harness((1, 2))
    slow = BrokerId(4)
    join(harness.coordinator, slow)
    harness.do(e.BrokerChange())
    assert harness.move({T0: (B3, slow)}) == {T0: ErrorCode.NONE}
    node = paths.partition_state(T0)

    def record(*isr: BrokerId) -> None:
        known = harness.state()
        state = known._replace(leader=B3, isr=isr)
        harness.coordinator.put(node, encode_partition_state(state, known.controller_epoch))

    record(B3, B2)
    harness.coordinator.put(f"{paths.ISR_CHANGE_PREFIX}1", encode_partitions([T0]))
    harness.do(e.IsrChange())
    assert harness.cluster.moving == {T0}
    record(B3)
    assert harness.move({T0: None}) == {T0: ErrorCode.INVALID_REPLICA_ASSIGNMENT}
    assert harness.state().leader == B3


def test_a_deletion_that_a_broker_refuses_is_halted() -> None:
    harness = Harness((1, 2))
    delete(harness)
    error = StopReplicaPartitionError(topic_name="orders", error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    failed = StopReplicaResponse(partition_errors=[error])
    harness.do(e.StopReplicaResponseReceived(B2, harness.epoch(B2) - 1, failed, [T0]))
    harness.do(e.StopReplicaResponseReceived(B2, harness.epoch(B2), failed, [T0]))
    refused = StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    harness.do(e.StopReplicaResponseReceived(B1, harness.epoch(B1), refused, [T0]))
    assert paths.topic("orders") in harness.coordinator.nodes
    assert harness.cluster.deletions.halted == {"orders"}


def test_partitions_cannot_be_added_to_a_topic_under_deletion() -> None:
    harness = Harness((1, 2))
    delete(harness)
    put_topic(harness.coordinator, (1, 2), (3, 1))
    harness.do(e.PartitionModification("orders"))
    topic = decode_topic(harness.coordinator.nodes[paths.topic("orders")].data)
    assert list(topic.partitions) == [0]


def test_deletions_can_be_disabled() -> None:
    harness = Harness((1, 2), delete_topic_enable=False)
    delete(harness)
    assert harness.coordinator.children(paths.DELETE_TOPICS) == []
    assert paths.topic("orders") in harness.coordinator.nodes


def test_a_state_written_by_a_later_controller_is_kept() -> None:
    harness = Harness((2, 1))
    later = LeaderAndIsr(leader=B1, leader_epoch=LeaderEpoch(8), isr=(B1,), controller_epoch=50)
    path = paths.partition_state(T0)
    harness.coordinator.put(path, encode_partition_state(later, 50))
    harness.end(B2)
    harness.do(e.BrokerChange())
    assert harness.state().controller_epoch == 50


@pytest.mark.parametrize("is_readable", [False, True])
def test_a_missing_or_malformed_state_fails_only_its_partition(is_readable: bool) -> None:
    harness = Harness((2, 1), (2, 1))
    path = paths.partition_state(T0)
    if is_readable:
        harness.coordinator.remove(path)
    else:
        harness.coordinator.put(path, b"nonsense")
    harness.end(B2)
    harness.do(e.BrokerChange())
    assert harness.state(TopicPartition("orders", 1)).leader == 1


def test_the_cluster_id_is_set_once_and_broker_ids_are_unique() -> None:
    driver = empty_cluster()
    assert driver.run(cluster_id("first")) == "first"
    assert Driver(driver.coordinator).run(cluster_id("second")) == "first"
    ids = [driver.run(generate_broker_id(1000)) for _ in range(3)]
    assert ids == [1001, 1002, 1003]


def once(harness: Harness, change: Callable[[], None]) -> None:
    """Run `change` once, between the next read and the write after it."""

    def happen() -> None:
        harness.driver.before_write = lambda: None
        change()

    harness.driver.before_write = happen


def test_a_constantly_changing_state_fails_only_its_partition() -> None:
    harness = Harness((2, 1))
    path = paths.partition_state(T0)

    def change() -> None:
        node = harness.coordinator.nodes[path]
        harness.coordinator.put(path, node.data)

    harness.end(B2)
    harness.driver.before_write = change
    harness.do(e.BrokerChange())
    assert harness.state().leader == 2
    harness.driver.before_write = lambda: None
    harness.do(e.UncleanElectionEnabled())
    assert harness.state().leader == 1


def test_an_existing_state_of_a_new_partition_is_adopted_and_sent() -> None:
    harness = Harness()
    made = LeaderAndIsr(leader=B2, leader_epoch=LeaderEpoch(3), isr=(B2,), controller_epoch=1)
    new = TopicPartition("made", 0)
    harness.coordinator.put(paths.partition_state(new), encode_partition_state(made, 1))
    put_topic(harness.coordinator, (1, 2), name="made")
    # The put of the state created the topic's znode first, without data.
    harness.do(e.TopicChange())
    receivers = [broker for broker, _ in harness.sent(LeaderAndIsrRequest)]
    assert receivers == [1, 2]
    assert harness.state(new).leader == 2


def test_a_state_written_in_a_request_without_a_response_is_that_of_a_new_partition() -> None:
    harness = Harness()
    put_topic(harness.coordinator, (1, 2), name="made")
    harness.driver.repeats = True
    harness.do(e.TopicChange())
    for _, request in harness.sent(LeaderAndIsrRequest):
        assert isinstance(request, LeaderAndIsrRequest)
        [topic] = request.topic_states
        [state] = topic.partition_states
        assert (topic.topic_name, state.leader, state.is_new) == ("made", 1, True)
    assert harness.state(TopicPartition("made", 0)).leader == 1


def test_a_new_partition_without_a_live_replica_waits_for_one() -> None:
    harness = Harness()
    put_topic(harness.coordinator, (9,), name="lonely")
    harness.do(e.TopicChange())
    lonely = TopicPartition("lonely", 0)
    assert paths.partition_state(lonely) not in harness.coordinator.nodes
    assert harness.do(e.ElectLeadersRequested([lonely])) == {
        lonely: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
    join(harness.coordinator, BrokerId(9))
    harness.do(e.BrokerChange())
    assert harness.state(lonely).leader == 9


def test_a_lost_election_adopts_the_winner() -> None:
    driver = empty_cluster(1)
    planner = Planner(ControllerConfig(broker_id=B1), lambda: NEW_ID)
    rival = Driver(driver.coordinator)

    def overtake() -> None:
        driver.before_write = lambda: None
        plan = Planner(ControllerConfig(broker_id=B2), lambda: NEW_ID).plan(e.Reelect(), 0)
        rival.run(plan)

    driver.before_write = overtake
    driver.run(planner.plan(e.Reelect(), 0))
    assert (planner.controller_id, planner.is_active) == (B2, False)
    assert driver.take(Elected), "the requests of the winner are about to come"
    assert rival.take(Elected)


def test_an_election_whose_winner_has_left_is_repeated() -> None:
    driver = empty_cluster(1)
    planner = Planner(ControllerConfig(broker_id=B1), lambda: NEW_ID)

    def raise_epoch() -> None:
        driver.before_write = lambda: None
        driver.coordinator.put(paths.CONTROLLER_EPOCH, encode_controller_epoch(7))

    driver.before_write = raise_epoch
    driver.run(planner.plan(e.Reelect(), 0))
    assert [one.event for one in driver.take(Enqueue)] == [e.Reelect()]
    driver.run(planner.plan(e.Reelect(), 0))
    assert planner.cluster is not None
    assert planner.cluster.epoch == 8


def test_a_malformed_controller_znode_counts_as_a_controller() -> None:
    driver = empty_cluster(1)
    driver.coordinator.put(paths.CONTROLLER, b"nonsense")
    planner = Planner(ControllerConfig(broker_id=B1), lambda: NEW_ID)
    driver.run(planner.plan(e.Reelect(), 0))
    assert (planner.controller_id, planner.is_active) == (-1, False)
    driver.run(controller_election.clear_own(B1))
    assert paths.CONTROLLER in driver.coordinator.nodes
    assert driver.run(controller_election.elect(B1, 0)) is None
    driver.coordinator.remove(paths.CONTROLLER)
    driver.run(controller_election.clear_own(B1))


def test_no_broker_wins_while_the_epoch_znode_is_missing() -> None:
    driver = Driver()
    # The creation of the epoch fails, because the root znode is missing for a moment.
    root = driver.coordinator.nodes.pop("/")
    assert driver.run(controller_election.elect(B1, 0)) is None
    driver.coordinator.nodes["/"] = root
    assert driver.run(controller_election.elect(B1, 0)) == controller_election.ControllerEpoch(1, 1)


def test_no_producer_ids_are_allocated_while_the_znode_is_missing() -> None:
    harness = Harness()
    once(harness, lambda: harness.coordinator.remove(paths.PRODUCER_ID_BLOCK))
    request = e.ProducerIdsRequested(B2, harness.epoch(B2))
    assert harness.do(request) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert isinstance(harness.do(request), ProducerIdBlock)


def test_a_reassignment_of_a_malformed_topic_fails() -> None:
    harness = Harness((1, 2), (1, 2))
    target: dict[TopicPartition, Sequence[BrokerId] | None] = {T0: (B3, B1)}
    good = harness.coordinator.nodes[paths.topic("orders")].data
    harness.coordinator.put(paths.topic("orders"), b"nonsense")
    assert harness.move(target) == {T0: ErrorCode.UNKNOWN_SERVER_ERROR}
    assert not harness.cluster.assignment(T0).is_moving, "it is not written"
    harness.coordinator.put(paths.topic("orders"), good)
    targets = {TopicPartition("orders", 1): (B2, B1)}
    harness.coordinator.put(paths.REASSIGN_PARTITIONS, encode_reassignment(targets))
    once(harness, lambda: harness.coordinator.put(paths.topic("orders"), b"nonsense"))
    harness.do(e.ReassignmentNode())
    assert paths.REASSIGN_PARTITIONS not in harness.coordinator.nodes


def test_a_reassignment_without_a_state_is_retried_later() -> None:
    harness = Harness((1, 2))
    harness.do(e.ReassignmentRequested({T0: (B3, B1)}))
    harness.coordinator.remove(paths.partition_state(T0))
    harness.end(B3)
    harness.do(e.BrokerChange())
    join(harness.coordinator, B3)
    harness.driver.effects.clear()
    harness.do(e.BrokerChange())
    assert "reassignment.failed" in {one.event for one in harness.driver.take(Note)}


def is_in_sync(harness: Harness, number: int) -> None:
    """Let the target of the reassignment get in sync, and notify the controller."""
    state = harness.state()._replace(isr=(B1, B2, B3))
    harness.coordinator.put(paths.partition_state(T0), encode_partition_state(state, 1))
    path = f"{paths.ISR_CHANGE_PREFIX}{number}"
    harness.coordinator.put(path, encode_partitions([T0]))
    harness.do(e.IsrChange())


def deleted_replicas(harness: Harness) -> list[BrokerId]:
    """Return the brokers that got a request to delete a replica."""
    return [
        broker
        for broker, message in harness.sent(StopReplicaRequest)
        if isinstance(message, StopReplicaRequest)
        for topic in message.topic_states
        for state in topic.partition_states
        if state.delete_partition
    ]


@pytest.mark.parametrize("written", [paths.partition_state(T0), paths.topic("orders")])
def test_a_reassignment_whose_end_fails_still_removes_replicas(written: str) -> None:
    harness = Harness((1, 2))
    harness.do(e.ReassignmentRequested({T0: (B3, B1)}))
    harness.driver.effects.clear()

    def change() -> None:
        harness.coordinator.put(written, harness.coordinator.nodes[written].data)

    harness.driver.before_write = change
    is_in_sync(harness, 1)
    harness.driver.before_write = lambda: None
    assert "reassignment.failed" in {one.event for one in harness.driver.take(Note)}
    assert assignment(harness).is_moving
    assert harness.cluster.assignment(T0) == assignment(harness)
    is_in_sync(harness, 2)
    assert deleted_replicas(harness) == [B2]
    assert assignment(harness) == ReplicaAssignment(replicas=(B3, B1))
    assert (harness.state().leader, set(harness.state().isr)) == (1, {1, 3})
    assert harness.cluster.moving == set()


def test_a_reassignment_to_dead_replicas_waits_for_them() -> None:
    harness = Harness((2, 3))
    for broker in (B2, B3):
        harness.end(broker)
    harness.do(e.BrokerChange())
    assert (harness.state().leader, harness.state().isr) == (NO_LEADER, (2, 3))
    assert harness.move({T0: (B3,)}) == {T0: ErrorCode.NONE}
    join(harness.coordinator, B2)
    harness.do(e.BrokerChange())
    assert (harness.state().leader, harness.state().isr) == (2, (2,))
    join(harness.coordinator, B3)
    harness.do(e.BrokerChange())
    assert assignment(harness).is_moving
    both_are_in_sync(harness)
    assert assignment(harness) == ReplicaAssignment(replicas=(B3,))
    assert (harness.state().leader, harness.state().isr) == (3, (3,))


def test_a_reassignment_does_not_end_while_its_target_shuts_down() -> None:
    harness = Harness((1, 2))
    harness.move({T0: (B3,)})
    harness.do(e.ControlledShutdownRequested(B3, harness.epoch(B3)))
    # A leader before Kafka 2.7 writes the set itself, and may not know of the shutdown yet.
    is_in_sync(harness, 1)
    assert (harness.state().leader, harness.state().isr) == (1, (1, 2, 3))
    assert deleted_replicas(harness) == []
    assert assignment(harness).is_moving


def test_a_target_that_falls_behind_at_the_end_does_not_cost_the_leader() -> None:
    harness = Harness((1, 2))
    harness.move({T0: (B3,)})
    shrunk = encode_partition_state(harness.state(), 1)

    def fall_behind() -> None:
        if paths.partition_state(T0) in str(harness.driver.requests[-1]):
            harness.driver.before_write = lambda: None
            harness.coordinator.put(paths.partition_state(T0), shrunk)

    harness.driver.before_write = fall_behind
    is_in_sync(harness, 1)
    assert (harness.state().leader, harness.state().isr) == (1, (1, 2))
    assert harness.sent(StopReplicaRequest) == []
    assert harness.cluster.assignment(T0) == assignment(harness)
    assert assignment(harness).is_moving


def test_a_reassignment_is_cancelled_while_its_origin_is_dead() -> None:
    harness = Harness((2,))
    harness.move({T0: (B3,)})
    harness.end(B2)
    harness.do(e.BrokerChange())
    assert harness.move({T0: None}) == {T0: ErrorCode.NONE}
    assert assignment(harness) == ReplicaAssignment(replicas=(B2,))
    assert (harness.state().leader, harness.state().isr) == (NO_LEADER, (2,))


def grow(harness: Harness) -> None:
    put_topic(harness.coordinator, (1, 2), (2, 3))


def test_a_reassignment_keeps_concurrently_added_partitions() -> None:
    harness = Harness((1, 2))
    once(harness, lambda: grow(harness))
    harness.do(e.ReassignmentRequested({T0: (B3, B1)}))
    node = harness.coordinator.nodes[paths.topic("orders")]
    assert list(decode_topic(node.data).partitions) == [0, 1]
    harness.coordinator.put(paths.REASSIGN_PARTITIONS, b"nonsense")
    assert harness.move({T0: None}) == {T0: ErrorCode.NONE}


def test_a_reassignment_that_removes_the_leader_elects_one_in_the_target() -> None:
    harness = Harness((1, 2))
    harness.do(e.ReassignmentRequested({T0: (B3,)}))
    targets = {T0: (B3,), TopicPartition("orders", 9): (B1,)}
    harness.coordinator.put(paths.REASSIGN_PARTITIONS, encode_reassignment(targets))
    assert harness.propose([1, 2, 3]) is ErrorCode.NONE
    assert (harness.state().leader, harness.state().isr) == (3, (3,))
    left = decode_reassignment(harness.coordinator.nodes[paths.REASSIGN_PARTITIONS].data)
    assert list(left) == [TopicPartition("orders", 9)]


def test_a_partition_without_a_leader_starts_on_the_target_of_its_reassignment() -> None:
    harness = Harness((4,))
    assert harness.move({T0: [B1]}) == {T0: ErrorCode.NONE}
    assert (harness.state().leader, harness.state().isr) == (1, (1,))
    assert harness.cluster.moving == set()
    harness.coordinator.put(paths.topic_deletion("orders"))
    harness.do(e.TopicDeletion())
    stopped = [broker for broker, _ in harness.sent(StopReplicaRequest)]
    assert stopped == [B1, B1], "the deletion stops and then deletes the replica"


def test_a_reassignment_of_a_leaderless_partition_waits_for_an_online_replica() -> None:
    harness = Harness((4,))
    assert harness.move({T0: [BrokerId(4)]}) == {T0: ErrorCode.NONE}
    assert paths.partition_state(T0) not in harness.coordinator.nodes
    join(harness.coordinator, BrokerId(4))
    harness.do(e.BrokerChange())
    assert harness.state().leader == 4
    assert harness.cluster.moving == set()


def test_the_next_controller_resumes_a_reassignment() -> None:
    harness = Harness((1, 2))
    harness.do(e.ReassignmentRequested({T0: (B3, B1)}))
    harness.driver.run(harness.planner.give_up())
    harness.do(e.Reelect())
    assert harness.propose([1, 2, 3]) is ErrorCode.NONE
    assert assignment(harness) == ReplicaAssignment(replicas=(B3, B1))


def test_a_malformed_config_allows_no_unclean_election() -> None:
    harness = Harness((2, 3))
    alone = LeaderAndIsr(leader=B2, isr=(B2,), controller_epoch=1)
    harness.coordinator.put(paths.partition_state(T0), encode_partition_state(alone, 1))
    harness.end(B2)
    harness.do(e.BrokerChange())
    harness.coordinator.put(paths.config("topics/orders"), b"nonsense")
    harness.do(e.UncleanElectionEnabled("orders"))
    assert harness.state().leader == -1
    batch = RequestBatch(harness.cluster)
    changes = harness.driver.run(elect(harness.cluster, batch, [T0], Strategy.OFFLINE))
    assert list(changes.failed) == [T0]
    assert harness.do(e.ElectLeadersRequested([T0], is_unclean=True)) == {T0: ErrorCode.NONE}


def test_elections_of_a_topic_under_deletion_are_refused() -> None:
    harness = Harness((1, 2))
    harness.end(B2)
    harness.do(e.BrokerChange())
    delete(harness)
    code = harness.do(e.ElectLeadersRequested([T0]))
    assert code == {T0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_znodes_deleted_between_list_and_read_are_skipped() -> None:
    harness = Harness()
    harness.do(e.BrokerModification(BrokerId(9)))
    harness.do(e.PartitionModification("never"))
    assert harness.driver.run(adopt_topics(harness.cluster, ["no"], lambda: NEW_ID)) == []
    plan = read_brokers(("7", "not-a-number"), {})
    plan.send(None)
    with pytest.raises(StopIteration) as stopped:
        plan.send(Nodes((None,)))
    assert stopped.value.value == {}


def test_a_partition_modification_may_come_before_the_topic_change() -> None:
    harness = Harness()
    put_topic(harness.coordinator, (2, 1), name="early")
    harness.do(e.PartitionModification("early"))
    assert harness.state(TopicPartition("early", 0)).leader == 2
    harness.do(e.PartitionModification("early"))
    harness.do(e.TopicChange())


def test_a_leader_without_the_listener_is_named_by_its_first_endpoint() -> None:
    harness = Harness((2, 1))
    other = Registration(broker_id=B2, endpoints=(Endpoint("OTHER", "o", 5),))
    harness.driver.run(update(B2, harness.epoch(B2), other.encode(timestamp_ms=0)))
    harness.do(e.BrokerModification(B2))
    harness.driver.effects.clear()
    harness.coordinator.put(f"{paths.LOG_DIR_EVENT_PREFIX}1", encode_log_dir_event(B1))
    harness.do(e.LogDirEvent())
    [(_, message)] = harness.sent(LeaderAndIsrRequest)
    assert isinstance(message, LeaderAndIsrRequest)
    assert [one.host_name for one in message.live_leaders] == ["o"]


def test_a_registration_that_disappears_during_the_check_is_retried() -> None:
    driver = empty_cluster()
    coordinator = driver.coordinator
    plan = register(B1, b"{}", Sessions(driver.session))
    first = plan.send(None)
    assert isinstance(first, Write)
    second = plan.send(coordinator.perform(driver.session, first))
    assert isinstance(second, Read)
    coordinator.remove(paths.broker(B1))
    again = plan.send(coordinator.perform(driver.session, second))
    assert again == first


def test_a_registration_is_replaced_without_a_moment_in_which_it_is_missing() -> None:
    driver = empty_cluster()
    coordinator = driver.coordinator
    previous = join(coordinator, B1)
    owners = []

    def note_owner() -> None:
        node = coordinator.read(paths.broker(B1))
        owners.append(node and node.ephemeral_owner)

    driver.before_write = note_owner
    sessions = Sessions(driver.session, {previous.session})
    assert isinstance(driver.run(register(B1, b"{}", sessions)), Registered)
    note_owner()
    assert owners == [previous.session, previous.session, driver.session]


def test_a_registration_that_vanishes_before_it_is_replaced_is_created() -> None:
    driver = empty_cluster()
    previous = join(driver.coordinator, B1)
    writes = iter((False, True))

    def end() -> None:
        if next(writes, False):
            driver.coordinator.end_session(previous.session)

    driver.before_write = end
    sessions = Sessions(driver.session, {previous.session})
    assert isinstance(driver.run(register(B1, b"{}", sessions)), Registered)


def test_register_leaves_the_registration_of_another_process_alone() -> None:
    driver = empty_cluster()
    other = join(driver.coordinator, B1)
    assert driver.run(register(B1, b"{}", Sessions(driver.session))) == Taken(other.session)
    node = driver.coordinator.read(paths.broker(B1))
    assert node is not None
    assert node.ephemeral_owner == other.session


def test_register_cannot_tell_the_owner_of_an_unreadable_registration() -> None:
    driver = empty_cluster()
    driver.coordinator.unreadable.add(paths.broker(B1))
    assert driver.run(register(B1, b"{}", Sessions(driver.session))) == Taken(None)


def test_register_gives_up_on_a_registration_that_always_reappears() -> None:
    driver = empty_cluster()
    coordinator = driver.coordinator
    previous = coordinator.open_session()

    def come_back() -> None:
        path = paths.broker(B1)
        if path not in coordinator.nodes:
            coordinator.perform(previous, Write(((Create(path, None, True),),)))
        coordinator.perform(previous, Write(((SetData(path, None, -1),),)))

    driver.before_write = come_back
    sessions = Sessions(driver.session, {previous})
    assert driver.run(register(B1, b"{}", sessions)) == Taken(previous)


def test_an_election_whose_response_was_lost_is_recognised() -> None:
    harness = Harness((2, 3, 1))
    harness.driver.repeats = True
    harness.end(B2)
    harness.do(e.BrokerChange())
    assert (harness.state().leader, harness.state().leader_epoch) == (3, 1)


def test_an_event_of_another_kind_is_a_bug() -> None:
    harness = Harness()
    plan = harness.planner._on_change(harness.cluster, e.Expire())
    with pytest.raises(AssertionError):
        harness.driver.run(plan)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_reassignment_of_a_deleted_topic_fails(is_late: bool) -> None:
    harness = Harness((1, 2))

    def vanish() -> None:
        del harness.coordinator.nodes[paths.topic("orders")]

    if is_late:
        once(harness, vanish)
    else:
        vanish()
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    assert harness.move({T0: (B3, B1)}) == {T0: code}


def test_a_reassignment_of_a_client_keeps_other_requests_of_a_tool() -> None:
    harness = Harness((1, 2), (1, 2))
    other = {TopicPartition("orders", 1): (B2, B1)}
    harness.coordinator.put(paths.REASSIGN_PARTITIONS, encode_reassignment(other))
    harness.do(e.ReassignmentRequested({T0: (B3, B1)}))
    assert paths.REASSIGN_PARTITIONS in harness.coordinator.nodes


def test_a_topic_under_reassignment_is_deleted_afterwards() -> None:
    harness = Harness((1, 2))
    harness.do(e.ReassignmentRequested({T0: (B3, B1)}))
    delete(harness)
    code = harness.do(e.ElectLeadersRequested([T0]))
    assert code == {T0: ErrorCode.INVALID_TOPIC_EXCEPTION}
    harness.driver.effects.clear()
    assert harness.propose([1, 2, 3]) is ErrorCode.NONE
    deleted = {
        broker
        for broker, message in harness.sent(StopReplicaRequest)
        if isinstance(message, StopReplicaRequest)
        and message.topic_states[0].partition_states[0].delete_partition
    }
    assert deleted == {1, 2, 3}


def test_a_controller_uses_the_latest_config() -> None:
    harness = Harness()
    changed = ControllerConfig(broker_id=B1, delete_topic_enable=False)
    harness.planner.reconfigure(changed)
    assert harness.cluster.config is changed


def kinds_of_leader_and_isr(driver: Driver) -> set[int]:
    return {
        one.message.type
        for sent in driver.take(Send)
        for one in sent.requests
        if isinstance(one.message, LeaderAndIsrRequest)
    }


def test_leader_and_isr_is_incremental_while_a_topic_is_malformed() -> None:
    harness = Harness((1, 2, 3))
    put_topic(harness.coordinator, (1, 2, 3), name="broken")
    good = harness.coordinator.nodes[paths.topic("broken")].data
    harness.coordinator.put(paths.topic("broken"), b"{oops")
    harness.driver.run(harness.planner.give_up())
    harness.do(e.Reelect())
    assert kinds_of_leader_and_isr(harness.driver) == {UpdateType.INCREMENTAL}
    harness.coordinator.put(paths.topic("broken"), good)
    harness.do(e.PartitionModification("broken"))
    assert kinds_of_leader_and_isr(harness.driver) == {UpdateType.UNKNOWN}


def test_a_malformed_topic_is_logged_once_and_forgotten_with_its_znode() -> None:
    harness = Harness()
    harness.coordinator.put(paths.topic("broken"), b"{oops")
    harness.do(e.TopicChange())
    assert [one.fields["topic"] for one in harness.driver.take(Note)] == ["broken"]
    assert harness.cluster.unread_topics == {"broken"}
    harness.coordinator.remove(paths.topic("broken"))
    harness.do(e.TopicChange())
    assert harness.cluster.unread_topics == set()


def test_the_deletion_of_a_malformed_topic_waits_until_it_is_repaired() -> None:
    harness = Harness()
    put_topic(harness.coordinator, (1,), name="broken")
    good = harness.coordinator.nodes[paths.topic("broken")].data
    harness.coordinator.put(paths.topic("broken"), b"{oops")
    harness.coordinator.put(paths.topic_deletion("broken"))
    harness.do(e.TopicChange())
    harness.do(e.TopicDeletion())
    harness.driver.run(harness.planner.give_up())
    harness.do(e.Reelect())
    assert harness.coordinator.children(paths.DELETE_TOPICS) == ["broken"]
    harness.coordinator.put(paths.topic("broken"), good)
    harness.driver.effects.clear()
    harness.do(e.PartitionModification("broken"))
    assert [one.event for one in harness.driver.take(Enqueue)] == [e.TopicDeletion()]
    harness.do(e.TopicDeletion())
    assert harness.cluster.is_being_deleted("broken")

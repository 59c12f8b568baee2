"""What the controller does about each event, against a coordinator in memory."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from controller import election
from controller import events as e
from controller.broker_registration import (
    Sessions,
    Taken,
    cluster_id,
    generate_broker_id,
    register,
    update,
)
from controller.config import ControllerConfig
from controller.effects import Children, Create, Enqueue, Nodes, Note, Read, Rest, Send, Write
from controller.errors import ControllerMovedError
from controller.fenced_writes import write_fenced
from controller.last_told import LastTold, nothing_told
from controller.leader_and_isr import NO_LEADER, LeaderAndIsr
from controller.live_brokers import read_brokers
from controller.partition_moves import MAX_NAMED, REST_MS, Strategy, elect
from controller.partition_state import PartitionState
from controller.plan import Planner
from controller.replica_assignment import ReplicaAssignment
from controller.request_batch import RequestBatch
from controller.topics import adopt_topics
from controller.znodes import paths
from controller.znodes.admin import decode_reassignment, encode_reassignment
from controller.znodes.cluster import ProducerIdBlock
from controller.znodes.config import encode_config
from controller.znodes.controller_node import encode_controller, encode_controller_epoch
from controller.znodes.notification import encode_log_dir_event, encode_partitions
from controller.znodes.partition_state import decode_partition_state, encode_partition_state
from controller.znodes.registration import Endpoint, Registration
from controller.znodes.topic import decode_topic
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
from kafkawire.update_type import UpdateType
from tests.simulation.cluster.driver import ORDERS_ID, Driver, empty_cluster, join, put_topic

B1, B2, B3 = map(BrokerId, (1, 2, 3))
T0 = TopicPartition("orders", 0)
NEW_ID = TopicId(int=99)
STALE = ErrorCode.STALE_BROKER_EPOCH


class Reign:
    """The controller of three brokers, broker 1, with one topic."""

    def __init__(self, *replicas: tuple[int, ...], delete_topic_enable: bool = True) -> None:
        self.driver = empty_cluster(1)
        self.sessions = {broker: join(self.driver.coordinator, broker) for broker in (B2, B3)}
        put_topic(self.driver.coordinator, *(replicas or ((1, 2, 3),)))
        config = ControllerConfig(broker_id=B1, delete_topic_enable=delete_topic_enable)
        self.planner = Planner(config, lambda: NEW_ID)
        self.do(e.Reelect())
        self.driver.effects.clear()

    def do(self, event: e.Event) -> object:
        return self.driver.run(self.planner.plan(event, 0))

    def move(
        self, wishes: Mapping[TopicPartition, Sequence[BrokerId] | None]
    ) -> dict[TopicPartition, ErrorCode]:
        """Ask for moves, and return the codes."""
        answers = self.do(e.ReassignmentAsked(wishes))
        assert isinstance(answers, dict)
        return {partition: answer.code for partition, answer in answers.items()}

    def state(self, partition: TopicPartition = T0) -> LeaderAndIsr:
        node = self.driver.coordinator.nodes[paths.partition_state(partition)]
        return decode_partition_state(node.data, node.version)

    def end(self, broker: BrokerId) -> None:
        self.driver.coordinator.end_session(self.sessions[broker].session)

    def succeed(self, last_told: LastTold = nothing_told) -> Driver:
        """Let broker 1 die, and broker 2 be controller, which remembers; return what it did."""
        for path in (paths.broker(B1), paths.CONTROLLER):
            self.driver.coordinator.remove(path)
        driver = Driver(self.driver.coordinator)
        planner = Planner(ControllerConfig(broker_id=B2), lambda: NEW_ID, last_told)
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
        return self.driver.coordinator.nodes[paths.broker(broker)].czxid

    def propose(self, isr: list[int], version: int = 3, **fields: int) -> ErrorCode:
        """Ask for an in-sync set as broker 1 does, and return the partition's code."""
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
        response = self.do(e.AlterPartitionAsked(request, version))
        assert isinstance(response, AlterPartitionResponse)
        return ErrorCode(response.topics[0].partitions[0].error_code)


def test_who_is_not_controller_answers_nothing() -> None:
    planner = Planner(ControllerConfig(broker_id=B1), lambda: NEW_ID)
    driver = empty_cluster(1)
    driver.coordinator.put(paths.CONTROLLER, encode_controller(B2, 0))
    for event in (e.ElectLeadersAsked(None), e.BrokerChange(), e.ProducerIdsAsked(B1, 1)):
        assert driver.run(planner.plan(event, 0)) is ErrorCode.NOT_CONTROLLER
    driver.run(planner.plan(e.Reelect(), 0))
    assert (planner.controller_id, planner.is_active) == (B2, False)


def test_the_first_controller_of_a_cluster_writes_epoch_1() -> None:
    driver = empty_cluster(1)
    driver.coordinator.remove(paths.CONTROLLER_EPOCH)
    planner = Planner(ControllerConfig(broker_id=B1), lambda: NEW_ID)
    driver.run(planner.plan(e.Reelect(), 0))
    assert driver.coordinator.nodes[paths.CONTROLLER_EPOCH].data == b"1"


def test_a_controller_whose_epoch_is_over_resigns_at_its_first_write() -> None:
    reign = Reign()
    reign.driver.coordinator.put(paths.CONTROLLER_EPOCH, encode_controller_epoch(9))
    assert reign.do(e.ElectLeadersAsked([T0])) == {T0: ErrorCode.ELECTION_NOT_NEEDED}
    reign.end(B2)
    assert reign.do(e.BrokerChange()) is ErrorCode.NOT_CONTROLLER
    assert not reign.planner.is_active
    assert [one.event for one in reign.driver.take(Enqueue)] == [e.Reelect()]


def test_a_controller_that_gives_up_lets_another_be_elected() -> None:
    reign = Reign()
    reign.driver.run(reign.planner.give_up())
    assert paths.CONTROLLER not in reign.driver.coordinator.nodes
    assert not reign.planner.is_active


def test_a_controller_that_sees_another_resigns() -> None:
    reign = Reign()
    reign.driver.coordinator.put(paths.CONTROLLER, encode_controller(B2, 0))
    reign.do(e.ControllerChange())
    assert (reign.planner.is_active, reign.planner.controller_id) == (False, B2)
    assert [one.event for one in reign.driver.take(Note)] == ["controller.resigned"]


def test_a_controller_node_of_our_own_that_we_do_not_reign_by_is_cleared() -> None:
    reign = Reign()
    reign.do(e.Expire())
    reign.do(e.Reelect())
    assert reign.planner.cluster is not None
    assert reign.planner.cluster.epoch == 3


def test_a_dead_leader_is_replaced_in_one_write() -> None:
    reign = Reign((2, 3, 1), (1, 2, 3))
    reign.end(B2)
    reign.do(e.BrokerChange())
    assert (reign.state().leader, reign.state().isr, reign.state().leader_epoch) == (3, (3, 1), 1)
    second = reign.state(TopicPartition("orders", 1))
    assert (second.leader, second.isr) == (1, (1, 3))
    sent = [_orders(one) for one in reign.driver.take(Send)]
    some, other = (UpdateType.INCREMENTAL, 1), (UpdateType.UNKNOWN, 1)
    assert sent == [[some, some], [other, other]], "who lost the leader comes first"


def _orders(sent: Send) -> list[tuple[int, int]]:
    """The kind of each LeaderAndIsr request, and how many partitions it names."""
    return [
        (message.type, sum(len(topic.partition_states) for topic in message.topic_states))
        for _, _, message in sent.requests
        if isinstance(message, LeaderAndIsrRequest)
    ]


def test_a_takeover_elects_for_those_without_a_leader_first() -> None:
    reign = Reign((1, 2, 3), (2, 3, 1), (2, 1, 3))
    driver = reign.succeed()
    steps = [
        _orders(one) if isinstance(one, Send) else one.duration_ms
        for one in driver.effects
        if isinstance(one, Send | Rest)
    ]
    some, all_three = (UpdateType.INCREMENTAL, 1), (UpdateType.UNKNOWN, 3)
    assert steps == [[], [some, some], REST_MS, [all_three, all_three]]
    assert (reign.state().leader, reign.state().isr) == (2, (2, 3))
    assert reign.state(TopicPartition("orders", 1)).isr == (2, 3)


def test_a_takeover_tells_a_broker_that_starts_when_it_has_all_partitions() -> None:
    reign = Reign((1, 2, 3), (2, 3, 1), (2, 1, 3))
    sent = [
        (message.type, sum(len(topic.partition_states) for topic in message.topic_states))
        for send in reign.succeed().take(Send)
        for broker, _, message in send.requests
        if broker == B3 and isinstance(message, UpdateMetadataRequest)
    ]
    some = UpdateType.INCREMENTAL
    assert sent == [(some, 0), (some, 1), (UpdateType.UNKNOWN, 3)]


class Memory:
    """What broker 2 was told of the partitions, in order; a change of it is what it missed."""

    def __init__(self, *states: LeaderAndIsr) -> None:
        self.states = dict(enumerate(states))
        self.topic_id = ORDERS_ID

    def __call__(self, topic: str, topic_id: TopicId) -> dict[int, LeaderAndIsr]:
        return self.states if (topic, topic_id) == ("orders", self.topic_id) else {}


def _uses(driver: Driver, partition: TopicPartition) -> list[type]:
    """How the node of a partition's state was used, in order."""
    path = paths.partition_state(partition)
    return [
        type(one)
        for one in driver.asked
        if (isinstance(one, Read) and path in one.paths)
        or (
            isinstance(one, Write)
            and any(op.path == path for ops in one.transactions for op in ops)
        )
    ]


def test_a_takeover_elects_by_what_it_remembers_before_it_reads_the_states() -> None:
    reign, other = Reign((1, 2, 3), (2, 3, 1)), TopicPartition("orders", 1)
    driver = reign.succeed(Memory(reign.state(), reign.state(other)))
    assert _uses(driver, T0) == [Write, Read]
    assert _uses(driver, other) == [Read, Write], "its leader is alive"
    assert (reign.state().leader, reign.state().isr) == (2, (2, 3))
    assert reign.state(other).isr == (2, 3)
    kinds = [type(one) for one in driver.effects if isinstance(one, Send | Rest)]
    assert kinds == [Send, Send, Rest, Send]


def test_what_a_takeover_remembers_and_is_not_so_any_more_changes_nothing() -> None:
    reign = Reign()
    told = reign.state()
    assert reign.propose([1, 3]) is ErrorCode.NONE
    driver = reign.succeed(Memory(told))
    assert _uses(driver, T0) == [Write, Read, Write, Read], "refused, read, elected; and the whole"
    assert (reign.state().leader, reign.state().isr) == (3, (3,))


@pytest.mark.parametrize("told", ["another topic's", "alone in sync", "without a leader"])
def test_a_takeover_reads_where_its_memory_does_not_say_enough(told: str) -> None:
    reign = Reign()
    memory = Memory(reign.state())
    match told:
        case "another topic's":
            memory.topic_id = NEW_ID
        case "alone in sync":
            # It may recover from an unclean election, which brokers are not told.
            memory.states[0] = reign.state()._replace(isr=(B1,))
        case _:
            memory.states[0] = reign.state()._replace(leader=NO_LEADER)
    assert _uses(reign.succeed(memory), T0) == [Read, Write]
    assert reign.state().leader == B2


def test_a_takeover_elects_nobody_by_memory_for_a_topic_that_goes() -> None:
    reign = Reign()
    memory = Memory(reign.state())
    reign.driver.coordinator.put(f"{paths.DELETE_TOPICS}/orders", b"")
    assert _uses(reign.succeed(memory), T0) == [Read]


def test_a_takeover_without_need_does_not_rest() -> None:
    reign = Reign((2, 3), (3, 2))
    assert reign.succeed().take(Rest) == []


def test_a_write_that_another_controller_made_impossible_stops_everything() -> None:
    reign = Reign()
    assert reign.planner.cluster is not None
    reign.driver.coordinator.put(paths.CONTROLLER_EPOCH, encode_controller_epoch(5))
    with pytest.raises(ControllerMovedError):
        reign.driver.run(write_fenced(reign.planner.cluster, [(), ()]))


def test_in_sync_sets_that_can_be_recorded() -> None:
    reign = Reign()
    before = reign.state().partition_epoch
    assert reign.propose([1, 2]) is ErrorCode.NONE
    assert (reign.state().isr, reign.state().partition_epoch) == ((1, 2), before + 1)
    assert reign.propose([1, 2], partition_epoch=before) is ErrorCode.NONE, "a lost answer"
    assert reign.state().partition_epoch == before + 1
    assert reign.propose([1, 2, 3], version=1) is ErrorCode.NONE


def test_in_sync_sets_that_cannot_be_recorded() -> None:
    reign = Reign()
    assert reign.propose([1], partition_epoch=99) is ErrorCode.NOT_CONTROLLER
    assert reign.propose([1], leader_epoch=-1) is ErrorCode.FENCED_LEADER_EPOCH
    assert reign.propose([2]) is ErrorCode.INVALID_REQUEST
    assert reign.propose([1, 2], leader_recovery_state=1) is ErrorCode.INVALID_REQUEST
    assert reign.propose([1, 2, 9]) is ErrorCode.INELIGIBLE_REPLICA
    assert reign.propose([1, 2, 9], version=1) is ErrorCode.OPERATION_NOT_ATTEMPTED
    assert reign.propose([1, 2]) is ErrorCode.NONE
    assert reign.propose([1], partition_epoch=0) is ErrorCode.INVALID_UPDATE_VERSION
    assert reign.propose([1], partition_index=7) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_in_sync_sets_of_strangers() -> None:
    reign = Reign()
    stale = AlterPartitionRequest(broker_id=1, broker_epoch=reign.epoch(B1) - 1)
    response = reign.do(e.AlterPartitionAsked(stale, 3))
    assert isinstance(response, AlterPartitionResponse)
    assert response.error_code == ErrorCode.STALE_BROKER_EPOCH
    unknown = RequestTopicData(topic_id=NEW_ID, partitions=[RequestPartitionData()])
    asked = AlterPartitionRequest(broker_id=1, broker_epoch=reign.epoch(B1), topics=[unknown])
    response = reign.do(e.AlterPartitionAsked(asked, 3))
    assert isinstance(response, AlterPartitionResponse)
    code = response.topics[0].partitions[0].error_code
    assert code == ErrorCode.UNKNOWN_TOPIC_ID


def test_in_sync_sets_that_leaders_have_written_themselves() -> None:
    reign = Reign()
    path = paths.partition_state(T0)
    shrunk = LeaderAndIsr(leader=B1, isr=(B1, B2), controller_epoch=1)
    reign.driver.coordinator.put(path, encode_partition_state(shrunk, 1))
    reign.driver.coordinator.put(f"{paths.ISR_CHANGE_PREFIX}1", encode_partitions([T0]))
    reign.driver.coordinator.put(f"{paths.ISR_CHANGE_PREFIX}2", b"nonsense")
    reign.do(e.IsrChange())
    assert reign.planner.cluster is not None
    assert reign.planner.cluster.leaderships[T0].isr == (1, 2)
    assert reign.driver.coordinator.children(paths.ISR_CHANGES) == []
    assert len(reign.sent(UpdateMetadataRequest)) == 3


def test_a_broker_that_stops_is_relieved() -> None:
    reign = Reign((2, 3, 1), (1, 2, 3), (2,))
    response = reign.do(e.ControlledShutdownAsked(B2, reign.epoch(B2)))
    assert isinstance(response, ControlledShutdownResponse)
    assert list(response.remaining_partitions) == []
    assert (reign.state().leader, reign.state().isr) == (3, (3, 1))
    assert reign.state(TopicPartition("orders", 1)).isr == (1, 3)
    alone = reign.state(TopicPartition("orders", 2))
    assert alone.leader == 2, "nobody else has it"
    assert reign.sent(StopReplicaRequest) != []


def test_a_broker_whose_partition_nobody_can_take_is_told_so() -> None:
    reign = Reign((2, 3))
    reign.end(B3)
    reign.do(e.BrokerChange())
    response = reign.do(e.ControlledShutdownAsked(B2, reign.epoch(B2)))
    assert isinstance(response, ControlledShutdownResponse)
    assert [one.topic_name for one in response.remaining_partitions] == ["orders"]


@pytest.mark.parametrize(
    ("broker", "epoch", "code"),
    [(9, 1, ErrorCode.BROKER_NOT_AVAILABLE), (2, 0, STALE), (2, -1, STALE)],
)
def test_a_shutdown_that_is_refused(broker: int, epoch: int, code: ErrorCode) -> None:
    response = Reign().do(e.ControlledShutdownAsked(BrokerId(broker), epoch))
    assert isinstance(response, ControlledShutdownResponse)
    assert response.error_code == code


def test_blocks_of_producer_ids() -> None:
    reign = Reign()
    first, second = (reign.do(e.ProducerIdsAsked(B2, reign.epoch(B2))) for _ in range(2))
    assert isinstance(first, ProducerIdBlock)
    assert isinstance(second, ProducerIdBlock)
    assert (first.first, first.last, second.first) == (0, 999, 1000)
    assert reign.do(e.ProducerIdsAsked(B2, 0)) is ErrorCode.STALE_BROKER_EPOCH
    unknown = e.ProducerIdsAsked(BrokerId(9), 0)
    assert reign.do(unknown) is ErrorCode.BROKER_ID_NOT_REGISTERED
    reign.driver.coordinator.put(paths.PRODUCER_ID_BLOCK, b"nonsense")
    asked = e.ProducerIdsAsked(B2, reign.epoch(B2))
    assert reign.do(asked) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_moves_that_are_refused() -> None:
    reign = Reign((1, 2))
    wishes: dict[TopicPartition, tuple[BrokerId, ...] | None] = {
        T0: (B1, BrokerId(9)),
        TopicPartition("orders", 5): (B1,),
        TopicPartition("gone", 0): None,
    }
    assert reign.move(wishes) == {
        T0: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        TopicPartition("orders", 5): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        TopicPartition("gone", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    for wish in ((), (B1, B1), (BrokerId(-1),)):
        code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert reign.move({T0: wish}) == {T0: code}
    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert reign.move({T0: None}) == {T0: code}


def assignment(reign: Reign) -> ReplicaAssignment:
    return decode_topic(reign.driver.coordinator.nodes[paths.topic("orders")].data).partitions[0]


def test_a_move_waits_for_its_target_and_ends_there() -> None:
    reign = Reign((1, 2))
    assert reign.move({T0: (B3, B1)}) == {T0: ErrorCode.NONE}
    moving = ReplicaAssignment(replicas=(B3, B1, B2), adding=(B3,), removing=(B2,))
    assert assignment(reign) == moving
    assert reign.do(e.ReassignmentsListed()) == {T0: moving}
    assert reign.do(e.ReassignmentsListed([])) == {}
    new = [
        (broker, state.is_new)
        for broker, message in reign.sent(LeaderAndIsrRequest)
        if isinstance(message, LeaderAndIsrRequest)
        for topic in message.topic_states
        for state in topic.partition_states
    ]
    assert new == [(1, False), (2, False), (3, True)]
    assert reign.propose([1, 2, 3]) is ErrorCode.NONE
    assert assignment(reign) == ReplicaAssignment(replicas=(B3, B1))
    assert (reign.state().leader, set(reign.state().isr)) == (1, {1, 3})
    assert reign.do(e.ReassignmentsListed()) == {}


def test_a_move_can_be_taken_back() -> None:
    reign = Reign((1, 2))
    reign.do(e.ReassignmentAsked({T0: (B3, B1)}))
    assert reign.move({T0: None}) == {T0: ErrorCode.NONE}
    assert assignment(reign) == ReplicaAssignment(replicas=(B1, B2))
    deleted = [broker for broker, _ in reign.sent(StopReplicaRequest)]
    assert set(deleted) == {B3}


def test_a_refused_move_names_the_brokers_that_are_missing() -> None:
    reign = Reign((1, 2))
    answers = reign.do(e.ReassignmentAsked({T0: (B1, BrokerId(9), BrokerId(8))}))
    assert isinstance(answers, dict)
    assert answers[T0].text == "brokers that are not alive: 8, 9"


def both_are_in_sync(reign: Reign) -> None:
    state = reign.state()._replace(isr=(B2, B3))
    reign.driver.coordinator.put(paths.partition_state(T0), encode_partition_state(state, 1))
    reign.driver.coordinator.put(f"{paths.ISR_CHANGE_PREFIX}1", encode_partitions([T0]))
    reign.do(e.IsrChange())


def only_the_target_is_in_sync(*, allows_unclean: bool) -> Reign:
    """Broker 2 led alone, is moved to 3 and 1; 3 gets in sync, and 2 dies."""
    reign = Reign((2,))
    if allows_unclean:
        config = encode_config({"unclean.leader.election.enable": "true"})
        reign.driver.coordinator.put(paths.config("topics/orders"), config)
    reign.move({T0: (B3, B1)})
    both_are_in_sync(reign)
    reign.end(B2)
    reign.do(e.BrokerChange())
    assert (reign.state().leader, reign.state().isr) == (3, (3,))
    reign.driver.effects.clear()
    return reign


@pytest.mark.parametrize("wish", [None, (B1,)])
def test_a_move_is_not_taken_back_or_replaced_while_only_what_it_adds_is_in_sync(
    wish: tuple[BrokerId, ...] | None,
) -> None:
    reign = only_the_target_is_in_sync(allows_unclean=False)
    before = assignment(reign)
    assert reign.move({T0: wish}) == {T0: ErrorCode.INVALID_REPLICA_ASSIGNMENT}
    assert (reign.state().leader, reign.state().isr) == (3, (3,))
    assert assignment(reign) == before
    assert reign.sent(StopReplicaRequest) == []


def test_a_move_is_taken_back_uncleanly_only_if_another_replica_can_lead() -> None:
    reign = only_the_target_is_in_sync(allows_unclean=True)
    assert reign.move({T0: None}) == {T0: ErrorCode.INVALID_REPLICA_ASSIGNMENT}, "2 is dead"
    join(reign.driver.coordinator, B2)
    reign.do(e.BrokerChange())
    assert reign.move({T0: None}) == {T0: ErrorCode.NONE}
    assert (reign.state().leader, reign.state().isr) == (2, (2,))
    assert assignment(reign) == ReplicaAssignment(replicas=(B2,))
    assert {broker for broker, _ in reign.sent(StopReplicaRequest)} == {1, 3}


def test_the_only_replica_in_sync_is_not_deleted_if_it_becomes_so_meanwhile() -> None:
    reign = Reign((2,))
    reign.move({T0: (B3, B1)})
    both_are_in_sync(reign)
    shrunk = encode_partition_state(reign.state()._replace(isr=(B3,)), 1)

    def others_leave() -> None:
        if paths.partition_state(T0) in str(reign.driver.asked[-1]):
            reign.driver.before_write = lambda: None
            reign.driver.coordinator.put(paths.partition_state(T0), shrunk)

    reign.driver.before_write = others_leave
    assert reign.move({T0: None}) == {T0: ErrorCode.UNKNOWN_SERVER_ERROR}
    deletes = [
        state.delete_partition
        for _, message in reign.sent(StopReplicaRequest)
        if isinstance(message, StopReplicaRequest)
        for topic in message.topic_states
        for state in topic.partition_states
    ]
    assert not any(deletes)


def test_moves_asked_for_by_a_tool() -> None:
    reign = Reign((1, 2), (2, 1))
    wishes = {T0: (B2, B1), TopicPartition("gone", 0): (B1,)}
    reign.driver.coordinator.put(paths.REASSIGN_PARTITIONS, encode_reassignment(wishes))
    reign.do(e.ReassignmentNode())
    assert assignment(reign).replicas == (2, 1)
    assert paths.REASSIGN_PARTITIONS not in reign.driver.coordinator.nodes
    reign.driver.coordinator.put(paths.REASSIGN_PARTITIONS, b"nonsense")
    reign.do(e.ReassignmentNode())
    assert paths.REASSIGN_PARTITIONS not in reign.driver.coordinator.nodes


def test_elections_that_are_asked_for() -> None:
    reign = Reign((2, 1, 3))
    reign.do(e.ControlledShutdownAsked(B2, reign.epoch(B2)))
    assert reign.do(e.ElectLeadersAsked(None)) == {T0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    unclean = e.ElectLeadersAsked([T0, TopicPartition("gone", 0)], is_unclean=True)
    assert reign.do(unclean) == {
        T0: ErrorCode.ELECTION_NOT_NEEDED,
        TopicPartition("gone", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_an_unclean_election_is_an_operators_wish() -> None:
    reign = Reign((2, 1))
    assert reign.do(e.ControlledShutdownAsked(B2, reign.epoch(B2))) is not None
    reign = Reign((2, 3))
    path = paths.partition_state(T0)
    alone = LeaderAndIsr(leader=B2, isr=(B2,), controller_epoch=1)
    reign.driver.coordinator.put(path, encode_partition_state(alone, 1))
    reign.end(B2)
    reign.do(e.BrokerChange())
    assert reign.state().leader == -1
    assert reign.do(e.ElectLeadersAsked([T0], is_unclean=True)) == {T0: ErrorCode.NONE}
    assert (reign.state().leader, reign.state().recovery_state) == (3, 1)


def test_leaders_return_to_where_they_should_be() -> None:
    reign = Reign((2, 1), (2, 1))
    reign.end(B2)
    reign.do(e.BrokerChange())
    assert reign.state().leader == 1
    reign.sessions[B2] = join(reign.driver.coordinator, B2)
    reign.do(e.BrokerChange())
    assert reign.propose([1, 2]) is ErrorCode.NONE
    reign.driver.effects.clear()
    reign.do(e.RebalanceDue())
    assert (reign.state().leader, reign.state(TopicPartition("orders", 1)).leader) == (2, 1)
    assert [one.delay_ms for one in reign.driver.take(Enqueue)] == [300_000]


def test_preferred_elections_asked_for_by_a_tool() -> None:
    reign = Reign((2, 1))
    for data in (encode_partitions([T0]), b"nonsense"):
        reign.driver.coordinator.put(paths.PREFERRED_ELECTION, data)
        reign.do(e.PreferredElectionNode())
        assert paths.PREFERRED_ELECTION not in reign.driver.coordinator.nodes


def test_a_failed_disk_moves_what_lay_on_it() -> None:
    reign = Reign((2, 3, 1))
    event = encode_log_dir_event(B2)
    reign.driver.coordinator.put(f"{paths.LOG_DIR_EVENT_PREFIX}1", event)
    reign.do(e.LogDirEvent())
    assert [broker for broker, _ in reign.sent(LeaderAndIsrRequest)] == [B2]
    errors = [LeaderAndIsrPartitionError(error_code=ErrorCode.KAFKA_STORAGE_ERROR)]
    lost = LeaderAndIsrResponse(
        topics=[LeaderAndIsrTopicError(topic_id=ORDERS_ID, partition_errors=errors)]
    )
    reign.do(e.LeaderAndIsrAnswered(B2, reign.epoch(B2) - 1, lost))
    assert reign.state().leader == 2, "of a former life"
    reign.do(e.LeaderAndIsrAnswered(B2, reign.epoch(B2), lost))
    assert (reign.state().leader, reign.state().isr) == (3, (3, 1))
    refused = LeaderAndIsrResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
    reign.driver.effects.clear()
    reign.do(e.LeaderAndIsrAnswered(B2, reign.epoch(B2), refused))
    assert [one.event for one in reign.driver.take(Note)] == ["request.refused"]


def test_a_replica_whose_disk_works_again_serves_again() -> None:
    reign = Reign((2,))
    state = LeaderAndIsrPartitionError(error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    topic = LeaderAndIsrTopicError(topic_id=ORDERS_ID, partition_errors=[state])
    lost = LeaderAndIsrResponse(topics=[topic])
    reign.do(e.LeaderAndIsrAnswered(B2, reign.epoch(B2), lost))
    assert reign.state().leader == NO_LEADER
    reign.driver.effects.clear()
    state.error_code = ErrorCode.NONE
    reign.do(e.LeaderAndIsrAnswered(B2, reign.epoch(B2), lost))
    assert reign.state().leader == 2
    assert [broker for broker, _ in reign.sent(LeaderAndIsrRequest)] == [B2]


def test_a_deletion_goes_on_when_the_disk_that_halted_it_works_again() -> None:
    reign = Reign((1, 2))
    state = LeaderAndIsrPartitionError(error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    topic = LeaderAndIsrTopicError(topic_id=ORDERS_ID, partition_errors=[state])
    answer = LeaderAndIsrResponse(topics=[topic])
    reign.do(e.LeaderAndIsrAnswered(B2, reign.epoch(B2), answer))
    delete(reign)
    assert reign.planner.cluster is not None
    assert reign.planner.cluster.deletions.halted == {"orders"}
    reign.do(e.StopReplicaAnswered(B1, reign.epoch(B1), StopReplicaResponse(), [T0]))
    reign.driver.effects.clear()
    state.error_code = ErrorCode.NONE
    reign.do(e.LeaderAndIsrAnswered(B2, reign.epoch(B2), answer))
    assert B2 in {broker for broker, _ in reign.sent(StopReplicaRequest)}


def test_a_deletion_waits_for_a_move_also_when_a_disk_works_again() -> None:
    reign = Reign((1, 2))
    reign.do(e.ReassignmentAsked({T0: (B3, B1)}))
    state = LeaderAndIsrPartitionError(error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    topic = LeaderAndIsrTopicError(topic_id=ORDERS_ID, partition_errors=[state])
    answer = LeaderAndIsrResponse(topics=[topic])
    reign.do(e.LeaderAndIsrAnswered(B2, reign.epoch(B2), answer))
    delete(reign)
    state.error_code = ErrorCode.NONE
    reign.do(e.LeaderAndIsrAnswered(B2, reign.epoch(B2), answer))
    assert reign.planner.cluster is not None
    assert reign.planner.cluster.deletions.halted == {"orders"}
    assert reign.planner.cluster.partition_state(T0) is PartitionState.ONLINE


def notes(reign: Reign) -> list[tuple[str, object]]:
    """Return the events that were noted, each with its reason or its broker."""
    return [
        (one.event, one.fields.get("reason", one.fields.get("broker_id")))
        for one in reign.driver.take(Note)
    ]


def test_the_log_tells_who_left_who_was_elected_and_why() -> None:
    reign = Reign((2, 1), (2,), (3, 2))
    reign.end(B2)
    reign.do(e.BrokerChange())
    lost = "replicas lost or found"
    assert notes(reign) == [
        ("broker.left", 2), ("leaders.elected", lost), ("partitions.went_offline", lost),
    ]  # fmt: skip
    join(reign.driver.coordinator, B2)
    reign.do(e.BrokerChange())
    assert notes(reign) == [("broker.joined", 2), ("leaders.elected", lost)]
    reign.do(e.ElectLeadersAsked([T0]))
    assert notes(reign) == [], "2 is not in sync"


def test_the_log_names_some_of_many_partitions_and_counts_all() -> None:
    reign = Reign(*[(2, 1)] * (MAX_NAMED + 5))
    reign.end(B2)
    reign.do(e.BrokerChange())
    [elected] = [one for one in reign.driver.take(Note) if one.event == "leaders.elected"]
    named = elected.fields["partitions"]
    assert isinstance(named, list)
    assert (elected.fields["partition_count"], len(named)) == (MAX_NAMED + 5, MAX_NAMED)
    assert named[0] == "orders-0: leader 1, epoch 1, isr [1]"


def test_a_broker_that_moves_house_is_announced() -> None:
    reign = Reign()
    moved = Registration(broker_id=B2, endpoints=(Endpoint("PLAINTEXT", "elsewhere", 1),))
    reign.driver.run(update(B2, moved.encode(timestamp_ms=0)))
    reign.do(e.BrokerModification(B2))
    assert len(reign.sent(UpdateMetadataRequest)) == 3
    reign.do(e.BrokerModification(B2))
    assert reign.sent(UpdateMetadataRequest) == []
    reign.driver.run(update(B2, b"nonsense"))
    reign.do(e.BrokerModification(B2))
    reign.do(e.BrokerChange())
    assert {one.event for one in reign.driver.take(Note)} == {"broker.ignored", "broker.left"}


def test_partitions_that_are_added_get_leaders_and_the_old_ones_stay() -> None:
    reign = Reign((1, 2))
    node = reign.driver.coordinator.nodes[paths.topic("orders")]
    topic = decode_topic(node.data)
    before = reign.state()
    put_topic(reign.driver.coordinator, (1, 2), (3, 1))
    reign.do(e.PartitionModification("orders"))
    assert reign.state(TopicPartition("orders", 1)).leader == 3
    assert reign.state() == before
    assert topic.topic_id == ORDERS_ID
    reign.do(e.PartitionModification("unknown"))
    reign.driver.coordinator.put(paths.topic("orders"), b"nonsense")
    reign.do(e.PartitionModification("orders"))
    assert reign.state() == before


def test_a_topic_of_an_old_tool_gets_an_id() -> None:
    reign = Reign()
    reign.driver.coordinator.put(paths.topic("old"), b'{"version":1,"partitions":{"0":[1]}}')
    reign.driver.coordinator.put(paths.topic("bad"), b"nonsense")
    reign.do(e.TopicChange())
    node = reign.driver.coordinator.nodes[paths.topic("old")]
    assert decode_topic(node.data).topic_id == NEW_ID
    assert reign.state(TopicPartition("old", 0)).leader == 1
    reign.driver.coordinator.remove(paths.partition_state(TopicPartition("old", 0)))
    reign.driver.coordinator.remove(paths.partition(TopicPartition("old", 0)))
    reign.driver.coordinator.remove(paths.partitions("old"))
    reign.driver.coordinator.remove(paths.topic("old"))
    reign.do(e.TopicChange())
    assert reign.planner.cluster is not None
    assert "old" not in reign.planner.cluster.topics


def delete(reign: Reign) -> None:
    reign.driver.coordinator.put(paths.topic_deletion("orders"))
    reign.do(e.TopicDeletion())


def test_a_topic_goes_when_every_broker_has_deleted_it() -> None:
    reign = Reign((1, 2))
    delete(reign)
    kinds = [
        (
            broker,
            [state.delete_partition for t in message.topic_states for state in t.partition_states],
        )
        for broker, message in reign.sent(StopReplicaRequest)
        if isinstance(message, StopReplicaRequest)
    ]
    assert kinds == [(1, [False]), (2, [False]), (1, [True]), (2, [True])]
    for broker in (B1, B2):
        assert paths.topic("orders") in reign.driver.coordinator.nodes
        answer = e.StopReplicaAnswered(broker, reign.epoch(broker), StopReplicaResponse(), [T0])
        reign.do(answer)
    assert paths.topic("orders") not in reign.driver.coordinator.nodes
    assert paths.topic_deletion("orders") not in reign.driver.coordinator.nodes


def test_a_deletion_that_a_broker_refuses_is_halted() -> None:
    reign = Reign((1, 2))
    delete(reign)
    error = StopReplicaPartitionError(topic_name="orders", error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    failed = StopReplicaResponse(partition_errors=[error])
    reign.do(e.StopReplicaAnswered(B2, reign.epoch(B2) - 1, failed, [T0]))
    reign.do(e.StopReplicaAnswered(B2, reign.epoch(B2), failed, [T0]))
    refused = StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    reign.do(e.StopReplicaAnswered(B1, reign.epoch(B1), refused, [T0]))
    assert paths.topic("orders") in reign.driver.coordinator.nodes
    assert reign.planner.cluster is not None
    assert reign.planner.cluster.deletions.halted == {"orders"}


def test_partitions_cannot_be_added_to_a_topic_on_its_way_out() -> None:
    reign = Reign((1, 2))
    delete(reign)
    put_topic(reign.driver.coordinator, (1, 2), (3, 1))
    reign.do(e.PartitionModification("orders"))
    topic = decode_topic(reign.driver.coordinator.nodes[paths.topic("orders")].data)
    assert list(topic.partitions) == [0]


def test_deletions_may_be_switched_off() -> None:
    reign = Reign((1, 2), delete_topic_enable=False)
    delete(reign)
    assert reign.driver.coordinator.children(paths.DELETE_TOPICS) == []
    assert paths.topic("orders") in reign.driver.coordinator.nodes


def test_a_state_of_a_later_controller_is_left_alone() -> None:
    reign = Reign((2, 1))
    later = LeaderAndIsr(leader=B1, leader_epoch=LeaderEpoch(8), isr=(B1,), controller_epoch=50)
    path = paths.partition_state(T0)
    reign.driver.coordinator.put(path, encode_partition_state(later, 50))
    reign.end(B2)
    reign.do(e.BrokerChange())
    assert reign.state().controller_epoch == 50


@pytest.mark.parametrize("is_readable", [False, True])
def test_a_state_that_is_gone_or_broken_fails_its_partition_only(is_readable: bool) -> None:
    reign = Reign((2, 1), (2, 1))
    path = paths.partition_state(T0)
    if is_readable:
        reign.driver.coordinator.remove(path)
    else:
        reign.driver.coordinator.put(path, b"nonsense")
    reign.end(B2)
    reign.do(e.BrokerChange())
    assert reign.state(TopicPartition("orders", 1)).leader == 1


def test_the_cluster_gets_its_id_once_and_brokers_get_theirs() -> None:
    driver = empty_cluster()
    assert driver.run(cluster_id("first")) == "first"
    assert Driver(driver.coordinator).run(cluster_id("second")) == "first"
    ids = [driver.run(generate_broker_id(1000)) for _ in range(3)]
    assert ids == [1001, 1002, 1003]


def once(reign: Reign, change: Callable[[], None]) -> None:
    """Let something happen between the next read and the write that follows it."""

    def happen() -> None:
        reign.driver.before_write = lambda: None
        change()

    reign.driver.before_write = happen


def test_a_node_that_changes_all_the_time_fails_its_partition_only() -> None:
    reign = Reign((2, 1))
    path = paths.partition_state(T0)

    def change() -> None:
        node = reign.driver.coordinator.nodes[path]
        reign.driver.coordinator.put(path, node.data)

    reign.end(B2)
    reign.driver.before_write = change
    reign.do(e.BrokerChange())
    assert reign.state().leader == 2
    reign.driver.before_write = lambda: None
    reign.do(e.UncleanElectionEnabled())
    assert reign.state().leader == 1


def test_a_state_that_another_made_is_adopted_and_told() -> None:
    reign = Reign()
    made = LeaderAndIsr(leader=B2, leader_epoch=LeaderEpoch(3), isr=(B2,), controller_epoch=1)
    new = TopicPartition("made", 0)
    reign.driver.coordinator.put(paths.partition_state(new), encode_partition_state(made, 1))
    put_topic(reign.driver.coordinator, (1, 2), name="made")
    # What was put above made the topic's node first, without data.
    reign.do(e.TopicChange())
    told = [broker for broker, _ in reign.sent(LeaderAndIsrRequest)]
    assert told == [1, 2]
    assert reign.state(new).leader == 2


def test_a_new_partition_without_a_live_replica_waits_for_one() -> None:
    reign = Reign()
    put_topic(reign.driver.coordinator, (9,), name="lonely")
    reign.do(e.TopicChange())
    lonely = TopicPartition("lonely", 0)
    assert paths.partition_state(lonely) not in reign.driver.coordinator.nodes
    assert reign.do(e.ElectLeadersAsked([lonely])) == {lonely: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    join(reign.driver.coordinator, BrokerId(9))
    reign.do(e.BrokerChange())
    assert reign.state(lonely).leader == 9


def test_an_election_that_another_wins_is_left_to_it() -> None:
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


def test_an_election_whose_winner_is_gone_again_is_repeated() -> None:
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


def test_a_controller_node_that_cannot_be_read_is_somebody() -> None:
    driver = empty_cluster(1)
    driver.coordinator.put(paths.CONTROLLER, b"nonsense")
    planner = Planner(ControllerConfig(broker_id=B1), lambda: NEW_ID)
    driver.run(planner.plan(e.Reelect(), 0))
    assert (planner.controller_id, planner.is_active) == (-1, False)
    driver.run(election.clear_own(B1))
    assert paths.CONTROLLER in driver.coordinator.nodes
    assert driver.run(election.stand(B1, 0)) is None
    driver.coordinator.remove(paths.CONTROLLER)
    driver.run(election.clear_own(B1))


def test_an_epoch_that_vanishes_lets_nobody_win() -> None:
    driver = Driver()
    # Its creation fails, because this coordinator has lost its root for a moment.
    root = driver.coordinator.nodes.pop("/")
    assert driver.run(election.stand(B1, 0)) is None
    driver.coordinator.nodes["/"] = root
    assert driver.run(election.stand(B1, 0)) == election.Reign(1, 1)


def test_ids_are_not_given_out_when_the_node_goes_away() -> None:
    reign = Reign()
    once(reign, lambda: reign.driver.coordinator.remove(paths.PRODUCER_ID_BLOCK))
    asked = e.ProducerIdsAsked(B2, reign.epoch(B2))
    assert reign.do(asked) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert isinstance(reign.do(asked), ProducerIdBlock)


def test_a_move_of_a_broken_topic_fails() -> None:
    reign = Reign((1, 2), (1, 2))
    wish: dict[TopicPartition, Sequence[BrokerId] | None] = {T0: (B3, B1)}
    good = reign.driver.coordinator.nodes[paths.topic("orders")].data
    reign.driver.coordinator.put(paths.topic("orders"), b"nonsense")
    assert reign.move(wish) == {T0: ErrorCode.UNKNOWN_SERVER_ERROR}
    assert reign.planner.cluster is not None
    assert not reign.planner.cluster.assignment(T0).is_moving, "it is not written"
    reign.driver.coordinator.put(paths.topic("orders"), good)
    wishes = {TopicPartition("orders", 1): (B2, B1)}
    reign.driver.coordinator.put(paths.REASSIGN_PARTITIONS, encode_reassignment(wishes))
    once(reign, lambda: reign.driver.coordinator.put(paths.topic("orders"), b"nonsense"))
    reign.do(e.ReassignmentNode())
    assert paths.REASSIGN_PARTITIONS not in reign.driver.coordinator.nodes


def test_a_move_whose_state_is_gone_is_left_for_later() -> None:
    reign = Reign((1, 2))
    reign.do(e.ReassignmentAsked({T0: (B3, B1)}))
    reign.driver.coordinator.remove(paths.partition_state(T0))
    reign.end(B3)
    reign.do(e.BrokerChange())
    join(reign.driver.coordinator, B3)
    reign.driver.effects.clear()
    reign.do(e.BrokerChange())
    assert "reassignment.failed" in {one.event for one in reign.driver.take(Note)}


def grow(reign: Reign) -> None:
    put_topic(reign.driver.coordinator, (1, 2), (2, 3))


def test_a_move_keeps_partitions_that_are_added_meanwhile() -> None:
    reign = Reign((1, 2))
    once(reign, lambda: grow(reign))
    reign.do(e.ReassignmentAsked({T0: (B3, B1)}))
    node = reign.driver.coordinator.nodes[paths.topic("orders")]
    assert list(decode_topic(node.data).partitions) == [0, 1]
    reign.driver.coordinator.put(paths.REASSIGN_PARTITIONS, b"nonsense")
    assert reign.move({T0: None}) == {T0: ErrorCode.NONE}


def test_a_move_out_of_a_leader_elects_one_in_the_target() -> None:
    reign = Reign((1, 2))
    reign.do(e.ReassignmentAsked({T0: (B3,)}))
    wishes = {T0: (B3,), TopicPartition("orders", 9): (B1,)}
    reign.driver.coordinator.put(paths.REASSIGN_PARTITIONS, encode_reassignment(wishes))
    assert reign.propose([1, 2, 3]) is ErrorCode.NONE
    assert (reign.state().leader, reign.state().isr) == (3, (3,))
    left = decode_reassignment(reign.driver.coordinator.nodes[paths.REASSIGN_PARTITIONS].data)
    assert list(left) == [TopicPartition("orders", 9)]


def test_a_partition_that_never_had_a_leader_begins_on_the_brokers_that_it_moves_to() -> None:
    reign = Reign((4,))
    assert reign.move({T0: [B1]}) == {T0: ErrorCode.NONE}
    assert (reign.state().leader, reign.state().isr) == (1, (1,))
    assert reign.planner.cluster is not None
    assert reign.planner.cluster.moving == set()
    reign.driver.coordinator.put(paths.topic_deletion("orders"))
    reign.do(e.TopicDeletion())
    stopped = [broker for broker, _ in reign.sent(StopReplicaRequest)]
    assert stopped == [B1, B1], "its deletion knows the replica: stopped, then deleted"


def test_a_move_of_a_partition_that_never_had_a_leader_waits_for_an_online_replica() -> None:
    reign = Reign((4,))
    assert reign.move({T0: [BrokerId(4)]}) == {T0: ErrorCode.NONE}
    assert paths.partition_state(T0) not in reign.driver.coordinator.nodes
    join(reign.driver.coordinator, BrokerId(4))
    reign.do(e.BrokerChange())
    assert reign.state().leader == 4
    assert reign.planner.cluster is not None
    assert reign.planner.cluster.moving == set()


def test_the_next_controller_goes_on_with_a_move() -> None:
    reign = Reign((1, 2))
    reign.do(e.ReassignmentAsked({T0: (B3, B1)}))
    reign.driver.run(reign.planner.give_up())
    reign.do(e.Reelect())
    assert reign.propose([1, 2, 3]) is ErrorCode.NONE
    assert assignment(reign) == ReplicaAssignment(replicas=(B3, B1))


def test_an_unreadable_config_allows_nothing() -> None:
    reign = Reign((2, 3))
    alone = LeaderAndIsr(leader=B2, isr=(B2,), controller_epoch=1)
    reign.driver.coordinator.put(paths.partition_state(T0), encode_partition_state(alone, 1))
    reign.end(B2)
    reign.do(e.BrokerChange())
    reign.driver.coordinator.put(paths.config("topics/orders"), b"nonsense")
    reign.do(e.UncleanElectionEnabled("orders"))
    assert reign.state().leader == -1
    assert reign.planner.cluster is not None
    batch = RequestBatch(reign.planner.cluster)
    changes = reign.driver.run(elect(reign.planner.cluster, batch, [T0], Strategy.OFFLINE))
    assert list(changes.failed) == [T0]
    assert reign.do(e.ElectLeadersAsked([T0], is_unclean=True)) == {T0: ErrorCode.NONE}


def test_elections_of_a_topic_on_its_way_out_are_refused() -> None:
    reign = Reign((1, 2))
    reign.end(B2)
    reign.do(e.BrokerChange())
    delete(reign)
    code = reign.do(e.ElectLeadersAsked([T0]))
    assert code == {T0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_what_vanishes_between_list_and_read_is_left_out() -> None:
    reign = Reign()
    reign.do(e.BrokerModification(BrokerId(9)))
    reign.do(e.PartitionModification("never"))
    assert reign.planner.cluster is not None
    assert reign.driver.run(adopt_topics(reign.planner.cluster, ["no"], lambda: NEW_ID)) == []
    plan = read_brokers()
    plan.send(None)
    plan.send(Children(("7", "not-a-number")))
    with pytest.raises(StopIteration) as stopped:
        plan.send(Nodes((None,)))
    assert stopped.value.value == {}


def test_a_partition_modification_may_come_before_the_topic_change() -> None:
    reign = Reign()
    put_topic(reign.driver.coordinator, (2, 1), name="early")
    reign.do(e.PartitionModification("early"))
    assert reign.state(TopicPartition("early", 0)).leader == 2
    reign.do(e.PartitionModification("early"))
    reign.do(e.TopicChange())


def test_a_broker_without_the_listener_is_named_by_its_first() -> None:
    reign = Reign((2, 1))
    other = Registration(broker_id=B2, endpoints=(Endpoint("OTHER", "o", 5),))
    reign.driver.run(update(B2, other.encode(timestamp_ms=0)))
    reign.do(e.BrokerModification(B2))
    reign.driver.effects.clear()
    reign.driver.coordinator.put(f"{paths.LOG_DIR_EVENT_PREFIX}1", encode_log_dir_event(B1))
    reign.do(e.LogDirEvent())
    [(_, message)] = reign.sent(LeaderAndIsrRequest)
    assert isinstance(message, LeaderAndIsrRequest)
    assert [one.host_name for one in message.live_leaders] == ["o"]


def test_a_registration_that_ends_while_it_is_checked_is_made_again() -> None:
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


def test_a_registration_that_always_comes_back_is_given_up() -> None:
    driver = empty_cluster()
    coordinator = driver.coordinator
    previous = coordinator.open_session()

    def come_back() -> None:
        if paths.broker(B1) not in coordinator.nodes:
            coordinator.perform(previous, Write(((Create(paths.broker(B1), None, True),),)))

    driver.before_write = come_back
    sessions = Sessions(driver.session, {previous})
    assert driver.run(register(B1, b"{}", sessions)) == Taken(previous)


def test_an_election_whose_answer_was_lost_is_known_as_ours() -> None:
    reign = Reign((2, 3, 1))
    reign.driver.repeats = True
    reign.end(B2)
    reign.do(e.BrokerChange())
    assert (reign.state().leader, reign.state().leader_epoch) == (3, 1)


def test_an_event_that_is_planned_elsewhere_is_a_bug() -> None:
    reign = Reign()
    assert reign.planner.cluster is not None
    plan = reign.planner._take_note(reign.planner.cluster, e.Expire())
    with pytest.raises(AssertionError):
        reign.driver.run(plan)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_move_of_a_topic_that_is_gone_fails(is_late: bool) -> None:
    reign = Reign((1, 2))

    def vanish() -> None:
        del reign.driver.coordinator.nodes[paths.topic("orders")]

    if is_late:
        once(reign, vanish)
    else:
        vanish()
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    assert reign.move({T0: (B3, B1)}) == {T0: code}


def test_a_clients_move_leaves_a_tools_other_moves_alone() -> None:
    reign = Reign((1, 2), (1, 2))
    other = {TopicPartition("orders", 1): (B2, B1)}
    reign.driver.coordinator.put(paths.REASSIGN_PARTITIONS, encode_reassignment(other))
    reign.do(e.ReassignmentAsked({T0: (B3, B1)}))
    assert paths.REASSIGN_PARTITIONS in reign.driver.coordinator.nodes


def test_a_topic_that_moves_is_deleted_after_that() -> None:
    reign = Reign((1, 2))
    reign.do(e.ReassignmentAsked({T0: (B3, B1)}))
    delete(reign)
    code = reign.do(e.ElectLeadersAsked([T0]))
    assert code == {T0: ErrorCode.INVALID_TOPIC_EXCEPTION}
    reign.driver.effects.clear()
    assert reign.propose([1, 2, 3]) is ErrorCode.NONE
    deleted = {
        broker
        for broker, message in reign.sent(StopReplicaRequest)
        if isinstance(message, StopReplicaRequest)
        and message.topic_states[0].partition_states[0].delete_partition
    }
    assert deleted == {1, 2, 3}


def test_a_controller_decides_by_what_it_was_told_last() -> None:
    reign = Reign()
    assert reign.planner.cluster is not None
    changed = ControllerConfig(broker_id=B1, delete_topic_enable=False)
    reign.planner.reconfigure(changed)
    assert reign.planner.cluster.config is changed


def kinds_of_leader_and_isr(driver: Driver) -> set[int]:
    return {
        one.message.type
        for sent in driver.take(Send)
        for one in sent.requests
        if isinstance(one.message, LeaderAndIsrRequest)
    }


def test_no_order_names_all_that_a_broker_has_while_a_topic_cannot_be_read() -> None:
    reign = Reign((1, 2, 3))
    coordinator = reign.driver.coordinator
    put_topic(coordinator, (1, 2, 3), name="broken")
    good = coordinator.nodes[paths.topic("broken")].data
    coordinator.put(paths.topic("broken"), b"{oops")
    reign.driver.run(reign.planner.give_up())
    reign.do(e.Reelect())
    assert kinds_of_leader_and_isr(reign.driver) == {UpdateType.INCREMENTAL}
    coordinator.put(paths.topic("broken"), good)
    reign.do(e.PartitionModification("broken"))
    assert kinds_of_leader_and_isr(reign.driver) == {UpdateType.UNKNOWN}


def test_a_topic_that_cannot_be_read_is_named_once_and_forgotten_with_its_node() -> None:
    reign = Reign()
    reign.driver.coordinator.put(paths.topic("broken"), b"{oops")
    reign.do(e.TopicChange())
    assert [one.fields["topic"] for one in reign.driver.take(Note)] == ["broken"]
    cluster = reign.planner.cluster
    assert cluster is not None
    assert cluster.unread_topics == {"broken"}
    reign.driver.coordinator.remove(paths.topic("broken"))
    reign.do(e.TopicChange())
    assert cluster.unread_topics == set()


def test_the_deletion_of_a_topic_that_cannot_be_read_waits_until_it_can() -> None:
    reign = Reign()
    coordinator = reign.driver.coordinator
    put_topic(coordinator, (1,), name="broken")
    good = coordinator.nodes[paths.topic("broken")].data
    coordinator.put(paths.topic("broken"), b"{oops")
    coordinator.put(paths.topic_deletion("broken"))
    reign.do(e.TopicChange())
    reign.do(e.TopicDeletion())
    reign.driver.run(reign.planner.give_up())
    reign.do(e.Reelect())
    assert coordinator.children(paths.DELETE_TOPICS) == ["broken"]
    coordinator.put(paths.topic("broken"), good)
    reign.driver.effects.clear()
    reign.do(e.PartitionModification("broken"))
    assert [one.event for one in reign.driver.take(Enqueue)] == [e.TopicDeletion()]
    reign.do(e.TopicDeletion())
    assert reign.planner.cluster is not None
    assert reign.planner.cluster.is_being_deleted("broken")

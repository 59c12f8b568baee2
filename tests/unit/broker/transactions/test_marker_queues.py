"""The markers that wait to be sent: `broker.transactions.marker_queues`."""

import pytest

from broker.transactions import marker_queues
from broker.transactions.marker_queues import (
    MarkerQueues,
    Outcome,
    Outgoing,
    Place,
    markers_of,
    outcomes_of,
)
from broker.transactions.transaction_effects import Ending, ProducerIdentity
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

B1, B2 = BrokerId(1), BrokerId(2)
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def outgoing(producer_id: int = 7, partition: int = 0, *, is_commit: bool = True) -> Outgoing:
    ending = Ending("id", is_commit, ProducerIdentity(producer_id, 3), {T0, T1, T2})
    return Outgoing(ending, partition, 5)


class Leaders:
    """Leaders by partition, which a test may change."""

    def __init__(self, **leaders: BrokerId | Place) -> None:
        self.leaders = leaders
        self.queues = MarkerQueues(lambda each: self.leaders[f"t{each.partition}"])


def test_markers_are_queued_by_leader_and_taken_once() -> None:
    queues, one = Leaders(t0=B1, t1=B2, t2=B1).queues, outgoing()
    assert queues.put(one, [T0, T1, T2]) == {B1, B2}
    assert queues.marker_count == 3
    assert queues.take(B1) == {one: [T0, T2]}
    assert queues.take(B1) == {}
    assert queues.take(B2) == {one: [T1]}
    assert queues.marker_count == 0


def test_markers_without_a_leader_wait_until_there_is_one() -> None:
    world, one = Leaders(t0=Place.LEADERLESS, t1=Place.UNKNOWN, t2=B1), outgoing()
    queues = world.queues
    assert queues.put(one, [T0, T1, T2]) == {B1}
    assert queues.lost_count == 2
    assert queues.missing() == [(one, T1)]
    assert queues.look_up_again() == set()
    world.leaders["t0"] = B2
    assert queues.look_up_again() == {B2}
    assert queues.take(B2) == {one: [T0]}
    queues.forget(one, T1)
    queues.forget(one, T1)
    assert queues.lost_count == 0


def test_request_has_one_ending_of_each_producer() -> None:
    """A response names a marker by its producer id alone."""
    queues = Leaders(t0=B1, t1=B1).queues
    one, two = outgoing(7), outgoing(7)
    queues.put(one, [T0])
    queues.put(two, [T1])
    assert queues.take(B1) == {one: [T0]}
    assert queues.take(B1) == {two: [T1]}


def test_request_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_queues, "MAX_MARKERS_PER_REQUEST", 2)
    queues = Leaders(t0=B1, t1=B1, t2=B1).queues
    one, two = outgoing(7), outgoing(8)
    queues.put(one, [T0, T1, T2])
    queues.put(two, [T0])
    assert queues.take(B1) == {one: [T0, T1]}
    assert queues.take(B1) == {one: [T2], two: [T0]}


def test_markers_of_a_lost_partition_are_dropped_everywhere() -> None:
    queues = Leaders(t0=B1, t1=Place.UNKNOWN).queues
    one, two = outgoing(7, 0), outgoing(8, 1)
    for each in (one, two):
        queues.put(each, [T0, T1])
    queues.drop(lambda each: each.coordinator_partition == 0)
    assert queues.take(B1) == {two: [T0]}
    assert queues.missing() == [(two, T1)]


def test_marker_has_the_producer_the_decision_and_the_coordinators_epoch() -> None:
    marker = WritableTxnMarker(
        producer_id=7,
        producer_epoch=3,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0, 2])],
        coordinator_epoch=5,
    )
    assert markers_of({outgoing(is_commit=False): [T0, T2]}) == [marker]


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (ErrorCode.NONE, Outcome.DONE),
        (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, Outcome.DONE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Outcome.AGAIN),
        (ErrorCode.NOT_ENOUGH_REPLICAS, Outcome.AGAIN),
        (ErrorCode.INVALID_PRODUCER_EPOCH, Outcome.SUPERSEDED),
        (ErrorCode.TRANSACTION_COORDINATOR_FENCED, Outcome.SUPERSEDED),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, Outcome.REFUSED),
        (12_345, Outcome.REFUSED),
    ],
)
def test_each_error_has_an_outcome(code: int, outcome: Outcome) -> None:
    one = outgoing()
    result = WritableTxnMarkerPartitionResult(partition_index=0, error_code=code)
    topic = WritableTxnMarkerTopicResult(name="t", partitions=[result])
    response = WriteTxnMarkersResponse(
        markers=[WritableTxnMarkerResult(producer_id=7, topics=[topic])]
    )
    assert list(outcomes_of({one: [T0]}, response)) == [(one, T0, outcome, code)]


def test_marker_without_a_result_is_sent_again() -> None:
    one = outgoing()
    [(_, partition, outcome, _)] = outcomes_of({one: [T0]}, WriteTxnMarkersResponse(markers=[]))
    assert (partition, outcome) == (T0, Outcome.AGAIN)

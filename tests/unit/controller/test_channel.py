"""The queue to one incarnation of a broker."""

from controller.channel import Channel
from controller.effects import BrokerRequest, ControlRequest
from controller.events import LeaderAndIsrAnswered, StopReplicaAnswered
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kafkawire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from kafkawire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

B1 = BrokerId(1)


def request(message: ControlRequest, epoch: int = 5) -> BrokerRequest:
    return BrokerRequest(B1, epoch, message)


def stop(*, delete: bool) -> StopReplicaRequest:
    state = StopReplicaPartitionState(partition_index=2, delete_partition=delete)
    topic = StopReplicaTopicState(topic_name="t", partition_states=[state])
    return StopReplicaRequest(topic_states=[topic])


def test_one_request_is_in_flight_until_it_is_answered() -> None:
    channel = Channel(B1, 5)
    first, second = request(LeaderAndIsrRequest()), request(UpdateMetadataRequest())
    channel.put(first)
    channel.put(second)
    assert (channel.next(), channel.next()) == (first, None)
    channel.on_failure()
    assert channel.next() is first
    answer = LeaderAndIsrResponse()
    assert channel.on_response(answer) == LeaderAndIsrAnswered(B1, 5, answer)
    assert channel.next() is second
    assert channel.on_response(UpdateMetadataResponse()) is None
    assert len(channel) == 0


def test_only_answers_to_deletions_matter_of_stops() -> None:
    channel = Channel(B1, 5)
    for delete in (False, True):
        channel.put(request(stop(delete=delete)))
    answer = StopReplicaResponse()
    channel.next()
    assert channel.on_response(answer) is None
    channel.next()
    expected = StopReplicaAnswered(B1, 5, answer, (TopicPartition("t", 2),))
    assert channel.on_response(answer) == expected


def test_requests_of_another_life_are_dropped() -> None:
    channel = Channel(B1, 5)
    channel.put(request(LeaderAndIsrRequest(), epoch=4))
    assert channel.next() is None


def test_a_closed_channel_sends_nothing_and_takes_no_answer() -> None:
    channel = Channel(B1, 5)
    channel.put(request(LeaderAndIsrRequest()))
    channel.next()
    channel.close()
    channel.put(request(LeaderAndIsrRequest()))
    assert channel.next() is None
    assert channel.on_response(LeaderAndIsrResponse()) is None

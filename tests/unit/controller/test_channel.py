"""Queue of requests to one incarnation of a broker: `controller.channel`."""

from controller.channel import Channel
from controller.effects import BrokerRequest, ControlRequest
from controller.events import LeaderAndIsrResponseReceived, StopReplicaResponseReceived
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


def test_one_request_is_in_flight_until_its_response() -> None:
    channel = Channel(B1, 5)
    first, second = request(LeaderAndIsrRequest()), request(UpdateMetadataRequest())
    channel.put(first)
    channel.put(second)
    assert (channel.next(), channel.next()) == (first, None)
    channel.on_failure()
    assert channel.next() is first
    answer = LeaderAndIsrResponse()
    assert channel.on_response(answer) == LeaderAndIsrResponseReceived(B1, 5, answer)
    assert channel.next() is second
    assert channel.on_response(UpdateMetadataResponse()) is None
    assert len(channel) == 0


def test_only_stop_replica_responses_with_deletions_become_events() -> None:
    channel = Channel(B1, 5)
    for delete in (False, True):
        channel.put(request(stop(delete=delete)))
    answer = StopReplicaResponse()
    channel.next()
    assert channel.on_response(answer) is None
    channel.next()
    expected = StopReplicaResponseReceived(B1, 5, answer, (TopicPartition("t", 2),))
    assert channel.on_response(answer) == expected


def test_requests_for_another_incarnation_are_dropped() -> None:
    channel = Channel(B1, 5)
    channel.put(request(LeaderAndIsrRequest(), epoch=4))
    assert channel.next() is None


def test_a_closed_channel_ignores_requests_and_responses() -> None:
    channel = Channel(B1, 5)
    channel.put(request(LeaderAndIsrRequest()))
    channel.next()
    channel.close()
    channel.put(request(LeaderAndIsrRequest()))
    assert channel.next() is None
    assert channel.on_response(LeaderAndIsrResponse()) is None

"""Queue of requests to one incarnation of a broker (decision).

At most one request is in flight; the others wait in order. A request is retried until a response
arrives or the channel is closed. The channel is closed when the incarnation or our controllership
ends; no request may be sent after that. Responses that the controller needs are returned as events.
"""

from collections import deque
from typing import Final

from controller.effects import BrokerRequest
from controller.events import Event, LeaderAndIsrResponseReceived, StopReplicaResponseReceived
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.messages.leader_and_isr import LeaderAndIsrResponse
from kafkawire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kafkawire.messages.update_metadata import UpdateMetadataResponse

RETRY_BACKOFF_MS: Final = 100

ControlResponse = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse


class Channel:
    """Queue to the incarnation `broker_epoch` of `broker_id`."""

    def __init__(self, broker_id: BrokerId, broker_epoch: int) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self._waiting: deque[BrokerRequest] = deque()
        self._is_in_flight = False
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, request: BrokerRequest) -> None:
        """Queue a request; drop it if it is for another incarnation."""
        if request.broker_epoch == self.broker_epoch and not self._is_closed:
            self._waiting.append(request)

    def next(self) -> BrokerRequest | None:
        """Return the request to send now; None while one is in flight or the queue is empty."""
        if self._is_in_flight or not self._waiting:
            return None
        self._is_in_flight = True
        return self._waiting[0]

    def on_failure(self) -> None:
        """Record that the request in flight failed; `next` returns it again for the retry."""
        self._is_in_flight = False

    def on_response(self, response: ControlResponse) -> Event | None:
        """Complete the request in flight, and return the event for the controller, if any."""
        if self._is_closed:
            return None
        assert self._is_in_flight, "a response without a request"
        self._is_in_flight = False
        request = self._waiting.popleft().message
        if isinstance(response, LeaderAndIsrResponse):
            return LeaderAndIsrResponseReceived(self.broker_id, self.broker_epoch, response)
        if isinstance(response, StopReplicaResponse) and isinstance(request, StopReplicaRequest):
            deleted = _deleted(request)
            if deleted:
                return StopReplicaResponseReceived(
                    self.broker_id, self.broker_epoch, response, deleted
                )
        return None

    def close(self) -> None:
        """Drop all requests; further requests and responses are ignored."""
        self._is_closed = True
        self._is_in_flight = False
        self._waiting.clear()


def _deleted(request: StopReplicaRequest) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, partition.partition_index)
        for topic in request.topic_states
        for partition in topic.partition_states
        if partition.delete_partition
    )

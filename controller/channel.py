"""The requests that wait for one incarnation of a broker (decision).

One is in flight; the others wait in order. A request is repeated until it is answered, or until the
channel ends because the incarnation or our controllership has: nobody may get it after that. The
answers that matter come out as events.
"""

from collections import deque
from typing import Final

from controller.effects import BrokerRequest
from controller.events import Event, LeaderAndIsrAnswered, StopReplicaAnswered
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.messages.leader_and_isr import LeaderAndIsrResponse
from kafkawire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kafkawire.messages.update_metadata import UpdateMetadataResponse

RETRY_BACKOFF_MS: Final = 100

ControlResponse = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse


class Channel:
    """The queue to `broker_id` in its epoch `broker_epoch`."""

    def __init__(self, broker_id: BrokerId, broker_epoch: int) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self._waiting: deque[BrokerRequest] = deque()
        self._is_in_flight = False
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, request: BrokerRequest) -> None:
        """Queue a request; one for another incarnation is dropped."""
        if request.broker_epoch == self.broker_epoch and not self._is_closed:
            self._waiting.append(request)

    def next(self) -> BrokerRequest | None:
        """Return what to send now: None while one is in flight, or when nothing waits."""
        if self._is_in_flight or not self._waiting:
            return None
        self._is_in_flight = True
        return self._waiting[0]

    def on_failure(self) -> None:
        """Note that the request in flight was lost; send `next` again after the back-off."""
        self._is_in_flight = False

    def on_response(self, response: ControlResponse) -> Event | None:
        """Take the answer to the request in flight, and return what the controller must know."""
        if self._is_closed:
            return None
        assert self._is_in_flight, "an answer to nothing"
        self._is_in_flight = False
        request = self._waiting.popleft().message
        if isinstance(response, LeaderAndIsrResponse):
            return LeaderAndIsrAnswered(self.broker_id, self.broker_epoch, response)
        if isinstance(response, StopReplicaResponse) and isinstance(request, StopReplicaRequest):
            deleted = _deleted(request)
            if deleted:
                return StopReplicaAnswered(self.broker_id, self.broker_epoch, response, deleted)
        return None

    def close(self) -> None:
        """Drop everything: nothing is sent any more, and no answer is taken."""
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

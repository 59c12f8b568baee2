"""Records in-sync sets by AlterPartition, sent to the controller (edge).

Source: KIP-497, KIP-841, KIP-903; versions 0 to 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from broker.cluster.metadata_cache import Endpoint
from broker.replication.isr_changes import Answer, IsrQuestion
from broker.replication.leadership import Recorded
from broker.replication.peer import Peer, PeerError
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId
from kafkawire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)

FIRST_VERSION_WITH_TOPIC_IDS = 2
FIRST_VERSION_WITH_EPOCHS = 3
LAST_VERSION = 3

_Key = tuple[str | TopicId, int]


class AlterPartitionRecorder:
    """Asks the controller, wherever it is now."""

    def __init__(
        self,
        broker_id: BrokerId,
        *,
        controller_endpoint: Callable[[], Endpoint | None],
        broker_epoch: Callable[[], int],
        make_peer: Callable[[Endpoint], Peer],
    ) -> None:
        self._broker_id = broker_id
        self._controller_endpoint = controller_endpoint
        self._broker_epoch = broker_epoch
        self._make_peer = make_peer
        self._peer: Peer | None = None

    async def record(self, questions: Sequence[IsrQuestion]) -> Sequence[Answer]:
        """Return the controller's answers; see `IsrRecorder`.

        Raises:
            OSError: it did not answer, is not known, or is not controller any more.
        """
        peer = await self._peer_of_controller()
        version = await peer.choose_version(ApiKey.ALTER_PARTITION, LAST_VERSION)
        if any(question.topic_id == ZERO_TOPIC_ID for question in questions):
            version = min(version, FIRST_VERSION_WITH_TOPIC_IDS - 1)
        request = alter_partition(self._broker_id, self._broker_epoch(), questions, version)
        response = await peer.ask(request, AlterPartitionResponse, version=version)
        if response.error_code != ErrorCode.NONE:
            raise PeerError(f"the controller answers with error {response.error_code}")
        return answers_of(response, questions, version)

    async def close(self) -> None:
        """Close the connection to the controller."""
        if self._peer is not None:
            await self._peer.close()

    async def _peer_of_controller(self) -> Peer:
        endpoint = self._controller_endpoint()
        if endpoint is None:
            raise PeerError("the controller is not known")
        if self._peer is not None and self._peer.endpoint != endpoint:
            await self._peer.close()
            self._peer = None
        if self._peer is None:
            self._peer = self._make_peer(endpoint)
        return self._peer


def alter_partition(
    broker_id: BrokerId, broker_epoch: int, questions: Sequence[IsrQuestion], version: int
) -> AlterPartitionRequest:
    """Return the request that asks `questions`."""
    ordered = sorted(questions)
    topics = [
        RequestTopicData(
            topic_name=name,
            topic_id=topic_id,
            partitions=[_partition(question, version) for question in group],
        )
        for (name, topic_id), group in groupby(
            ordered, key=lambda question: (question.topic_partition.topic, question.topic_id)
        )
    ]
    return AlterPartitionRequest(broker_id=broker_id, broker_epoch=broker_epoch, topics=topics)


def _partition(question: IsrQuestion, version: int) -> RequestPartitionData:
    proposal = question.proposal
    data = RequestPartitionData(
        partition_index=question.topic_partition.partition,
        leader_epoch=proposal.leader_epoch,
        partition_epoch=proposal.partition_epoch,
    )
    if version >= FIRST_VERSION_WITH_EPOCHS:
        data.new_isr_with_epochs = [
            BrokerState(broker_id=one, broker_epoch=epoch) for one, epoch in proposal.isr
        ]
    else:
        data.new_isr = [one for one, _ in proposal.isr]
    return data


def answers_of(
    response: AlterPartitionResponse, questions: Sequence[IsrQuestion], version: int
) -> Sequence[Answer]:
    """Return the answer to each question.

    One that the response leaves out is unknown: it is asked again.
    """
    has_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
    found: Mapping[_Key, Answer] = {
        (topic.topic_id if has_ids else topic.topic_name, data.partition_index): _answer(data)
        for topic in response.topics
        for data in topic.partitions
    }
    return [
        found.get(
            (
                question.topic_id if has_ids else question.topic_partition.topic,
                question.topic_partition.partition,
            ),
            ErrorCode.UNKNOWN_SERVER_ERROR,
        )
        for question in questions
    ]


def _answer(data: ResponsePartitionData) -> Answer:
    if data.error_code != ErrorCode.NONE:
        try:
            return ErrorCode(data.error_code)
        except ValueError:
            return ErrorCode.UNKNOWN_SERVER_ERROR
    return Recorded(
        isr=frozenset(map(BrokerId, data.isr)),
        leader_epoch=LeaderEpoch(data.leader_epoch),
        partition_epoch=data.partition_epoch,
    )

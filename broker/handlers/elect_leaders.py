"""ElectLeaders: preferred or unclean elections, held only by the controller (edge)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import groupby
from typing import Final

from broker.cluster.controller_role import ControllerRole
from broker.cluster.metadata_cache import ClusterImage
from broker.cluster.metadata_watch import MetadataWatch
from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.messages.reassignment import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

PREFERRED: Final = 0
UNCLEAN: Final = 1

Codes = Mapping[TopicPartition, ErrorCode]

APIS: Final[Apis] = {
    ApiKey.ELECT_LEADERS: lambda parts: (
        ElectLeadersHandler(parts.tasks, parts.watch, parts.controller).handle
    ),
}


class ElectLeadersHandler:
    """Hands the request to the controller component."""

    def __init__(
        self, tasks: RequestTasks, watch: MetadataWatch, controller: ControllerRole
    ) -> None:
        self._tasks = tasks
        self._watch = watch
        self._controller = controller

    def handle(self, request: Request, message: ElectLeadersRequest) -> Reply:
        """Respond with a result for every partition once the metadata has the new leaders."""
        del request
        return self._tasks.run(partial(self._elect, message))

    async def _elect(self, message: ElectLeadersRequest) -> ElectLeadersResponse:
        asked = _partitions(message)
        if message.election_type not in (PREFERRED, UNCLEAN):
            refused = ErrorCode.INVALID_REQUEST
            return _answer(refused, dict.fromkeys(asked or (), refused))
        is_unclean = message.election_type == UNCLEAN
        result = await self._controller.elect_leaders(asked, is_unclean=is_unclean)
        if isinstance(result, ErrorCode):
            return _answer(result, dict.fromkeys(asked or (), result))
        codes = {
            partition: code
            for partition, code in sorted(result.items())
            if asked is not None or code is not ErrorCode.ELECTION_NOT_NEEDED
        }
        return _answer(
            ErrorCode.NONE,
            await self._wait_for_leaders(codes, message.timeout_ms, is_unclean=is_unclean),
        )

    async def _wait_for_leaders(
        self, codes: Codes, timeout_ms: int, *, is_unclean: bool
    ) -> Mapping[TopicPartition, ErrorCode]:
        elected = [partition for partition, code in codes.items() if code is ErrorCode.NONE]

        def is_seen(image: ClusterImage, partition: TopicPartition) -> bool:
            state = image.partition(partition)
            if state is None:
                return False
            leader = state.leader_and_isr.leader
            return leader >= 0 if is_unclean else leader == state.replicas[0]

        late = set(await self._watch.wait_for_each(elected, is_seen, timeout_ms))
        return {
            partition: ErrorCode.REQUEST_TIMED_OUT if partition in late else code
            for partition, code in codes.items()
        }


def _partitions(message: ElectLeadersRequest) -> list[TopicPartition] | None:
    """Return the requested partitions; None means all partitions."""
    if message.topic_partitions is None:
        return None
    return [
        TopicPartition(topic.topic, partition)
        for topic in message.topic_partitions
        for partition in topic.partitions
    ]


def _answer(code: ErrorCode, codes: Codes) -> ElectLeadersResponse:
    results = [
        ReplicaElectionResult(
            topic=topic,
            partition_result=[
                PartitionResult(
                    partition_id=partition.partition,
                    error_code=codes[partition],
                    error_message=None
                    if codes[partition] is ErrorCode.NONE
                    else codes[partition].text,
                )
                for partition in partitions
            ],
        )
        for topic, partitions in groupby(sorted(codes), key=lambda each: each.topic)
    ]
    return ElectLeadersResponse(error_code=code, replica_election_results=results)

"""Elects leaders and moves replicas (edge)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicPartition, by_topic
from kafkawire.messages.reassignment import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from ottla.client.admin.admin_request import (
    change,
    change_parts,
    error_or_none,
    raise_first,
    raise_refused,
    read,
)
from ottla.client.admin_model import ElectionType, Reassignment
from ottla.client.argument import (
    MIN_INT32,
    require_by_partition,
    require_list,
    require_partitions,
    require_whole,
)
from ottla.client.errors import BrokerError, LeaderElectionError, OttlaError, broker_error
from ottla.client.network.cluster import Cluster
from ottla.client.request_parts import parts

MAX_MOVES_PER_REQUEST: Final = 500
"""Brokers limit the elements of a request, and each replica of a move is one."""


async def elect_leaders(
    cluster: Cluster,
    partitions: Iterable[TopicPartition] | None,
    kind: ElectionType,
    timeout_ms: int,
) -> list[TopicPartition]:
    """Elect leaders; return the partitions whose leader changed.

    A partition that already has the right leader is left out; it is not an error.

    Raises:
        LeaderElectionError: partitions could not elect a leader.
    """
    places = None if partitions is None else require_partitions("partitions", partitions)
    elected: list[TopicPartition] = []
    refused: dict[TopicPartition, BrokerError] = {}
    for part in [None] if places is None else list(parts(places)) or [[]]:
        try:
            elected += await _elect_some(cluster, part, kind, timeout_ms)
        except LeaderElectionError as error:
            # The elections in the other requests are independent of these.
            elected += error.elected
            refused |= error.refused
        except OttlaError as error:
            for refusal in refused.values():
                error.add_note(str(refusal))
            raise
    if refused:
        raise LeaderElectionError(refused, elected)
    return elected


async def _elect_some(
    cluster: Cluster,
    places: list[TopicPartition] | None,
    kind: ElectionType,
    timeout_ms: int,
) -> list[TopicPartition]:
    """Elect leaders of `places`, of all partitions if None; return the changed ones."""
    wanted = None
    if places is not None:
        wanted = [
            TopicPartitions(topic=topic, partitions=numbers)
            for topic, numbers in by_topic(places).items()
        ]
    request = ElectLeadersRequest(
        election_type=kind, topic_partitions=wanted, timeout_ms=timeout_ms
    )

    elected: list[TopicPartition] = []

    async def attempt() -> list[TopicPartition]:
        response = await cluster.request_controller(request, ElectLeadersResponse)
        raise_first([error_or_none(response.error_code, "the election")])
        results = [
            (TopicPartition(topic.topic, each.partition_id), each.error_code, each.error_message)
            for topic in response.replica_election_results
            for each in topic.partition_result
        ]
        elected.extend(where for where, code, _message in results if code == ErrorCode.NONE)
        refused = {
            where: broker_error(code, f"partition {where}", message)
            for where, code, message in results
            if code not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
        }
        answered = {where for where, _code, _message in results}
        for missing in [each for each in places or () if each not in answered]:
            detail = "the response has no result for it"
            refused[missing] = broker_error(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"partition {missing}", detail
            )
        if refused:
            raise LeaderElectionError(refused, elected)
        return elected

    return await change(cluster, attempt, timeout_ms / 1000)


async def alter_reassignments(
    cluster: Cluster, moves: Mapping[TopicPartition, Sequence[int] | None], timeout_ms: int
) -> None:
    """Start to move partitions, or with None cancel their move.

    Raises:
        BrokerError: the first refusal, with the others as notes.
    """
    moves = require_by_partition("moves", moves)
    for replicas in moves.values():
        for each in () if replicas is None else require_list("replicas", "ids", replicas):
            require_whole("a replica", each, MIN_INT32)

    async def alter(part: list[TopicPartition]) -> None:
        await _alter_some(cluster, {each: moves[each] for each in part}, timeout_ms)

    # The moves in one request are independent of the ones in the others.
    await change_parts(parts(moves, MAX_MOVES_PER_REQUEST), alter)


async def _alter_some(
    cluster: Cluster, moves: Mapping[TopicPartition, Sequence[int] | None], timeout_ms: int
) -> None:
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=timeout_ms,
        topics=[
            ReassignableTopic(
                name=topic,
                partitions=[
                    ReassignablePartition(
                        partition_index=number, replicas=moves[TopicPartition(topic, number)]
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(moves).items()
        ],
    )

    async def attempt() -> None:
        response = await cluster.request_controller(request, AlterPartitionReassignmentsResponse)
        raise_first(
            [error_or_none(response.error_code, "the reassignment", response.error_message)]
        )
        raise_refused(
            (f"partition {place}" for place in moves),
            (
                (f"partition {topic.name}-{it.partition_index}", it.error_code, it.error_message)
                for topic in response.responses
                for it in topic.partitions
            ),
        )

    await change(cluster, attempt, timeout_ms / 1000)


async def list_reassignments(
    cluster: Cluster, partitions: Iterable[TopicPartition] | None, timeout_ms: int
) -> dict[TopicPartition, Reassignment]:
    """Return the moves in progress of `partitions`, of all partitions if None.

    Raises:
        BrokerError: the controller refuses the request.
    """
    if partitions is None:
        return await _list_some(cluster, None, timeout_ms)
    found: dict[TopicPartition, Reassignment] = {}
    for part in list(parts(require_partitions("partitions", partitions))) or [[]]:
        wanted = [
            ListPartitionReassignmentsTopics(name=topic, partition_indexes=numbers)
            for topic, numbers in by_topic(part).items()
        ]
        found |= await _list_some(cluster, wanted, timeout_ms)
    return found


async def _list_some(
    cluster: Cluster, wanted: list[ListPartitionReassignmentsTopics] | None, timeout_ms: int
) -> dict[TopicPartition, Reassignment]:
    request = ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=wanted)

    async def attempt() -> dict[TopicPartition, Reassignment]:
        response = await cluster.request_controller(request, ListPartitionReassignmentsResponse)
        raise_first([error_or_none(response.error_code, "reassignments", response.error_message)])
        return dict(_moves(response))

    return await read(cluster, attempt, timeout_ms / 1000)


def _moves(
    response: ListPartitionReassignmentsResponse,
) -> Iterator[tuple[TopicPartition, Reassignment]]:
    for topic in response.topics:
        for each in topic.partitions:
            yield (
                TopicPartition(topic.name, each.partition_index),
                Reassignment(
                    replicas=tuple(map(BrokerId, each.replicas)),
                    adding=tuple(map(BrokerId, each.adding_replicas)),
                    removing=tuple(map(BrokerId, each.removing_replicas)),
                ),
            )

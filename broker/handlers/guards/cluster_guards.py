"""Guards of the APIs that need one operation on the cluster (edge)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Final

from broker.handlers.guards.guard import Guard, Maker, of_cluster
from broker.handlers.handler_table import Parts
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.router import Handler
from broker.replication.control_orders import (
    replica_stops,
    role_changes,
    roles_response,
    stop_response,
)
from kafkawire.acl import Operation
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from kafkawire.messages.allocate_producer_ids import AllocateProducerIdsResponse
from kafkawire.messages.alter_partition import AlterPartitionResponse
from kafkawire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kafkawire.messages.client_quotas import (
    AlterationResult,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasResponse,
)
from kafkawire.messages.controlled_shutdown import ControlledShutdownResponse
from kafkawire.messages.describe_log_dirs import DescribeLogDirsResponse
from kafkawire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kafkawire.messages.reassignment import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    PartitionResult,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    ReplicaElectionResult,
)
from kafkawire.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    DescribeUserScramCredentialsResponse,
)
from kafkawire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kafkawire.messages.update_metadata import UpdateMetadataResponse

DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TEXT: Final = DENIED.text


def leader_and_isr(request: Request, message: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
    """Return the denial of a LeaderAndIsr request, for each partition as well."""
    codes = {change.topic_partition: DENIED for change in role_changes(message)}
    response = roles_response(message, codes, request.header.api_version)
    return replace(response, error_code=DENIED)


def stop_replica(_request: Request, message: StopReplicaRequest) -> StopReplicaResponse:
    """Return the denial of a StopReplica request, for each partition as well."""
    response = stop_response({stop.topic_partition: DENIED for stop in replica_stops(message)})
    return replace(response, error_code=DENIED)


def elect_leaders(_request: Request, message: ElectLeadersRequest) -> ElectLeadersResponse:
    """Return the denial of an election, for each named partition as well."""
    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                PartitionResult(partition_id=index, error_code=DENIED, error_message=TEXT)
                for index in topic.partitions
            ],
        )
        for topic in message.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=DENIED, replica_election_results=results)


def alter_reassignments(
    _request: Request, message: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Return the denial of reassignments, for each partition as well."""
    responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(
                    partition_index=each.partition_index, error_code=DENIED, error_message=TEXT
                )
                for each in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    return AlterPartitionReassignmentsResponse(
        error_code=DENIED, error_message=TEXT, responses=responses
    )


def list_reassignments(
    _request: Request, message: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Return the denial of a list, with the requested partitions and nothing about them."""
    topics = [
        OngoingTopicReassignment(
            name=topic.name,
            partitions=[
                OngoingPartitionReassignment(partition_index=index)
                for index in topic.partition_indexes
            ],
        )
        for topic in message.topics or ()
    ]
    return ListPartitionReassignmentsResponse(error_code=DENIED, error_message=TEXT, topics=topics)


def alter_log_dirs(
    _request: Request, message: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Return the denial of moves, partition by partition."""
    topics: defaultdict[str, list[AlterReplicaLogDirPartitionResult]] = defaultdict(list)
    for directory in message.dirs:
        for topic in directory.topics:
            topics[topic.name] += [
                AlterReplicaLogDirPartitionResult(partition_index=index, error_code=DENIED)
                for index in topic.partitions
            ]
    results = [
        AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
        for name, partitions in topics.items()
    ]
    return AlterReplicaLogDirsResponse(results=results)


def alter_quotas(_request: Request, message: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Return the denial of quotas, entity by entity."""
    entries = [
        AlterationResult(error_code=DENIED, error_message=TEXT, entity=each.entity)
        for each in message.entries
    ]
    return AlterClientQuotasResponse(entries=entries)


def alter_users(parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """Require ALTER on the cluster from the clients of the controller.

    Any other broker refuses before it checks rights, as in Kafka, so that clients look for the
    controller. It does not call the handler, because it may become the controller before that runs.
    """

    def guarded(request: Request, message: AlterUserScramCredentialsRequest) -> Reply:
        if not parts.controller.is_active:
            return Reply(refused_users(message, ErrorCode.NOT_CONTROLLER))
        if guard.allows_on_cluster(request, Operation.ALTER):
            return handle(request, message)
        return Reply(refused_users(message, DENIED))

    return guarded


def refused_users(
    message: AlterUserScramCredentialsRequest, code: ErrorCode
) -> AlterUserScramCredentialsResponse:
    """Return the refusal of changed credentials, for each user."""
    names = [each.name for each in message.deletions]
    names += [each.name for each in message.upsertions]
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=name, error_code=code, error_message=code.text)
            for name in dict.fromkeys(names)
        ]
    )


def describe_acls(_request: Request, _message: DescribeAclsRequest) -> DescribeAclsResponse:
    """Return the denial of a list."""
    return DescribeAclsResponse(error_code=DENIED, error_message=TEXT)


def create_acls(_request: Request, message: CreateAclsRequest) -> CreateAclsResponse:
    """Return the denial of each creation."""
    refused = AclCreationResult(error_code=DENIED, error_message=TEXT)
    return CreateAclsResponse(results=[refused] * len(message.creations))


def delete_acls(_request: Request, message: DeleteAclsRequest) -> DeleteAclsResponse:
    """Return the denial of each filter."""
    refused = DeleteAclsFilterResult(error_code=DENIED, error_message=TEXT)
    return DeleteAclsResponse(filter_results=[refused] * len(message.filters))


GUARDS: Final[dict[ApiKey, Maker]] = {
    ApiKey.LEADER_AND_ISR: of_cluster(Operation.CLUSTER_ACTION, leader_and_isr),
    ApiKey.STOP_REPLICA: of_cluster(Operation.CLUSTER_ACTION, stop_replica),
    ApiKey.UPDATE_METADATA: of_cluster(
        Operation.CLUSTER_ACTION,
        lambda _request, _message: UpdateMetadataResponse(error_code=DENIED),
    ),
    ApiKey.CONTROLLED_SHUTDOWN: of_cluster(
        Operation.CLUSTER_ACTION,
        lambda _request, _message: ControlledShutdownResponse(error_code=DENIED),
    ),
    ApiKey.ALTER_PARTITION: of_cluster(
        Operation.CLUSTER_ACTION,
        lambda _request, _message: AlterPartitionResponse(error_code=DENIED),
    ),
    ApiKey.ALLOCATE_PRODUCER_IDS: of_cluster(
        Operation.CLUSTER_ACTION,
        lambda _request, _message: AllocateProducerIdsResponse(error_code=DENIED),
    ),
    ApiKey.ELECT_LEADERS: of_cluster(Operation.ALTER, elect_leaders),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: of_cluster(Operation.ALTER, alter_reassignments),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: of_cluster(Operation.DESCRIBE, list_reassignments),
    ApiKey.ALTER_REPLICA_LOG_DIRS: of_cluster(Operation.ALTER, alter_log_dirs),
    ApiKey.DESCRIBE_LOG_DIRS: of_cluster(
        Operation.DESCRIBE, lambda _request, _message: DescribeLogDirsResponse(error_code=DENIED)
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: of_cluster(
        Operation.DESCRIBE_CONFIGS,
        lambda _request, _message: DescribeClientQuotasResponse(
            error_code=DENIED, error_message=TEXT, entries=None
        ),
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: of_cluster(Operation.ALTER_CONFIGS, alter_quotas),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: of_cluster(
        Operation.DESCRIBE,
        lambda _request, _message: DescribeUserScramCredentialsResponse(
            error_code=DENIED, error_message=TEXT
        ),
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: alter_users,
    ApiKey.DESCRIBE_ACLS: of_cluster(Operation.DESCRIBE, describe_acls),
    ApiKey.CREATE_ACLS: of_cluster(Operation.ALTER, create_acls),
    ApiKey.DELETE_ACLS: of_cluster(Operation.ALTER, delete_acls),
}

"""Every API with the right that it needs, for brokers with an authorizer (edge).

A row is sent by a client without rights, by one with exactly the right, and by a super user. The
`summary` of a response holds the errors and the names that they belong to, so that the responses of
Ottla and Kafka can be compared.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import UUID

from kafkawire.acl import AclFilter, Operation, ResourcePattern, ResourceType
from kafkawire.apis import APIS, ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from kafkawire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kafkawire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from kafkawire.messages.alter_partition import AlterPartitionRequest
from kafkawire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kafkawire.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlteredEntry,
    DescribeClientQuotasRequest,
    EntityData,
    OpData,
)
from kafkawire.messages.controlled_shutdown import ControlledShutdownRequest
from kafkawire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkawire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkawire.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from kafkawire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkawire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkawire.messages.describe_cluster import DescribeClusterRequest
from kafkawire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkawire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kafkawire.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopic
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kafkawire.messages.find_coordinator import FindCoordinatorRequest
from kafkawire.messages.group_admin import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from kafkawire.messages.group_membership import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from kafkawire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafkawire.messages.incremental_alter_configs import (
    AlterableConfig as IncrementalConfig,
)
from kafkawire.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from kafkawire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafkawire.messages.init_producer_id import InitProducerIdRequest
from kafkawire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from kafkawire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafkawire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkawire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkawire.messages.reassignment import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from kafkawire.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from kafkawire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from kafkawire.messages.transaction_admin import (
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from kafkawire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kafkawire.messages.update_metadata import UpdateMetadataRequest
from tests.integration.broker.acl_client import CLIENT_HOST, CLUSTER, acl, add, group, remove, topic
from tests.integration.broker.wire import Wire, batch
from tests.integration.coordination.process import wait_until

GROUP: Final = "matrix-group"
HIDDEN: Final = "hidden"
"""A topic that no client has a right on; `ABSENT` does not exist."""
ABSENT: Final = "absent"
CODES: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
KEPT: Final = {
    "authorized_operations",
    "cluster_authorized_operations",
    "coordinator_keys",
    "error_code",
    "group_id",
    "group_state",
    "index",
    "key",
    "name",
    "num_partitions",
    "partition",
    "partition_error_code",
    "partition_id",
    "partition_index",
    "replication_factor",
    "resource_name",
    "resource_type",
    "topic",
    "topic_authorized_operations",
    "topic_config_error_code",
    "topic_name",
}
ERROR_FIELDS: Final = ("error_code", "partition_error_code")
DROPPED: Final = {
    "active_producers",
    "api_keys",
    "brokers",
    "configs",
    "isr_nodes",
    "replica_nodes",
    "supported_features",
}


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A client in front of a broker: the topics with its name are its own."""

    client: str
    topic_ids: Mapping[str, UUID]

    @property
    def topic(self) -> str:
        return f"{self.client}-topic"

    @property
    def doomed(self) -> str:
        return f"{self.client}-doomed"

    @property
    def doomed_by_id(self) -> str:
        return f"{self.client}-doomed-by-id"

    @property
    def new(self) -> str:
        return f"{self.client}-new"


Right = tuple[Operation, ResourcePattern]
Rights = Callable[["Stage"], Sequence[Right]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One request, the rights that it needs, and the errors without them."""

    name: str
    key: ApiKey
    version: int
    message: Callable[[Stage], object]
    rights: Callable[[Stage], Sequence[Right]] = lambda _stage: ()
    denied: frozenset[ErrorCode] = frozenset()
    is_between_brokers: bool = False
    """Whether only brokers may send it, even with the right."""


ROWS: list[Row] = []
rights: Rights
TOPIC_DENIED: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED})
GROUP_DENIED: Final = frozenset({ErrorCode.GROUP_AUTHORIZATION_FAILED})
CLUSTER_DENIED: Final = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
ID_DENIED: Final = frozenset({ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})


def row(
    name: str,
    key: ApiKey,
    version: int,
    message: Callable[[Stage], object],
    rights: Callable[[Stage], Sequence[Right]] = lambda _stage: (),
    denied: frozenset[ErrorCode] = frozenset(),
    *,
    is_between_brokers: bool = False,
) -> None:
    names = {each.name for each in ROWS}
    ROWS.append(
        Row(
            name=f"{name}, another right" if name in names else name,
            key=key,
            version=version,
            message=message,
            rights=rights,
            denied=denied,
            is_between_brokers=is_between_brokers,
        )
    )


def on_topic(operation: Operation) -> Callable[[Stage], Sequence[Right]]:
    return lambda stage: [(operation, topic(stage.topic))]


def on_cluster(operation: Operation) -> Callable[[Stage], Sequence[Right]]:
    return lambda _stage: [(operation, CLUSTER)]


def on_id(operation: Operation) -> Callable[[Stage], Sequence[Right]]:
    return lambda _stage: [(operation, ResourcePattern(ResourceType.TRANSACTIONAL_ID, "id"))]


def on_group(operation: Operation) -> Callable[[Stage], Sequence[Right]]:
    return lambda _stage: [(operation, group(GROUP))]


def named(stage: Stage) -> tuple[str, str, str]:
    """Return a topic of the client, and two that look alike to it."""
    return stage.topic, HIDDEN, ABSENT


for version in (3, 9):
    row(
        f"Produce v{version}",
        ApiKey.PRODUCE,
        version,
        lambda stage: ProduceRequest(
            acks=1,
            timeout_ms=5000,
            topic_data=[
                TopicProduceData(
                    name=name,
                    partition_data=[PartitionProduceData(index=0, records=batch(b"x"))],
                )
                for name in named(stage)
            ],
        ),
        on_topic(Operation.WRITE),
        TOPIC_DENIED,
    )


def produce_in_transaction(id_: str | None, stage: Stage) -> ProduceRequest:
    records = batch(b"x", producer_id=7, is_transactional=True)
    partitions = [PartitionProduceData(index=0, records=records)]
    return ProduceRequest(
        transactional_id=id_,
        acks=1,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name=stage.topic, partition_data=partitions)],
    )


for transactional_id in (None, "id"):
    row(
        f"Produce in a transaction, id {transactional_id}",
        ApiKey.PRODUCE,
        9,
        partial(produce_in_transaction, transactional_id),
        on_topic(Operation.WRITE),
        ID_DENIED,
        is_between_brokers=True,
    )
row(
    "Fetch by name",
    ApiKey.FETCH,
    12,
    lambda stage: FetchRequest(
        topics=[
            FetchTopic(topic=name, partitions=[FetchPartition(partition_max_bytes=1000)])
            for name in named(stage)
        ]
    ),
    on_topic(Operation.READ),
    TOPIC_DENIED,
)
row(
    "Fetch by id",
    ApiKey.FETCH,
    16,
    lambda stage: FetchRequest(
        replica_state=ReplicaState(),
        topics=[
            FetchTopic(
                topic_id=stage.topic_ids.get(name, UUID(int=9)),
                partitions=[FetchPartition(partition_max_bytes=1000)],
            )
            for name in named(stage)
        ],
    ),
    on_topic(Operation.READ),
    TOPIC_DENIED,
)
row(
    "Fetch of a follower",
    ApiKey.FETCH,
    12,
    lambda stage: FetchRequest(
        replica_id=5,
        topics=[
            FetchTopic(topic=name, partitions=[FetchPartition(partition_max_bytes=1000)])
            for name in named(stage)
        ],
    ),
    on_topic(Operation.READ),
    TOPIC_DENIED,
    is_between_brokers=True,
)
for version in (1, 8):
    row(
        f"ListOffsets v{version}",
        ApiKey.LIST_OFFSETS,
        version,
        lambda stage: ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(timestamp=-1)])
                for name in named(stage)
            ],
        ),
        on_topic(Operation.DESCRIBE),
        TOPIC_DENIED,
    )


def metadata(has_operations: bool, stage: Stage) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in named(stage)],
        include_topic_authorized_operations=has_operations,
    )


for version in (0, 5, 12):
    row(
        f"Metadata v{version}",
        ApiKey.METADATA,
        version,
        partial(metadata, version >= 8),
        on_topic(Operation.DESCRIBE),
        TOPIC_DENIED,
    )
row(
    "Metadata by id",
    ApiKey.METADATA,
    12,
    lambda stage: MetadataRequest(
        topics=[
            MetadataRequestTopic(name=None, topic_id=stage.topic_ids.get(name, UUID(int=9)))
            for name in named(stage)
        ],
    ),
    on_topic(Operation.DESCRIBE),
    TOPIC_DENIED,
)
row(
    "Metadata of the cluster",
    ApiKey.METADATA,
    10,
    lambda _stage: MetadataRequest(topics=[], include_cluster_authorized_operations=True),
    on_cluster(Operation.DESCRIBE),
)
row(
    "LeaderAndIsr v6",
    ApiKey.LEADER_AND_ISR,
    6,
    lambda stage: LeaderAndIsrRequest(
        controller_id=7,
        topic_states=[
            LeaderAndIsrTopicState(
                topic_name=stage.topic,
                topic_id=stage.topic_ids[stage.topic],
                partition_states=[LeaderAndIsrPartitionState()],
            )
        ],
    ),
    on_cluster(Operation.CLUSTER_ACTION),
    CLUSTER_DENIED,
    is_between_brokers=True,
)
row(
    "LeaderAndIsr v4",
    ApiKey.LEADER_AND_ISR,
    4,
    lambda stage: LeaderAndIsrRequest(
        controller_id=7,
        topic_states=[
            LeaderAndIsrTopicState(
                topic_name=stage.topic, partition_states=[LeaderAndIsrPartitionState()]
            )
        ],
    ),
    on_cluster(Operation.CLUSTER_ACTION),
    CLUSTER_DENIED,
    is_between_brokers=True,
)
row(
    "StopReplica",
    ApiKey.STOP_REPLICA,
    3,
    lambda stage: StopReplicaRequest(
        controller_id=7,
        topic_states=[
            StopReplicaTopicState(
                topic_name=stage.topic, partition_states=[StopReplicaPartitionState()]
            )
        ],
    ),
    on_cluster(Operation.CLUSTER_ACTION),
    CLUSTER_DENIED,
    is_between_brokers=True,
)


def always(message: object, _stage: Stage) -> object:
    return message


for key, message in (
    (ApiKey.UPDATE_METADATA, UpdateMetadataRequest(controller_id=7)),
    (ApiKey.CONTROLLED_SHUTDOWN, ControlledShutdownRequest(broker_id=7)),
    (ApiKey.ALTER_PARTITION, AlterPartitionRequest(broker_id=7)),
    (ApiKey.ALLOCATE_PRODUCER_IDS, AllocateProducerIdsRequest(broker_id=7)),
):
    row(
        APIS[key].name,
        key,
        0 if key is ApiKey.ALLOCATE_PRODUCER_IDS else 2,
        partial(always, message),
        on_cluster(Operation.CLUSTER_ACTION),
        CLUSTER_DENIED,
        is_between_brokers=True,
    )


def commits(stage: Stage) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=GROUP,
        topics=[
            OffsetCommitRequestTopic(
                name=name, partitions=[OffsetCommitRequestPartition(committed_offset=1)]
            )
            for name in named(stage)
        ],
    )


row(
    "OffsetCommit",
    ApiKey.OFFSET_COMMIT,
    8,
    commits,
    lambda stage: [(Operation.READ, group(GROUP)), (Operation.READ, topic(stage.topic))],
    GROUP_DENIED,
)
row(
    "OffsetCommit without a topic",
    ApiKey.OFFSET_COMMIT,
    2,
    commits,
    on_group(Operation.READ),
    GROUP_DENIED,
)


def both(stage: Stage) -> Sequence[Right]:
    return [(Operation.DESCRIBE, group(GROUP)), (Operation.DESCRIBE, topic(stage.topic))]


for version in (1, 7):
    row(
        f"OffsetFetch v{version}",
        ApiKey.OFFSET_FETCH,
        version,
        lambda stage: OffsetFetchRequest(
            group_id=GROUP,
            topics=[
                OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in named(stage)
            ],
        ),
        both,
        GROUP_DENIED,
    )
row(
    "OffsetFetch of all topics",
    ApiKey.OFFSET_FETCH,
    7,
    lambda _stage: OffsetFetchRequest(group_id=GROUP, topics=None),
    both,
    GROUP_DENIED,
)
row(
    "OffsetFetch of several groups",
    ApiKey.OFFSET_FETCH,
    8,
    lambda stage: OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=GROUP,
                topics=[
                    OffsetFetchRequestTopics(name=name, partition_indexes=[0])
                    for name in named(stage)
                ],
            ),
            OffsetFetchRequestGroup(group_id="other-group", topics=None),
        ]
    ),
    both,
    GROUP_DENIED,
)
for version in (3, 4):
    row(
        f"FindCoordinator v{version}",
        ApiKey.FIND_COORDINATOR,
        version,
        partial(
            always,
            FindCoordinatorRequest(
                key=GROUP if version < 4 else "",
                coordinator_keys=[GROUP, "other-group"] if version >= 4 else [],
            ),
        ),
        on_group(Operation.DESCRIBE),
        GROUP_DENIED,
    )
row(
    "FindCoordinator of a transactional id",
    ApiKey.FIND_COORDINATOR,
    4,
    lambda _stage: FindCoordinatorRequest(key_type=1, coordinator_keys=["id"]),
    on_id(Operation.DESCRIBE),
    ID_DENIED,
)
for version in (3, 9):
    row(
        f"JoinGroup v{version}",
        ApiKey.JOIN_GROUP,
        version,
        # With a session timeout out of range, the right leads to an error at once.
        lambda _stage: JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=1,
            rebalance_timeout_ms=1000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range")],
        ),
        on_group(Operation.READ),
        GROUP_DENIED,
    )
row(
    "SyncGroup",
    ApiKey.SYNC_GROUP,
    5,
    lambda _stage: SyncGroupRequest(
        group_id=GROUP, member_id="m", protocol_type="consumer", protocol_name="range"
    ),
    on_group(Operation.READ),
    GROUP_DENIED,
)
row(
    "Heartbeat",
    ApiKey.HEARTBEAT,
    4,
    lambda _stage: HeartbeatRequest(group_id=GROUP, member_id="m"),
    on_group(Operation.READ),
    GROUP_DENIED,
)
for version in (1, 5):
    row(
        f"LeaveGroup v{version}",
        ApiKey.LEAVE_GROUP,
        version,
        partial(
            always,
            LeaveGroupRequest(
                group_id=GROUP,
                member_id="m" if version < 3 else "",
                members=[MemberIdentity(member_id="m")] if version >= 3 else [],
            ),
        ),
        on_group(Operation.READ),
        GROUP_DENIED,
    )
row(
    "DescribeGroups",
    ApiKey.DESCRIBE_GROUPS,
    5,
    lambda _stage: DescribeGroupsRequest(
        groups=[GROUP, "other-group"], include_authorized_operations=True
    ),
    on_group(Operation.DESCRIBE),
    GROUP_DENIED,
)
row("ListGroups", ApiKey.LIST_GROUPS, 4, lambda _stage: ListGroupsRequest(), both)
row(
    "ListGroups for DESCRIBE on the cluster",
    ApiKey.LIST_GROUPS,
    4,
    lambda _stage: ListGroupsRequest(),
    on_cluster(Operation.DESCRIBE),
)
row(
    "DeleteGroups",
    ApiKey.DELETE_GROUPS,
    2,
    lambda _stage: DeleteGroupsRequest(groups_names=["absent-group", "other-group"]),
    lambda _stage: [(Operation.DELETE, group("absent-group"))],
    GROUP_DENIED,
)
row(
    "OffsetDelete",
    ApiKey.OFFSET_DELETE,
    0,
    lambda stage: OffsetDeleteRequest(
        group_id=GROUP,
        topics=[
            OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition()])
            for name in (stage.topic, HIDDEN, ABSENT)
        ],
    ),
    lambda stage: [(Operation.DELETE, group(GROUP)), (Operation.READ, topic(stage.topic))],
    GROUP_DENIED,
)
row("ApiVersions", ApiKey.API_VERSIONS, 0, lambda _stage: APIS[ApiKey.API_VERSIONS].request())
for rights in (
    lambda stage: [(Operation.CREATE, topic(stage.new))],
    lambda stage: [
        (Operation.CREATE, CLUSTER),
        (Operation.DESCRIBE_CONFIGS, topic(stage.new)),
    ],
):
    row(
        "CreateTopics",
        ApiKey.CREATE_TOPICS,
        7,
        lambda stage: CreateTopicsRequest(
            topics=[
                CreatableTopic(name=name, num_partitions=1, replication_factor=1)
                for name in (stage.new, HIDDEN)
            ],
            validate_only=True,
        ),
        rights,
        TOPIC_DENIED,
    )
row(
    "DeleteTopics",
    ApiKey.DELETE_TOPICS,
    5,
    lambda stage: DeleteTopicsRequest(topic_names=[stage.doomed, ABSENT], timeout_ms=5000),
    lambda stage: [(Operation.DELETE, topic(stage.doomed))],
    TOPIC_DENIED,
)
row(
    "DeleteTopics by id",
    ApiKey.DELETE_TOPICS,
    6,
    lambda stage: DeleteTopicsRequest(
        timeout_ms=5000,
        topics=[
            DeleteTopicState(name=None, topic_id=stage.topic_ids.get(name, UUID(int=9)))
            for name in (stage.doomed_by_id, ABSENT)
        ],
    ),
    lambda stage: [(Operation.DELETE, topic(stage.doomed_by_id))],
    TOPIC_DENIED,
)
row(
    "CreatePartitions",
    ApiKey.CREATE_PARTITIONS,
    3,
    lambda stage: CreatePartitionsRequest(
        validate_only=True,
        timeout_ms=5000,
        topics=[
            CreatePartitionsTopic(name=name, count=2, assignments=None) for name in named(stage)
        ],
    ),
    on_topic(Operation.ALTER),
    TOPIC_DENIED,
)
row(
    "DeleteRecords",
    ApiKey.DELETE_RECORDS,
    2,
    lambda stage: DeleteRecordsRequest(
        timeout_ms=5000,
        topics=[
            DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(offset=0)])
            for name in named(stage)
        ],
    ),
    on_topic(Operation.DELETE),
    TOPIC_DENIED,
)
row(
    # Allowed without a right, because everybody may use topics without entries.
    "InitProducerId",
    ApiKey.INIT_PRODUCER_ID,
    4,
    lambda _stage: InitProducerIdRequest(transactional_id=None),
)
row(
    "InitProducerId of a transactional id",
    ApiKey.INIT_PRODUCER_ID,
    4,
    lambda _stage: InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=1000),
    on_id(Operation.WRITE),
    ID_DENIED,
)
row(
    "AddPartitionsToTxn",
    ApiKey.ADD_PARTITIONS_TO_TXN,
    3,
    lambda stage: AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="id",
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=stage.topic, partitions=[0])],
    ),
    lambda stage: [*on_id(Operation.WRITE)(stage), *on_topic(Operation.WRITE)(stage)],
    ID_DENIED,
)
row(
    "AddPartitionsToTxn of brokers",
    ApiKey.ADD_PARTITIONS_TO_TXN,
    5,
    lambda stage: AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id="id",
                verify_only=True,
                topics=[AddPartitionsToTxnTopic(name=stage.topic, partitions=[0])],
            )
        ]
    ),
    on_cluster(Operation.CLUSTER_ACTION),
    CLUSTER_DENIED,
)
row(
    "AddOffsetsToTxn",
    ApiKey.ADD_OFFSETS_TO_TXN,
    4,
    lambda _stage: AddOffsetsToTxnRequest(transactional_id="id", group_id=GROUP),
    lambda stage: [*on_id(Operation.WRITE)(stage), *on_group(Operation.READ)(stage)],
    ID_DENIED,
)
row(
    "EndTxn",
    ApiKey.END_TXN,
    4,
    lambda _stage: EndTxnRequest(transactional_id="id", committed=True),
    on_id(Operation.WRITE),
    ID_DENIED,
)
for rights in (on_topic(Operation.DESCRIBE), on_cluster(Operation.CLUSTER_ACTION)):
    row(
        "OffsetForLeaderEpoch",
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        lambda stage: OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                OffsetForLeaderTopic(topic=name, partitions=[OffsetForLeaderPartition()])
                for name in named(stage)
            ],
        ),
        rights,
        TOPIC_DENIED,
    )
row(
    "DescribeProducers",
    ApiKey.DESCRIBE_PRODUCERS,
    0,
    lambda stage: DescribeProducersRequest(
        topics=[
            DescribeProducersTopic(name=name, partition_indexes=[0])
            for name in (*named(stage), "bad name")
        ]
    ),
    on_topic(Operation.READ),
    TOPIC_DENIED,
)
row(
    "TxnOffsetCommit",
    ApiKey.TXN_OFFSET_COMMIT,
    3,
    lambda stage: TxnOffsetCommitRequest(
        transactional_id="id",
        group_id=GROUP,
        producer_id=7,
        producer_epoch=0,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=stage.topic,
                partitions=[TxnOffsetCommitRequestPartition(committed_metadata="")],
            )
        ],
    ),
    lambda stage: [
        (Operation.WRITE, ResourcePattern(ResourceType.TRANSACTIONAL_ID, "id")),
        (Operation.READ, group(GROUP)),
        (Operation.READ, topic(stage.topic)),
    ],
    ID_DENIED,
    is_between_brokers=True,
)
for right in (Operation.ALTER, Operation.CLUSTER_ACTION):
    row(
        "WriteTxnMarkers",
        ApiKey.WRITE_TXN_MARKERS,
        1,
        lambda stage: WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=7,
                    producer_epoch=0,
                    transaction_result=False,
                    topics=[WritableTxnMarkerTopic(name=stage.topic, partition_indexes=[0])],
                    coordinator_epoch=0,
                )
            ]
        ),
        on_cluster(right),
        CLUSTER_DENIED,
    )
row(
    "DescribeTransactions",
    ApiKey.DESCRIBE_TRANSACTIONS,
    0,
    lambda _stage: DescribeTransactionsRequest(transactional_ids=["id"]),
    on_id(Operation.DESCRIBE),
    ID_DENIED,
)
row(
    "ListTransactions",
    ApiKey.LIST_TRANSACTIONS,
    0,
    lambda _stage: ListTransactionsRequest(),
)
row(
    "DescribeAcls",
    ApiKey.DESCRIBE_ACLS,
    3,
    lambda _stage: DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter="nothing",
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    ),
    on_cluster(Operation.DESCRIBE),
    CLUSTER_DENIED,
)
row(
    "CreateAcls",
    ApiKey.CREATE_ACLS,
    3,
    lambda _stage: CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=kind,
                resource_name="nothing",
                principal="User:nobody",
                host="*",
                operation=3,
                permission_type=3,
            )
            for kind in (ResourceType.TOPIC, ResourceType.CLUSTER)
        ]
    ),
    on_cluster(Operation.ALTER),
    CLUSTER_DENIED,
)
row(
    "DeleteAcls",
    ApiKey.DELETE_ACLS,
    3,
    lambda _stage: DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=2,
                resource_name_filter="absent",
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            )
        ]
    ),
    on_cluster(Operation.ALTER),
    CLUSTER_DENIED,
)


def resources(stage: Stage) -> list[tuple[int, str]]:
    return [(2, stage.topic), (2, HIDDEN), (2, ABSENT), (4, "")]


for rights in (
    on_topic(Operation.DESCRIBE_CONFIGS),
    on_cluster(Operation.DESCRIBE_CONFIGS),
    lambda stage: [(Operation.ALTER_CONFIGS, topic(stage.topic))],
):
    row(
        "DescribeConfigs",
        ApiKey.DESCRIBE_CONFIGS,
        4,
        lambda stage: DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=kind, resource_name=name, configuration_keys=None
                )
                for kind, name in resources(stage)
            ]
        ),
        rights,
        TOPIC_DENIED | CLUSTER_DENIED,
    )
for rights in (on_topic(Operation.ALTER_CONFIGS), on_cluster(Operation.ALTER_CONFIGS)):
    row(
        "AlterConfigs",
        ApiKey.ALTER_CONFIGS,
        2,
        lambda stage: AlterConfigsRequest(
            validate_only=True,
            resources=[
                AlterConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configs=[AlterableConfig(name="retention.ms", value="1000")]
                    if kind == 2
                    else [],
                )
                for kind, name in resources(stage)
            ],
        ),
        rights,
        TOPIC_DENIED | CLUSTER_DENIED,
    )
    row(
        "IncrementalAlterConfigs",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        lambda stage: IncrementalAlterConfigsRequest(
            validate_only=True,
            resources=[
                IncrementalResource(
                    resource_type=kind,
                    resource_name=name,
                    configs=[IncrementalConfig(name="retention.ms", value="1000")]
                    if kind == 2
                    else [],
                )
                for kind, name in resources(stage)
            ],
        ),
        rights,
        TOPIC_DENIED | CLUSTER_DENIED,
    )
row(
    "AlterReplicaLogDirs",
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    2,
    lambda stage: AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path="/nowhere",
                topics=[AlterReplicaLogDirTopic(name=stage.topic, partitions=[0])],
            )
        ]
    ),
    on_cluster(Operation.ALTER),
    CLUSTER_DENIED,
)
for version in (2, 4):
    row(
        f"DescribeLogDirs v{version}",
        ApiKey.DESCRIBE_LOG_DIRS,
        version,
        lambda stage: DescribeLogDirsRequest(
            topics=[DescribableLogDirTopic(topic=stage.topic, partitions=[0])]
        ),
        on_cluster(Operation.DESCRIBE),
        CLUSTER_DENIED if version > 2 else frozenset(),
    )
row(
    "ElectLeaders",
    ApiKey.ELECT_LEADERS,
    2,
    lambda stage: ElectLeadersRequest(
        topic_partitions=[TopicPartitions(topic=stage.topic, partitions=[0])], timeout_ms=5000
    ),
    on_cluster(Operation.ALTER),
    CLUSTER_DENIED,
)
row(
    "AlterPartitionReassignments",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    0,
    lambda stage: AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=stage.topic,
                partitions=[ReassignablePartition(partition_index=0, replicas=None)],
            )
        ]
    ),
    on_cluster(Operation.ALTER),
    CLUSTER_DENIED,
)
row(
    "ListPartitionReassignments",
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    0,
    lambda stage: ListPartitionReassignmentsRequest(
        topics=[ListPartitionReassignmentsTopics(name=stage.topic, partition_indexes=[0])]
    ),
    on_cluster(Operation.DESCRIBE),
    CLUSTER_DENIED,
)
row(
    "DescribeClientQuotas",
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    1,
    lambda _stage: DescribeClientQuotasRequest(components=[]),
    on_cluster(Operation.DESCRIBE_CONFIGS),
    CLUSTER_DENIED,
)
row(
    "AlterClientQuotas",
    ApiKey.ALTER_CLIENT_QUOTAS,
    1,
    lambda _stage: AlterClientQuotasRequest(
        validate_only=True,
        entries=[
            AlteredEntry(
                entity=[EntityData(entity_type="user", entity_name="u")],
                ops=[OpData(key="producer_byte_rate", value=1000.0)],
            )
        ],
    ),
    on_cluster(Operation.ALTER_CONFIGS),
    CLUSTER_DENIED,
)
row(
    "DescribeUserScramCredentials",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    0,
    lambda _stage: DescribeUserScramCredentialsRequest(users=[]),
    on_cluster(Operation.DESCRIBE),
    CLUSTER_DENIED,
)
row(
    "AlterUserScramCredentials",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    0,
    lambda _stage: AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name="nobody", mechanism=1)]
    ),
    on_cluster(Operation.ALTER),
    CLUSTER_DENIED,
)
# Over PLAINTEXT they are refused to everybody, before any right is looked at.
row(
    "CreateDelegationToken",
    ApiKey.CREATE_DELEGATION_TOKEN,
    3,
    lambda _stage: CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name="other", max_lifetime_ms=-1
    ),
    lambda _stage: [(Operation.CREATE_TOKENS, ResourcePattern(ResourceType.USER, "User:other"))],
)
row(
    "RenewDelegationToken",
    ApiKey.RENEW_DELEGATION_TOKEN,
    2,
    lambda _stage: RenewDelegationTokenRequest(hmac=b"unknown", renew_period_ms=-1),
    lambda _stage: [],
)
row(
    "ExpireDelegationToken",
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    2,
    lambda _stage: ExpireDelegationTokenRequest(hmac=b"unknown", expiry_time_period_ms=-1),
    lambda _stage: [],
)
row(
    "DescribeDelegationToken",
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    3,
    lambda _stage: DescribeDelegationTokenRequest(owners=None),
    lambda _stage: [(Operation.DESCRIBE_TOKENS, ResourcePattern(ResourceType.USER, "User:other"))],
)
row(
    "DescribeCluster",
    ApiKey.DESCRIBE_CLUSTER,
    1,
    lambda _stage: DescribeClusterRequest(include_cluster_authorized_operations=True),
    on_cluster(Operation.DESCRIBE),
)


CLOSED: Final = "closed"
SETTLE_TIMEOUT_S: Final = 60.0


def send(port: int, one: Row, stage: Stage, host: str) -> object:
    """Send a request; return the summary of its response, or `CLOSED`."""
    with Wire(port, host) as wire:
        try:
            wire.send(one.key, one.version, one.message(stage))
            return summary(wire.receive(one.key, one.version)[1])
        except ConnectionError:
            return CLOSED


def with_rights(admin: Wire, rights: Sequence[Right]) -> None:
    """Give the client exactly these rights."""
    remove(admin, AclFilter(host=CLIENT_HOST))
    acls = [acl(operation, pattern) for operation, pattern in rights]
    assert set(add(admin, *acls)) <= {ErrorCode.NONE}


def settle(port: int, stage: Stage, host: str) -> None:
    """Wait until the broker coordinates groups and transactions, and allocates producer ids."""
    find, heartbeat, allocate, find_transactions, initialize = (
        next(each for each in ROWS if each.name == name)
        for name in (
            "FindCoordinator v4",
            "Heartbeat",
            "InitProducerId",
            "FindCoordinator of a transactional id",
            "InitProducerId of a transactional id",
        )
    )
    send(port, find, stage, host)
    send(port, find_transactions, stage, host)
    is_ready = {"error_code": ErrorCode.UNKNOWN_MEMBER_ID}
    wait_until(lambda: send(port, heartbeat, stage, host) == is_ready, SETTLE_TIMEOUT_S)
    has_ids = {"error_code": ErrorCode.NONE}
    wait_until(lambda: send(port, allocate, stage, host) == has_ids, SETTLE_TIMEOUT_S)
    wait_until(lambda: send(port, initialize, stage, host) == has_ids, SETTLE_TIMEOUT_S)


def summary(value: object) -> object:
    """Return errors, names and numbers of a response, with lists in a fixed order."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = {}
        for each in dataclasses.fields(value):
            inner = getattr(value, each.name)
            if isinstance(inner, list | tuple) and each.name not in DROPPED:
                if any(dataclasses.is_dataclass(item) for item in inner):
                    found[each.name] = sorted((summary(item) for item in inner), key=str)
            elif each.name in KEPT:
                found[each.name] = inner
        return found
    return value


def codes(found: object) -> set[ErrorCode]:
    """Return the errors in a summary that deny a right."""
    if isinstance(found, dict):
        own = {ErrorCode(found[name]) for name in ERROR_FIELDS if name in found}
        return (own & CODES).union(*map(codes, found.values()))
    if isinstance(found, list):
        return set().union(*map(codes, found))
    return set()


def is_created(admin: Wire, name: str) -> bool:
    """Create a topic, unless it exists; return False while there are no brokers for it."""
    created = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    return admin.create_topic(name).error_code in created


def prepare(admin: Wire, *clients: str) -> Mapping[str, Stage]:
    """Create the topics of the clients; return their stages."""
    names = [HIDDEN]
    for client in clients:
        stage = Stage(client=client, topic_ids={})
        names += [stage.topic, stage.doomed, stage.doomed_by_id]
    for name in names:
        wait_until(partial(is_created, admin, name))
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    found = admin.ask(ApiKey.METADATA, 12, request, MetadataResponse)
    ids = {each.name: each.topic_id for each in found.topics if each.name is not None}
    return {client: Stage(client=client, topic_ids=ids) for client in clients}
